//! Why a spec gives no request: the field, the cause and the next step.

use std::fmt;

use crate::body::{BodyError, FieldPath};
use crate::kind::{NameError, OwnerError};

/// Why a spec gives no request until somebody changes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The field that is to blame.
    pub path: FieldPath,
    /// What is wrong with it.
    pub cause: Cause,
}

/// What is wrong with a field. Its text does not repeat the field, unless the field is a part of what it says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Cause {
    /// The kind has an owner and the spec names none.
    #[error("the owner is missing")]
    NoOwner,
    /// The owner is of the wrong type.
    #[error(transparent)]
    Owner(OwnerError),
    /// A reference that can't be followed.
    #[error("{0}")]
    Malformed(String),
    /// An owner by a well-known name.
    #[error("a well-known name can't own anything")]
    WellKnownOwner,
    /// A reference by a well-known name.
    #[error("Flotilla does not resolve the well-known name {0:?} yet")]
    WellKnown(String),
    /// A kind that the catalog does not have.
    #[error("no kind {kind} in {group:?}")]
    UnknownKind {
        /// Its group.
        group: String,
        /// Its name.
        kind: String,
    },
    /// A kind whose objects are not resources of ARM.
    #[error("{0} objects have no ARM id, so nothing can belong or refer to them")]
    NotOfArm(String),
    /// The name can't be used.
    #[error(transparent)]
    Name(NameError),
    /// The rest of the spec.
    #[error(transparent)]
    Body(BodyError),
}

impl Error {
    pub(super) fn new(path: impl Into<FieldPath>, cause: Cause) -> Self {
        Self { path: path.into(), cause }
    }

    /// What its author should do, as in "correct spec.owner".
    pub fn next(&self) -> String {
        match &self.cause {
            Cause::NoOwner => format!("name the resource that this one belongs to in {}", self.path),
            Cause::WellKnown(_) => format!("name the resource by {}.armId", self.path),
            _ => format!("correct {}", self.path),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause {
            // These name the field.
            Cause::Body(error) => error.fmt(f),
            Cause::Name(error) => error.fmt(f),
            cause => write!(f, "{}: {cause}", self.path),
        }
    }
}

impl std::error::Error for Error {}
