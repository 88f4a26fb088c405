//! Between a custom resource and ARM: what a spec needs from elsewhere, the PUT body, the status, and what differs.
//!
//! *Flow*: `inputs` lists the references and the keys of Secrets and config maps that a spec names; the caller looks them up and puts what it found
//! into `Resolved`; `put_body` then makes the body without further input. `status` turns the answer of a GET around.
//!
//! Kept true here: an error names the field of the custom resource as its author wrote it; secrets are in no `Debug` and in no error.

mod children;
mod drift;
mod inputs;
mod put;
mod status;
mod validate;

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use crate::arm_id::ArmId;

pub use drift::{Change, Difference};
pub use inputs::{Inputs, KeyInput, Reference, Target};
pub use put::BodyError;
pub use validate::{Problem, Violation};

/// The path of a field, as in `spec.identity.userAssignedIdentities[0].reference`.
pub type FieldPath = String;

/// A value read from a Secret. Its `Debug` hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretValue(String);

impl SecretValue {
    /// Wraps a value.
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// The value itself.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretValue(…)")
    }
}

/// What the inputs of a spec were found to be, by the path of the field that names them.
#[derive(Clone, Debug, Default)]
pub struct Resolved {
    /// ARM ids of references.
    pub references: HashMap<FieldPath, ArmId>,
    /// Names of well-known resources that go into the body as they are, as `system` does; those with an id are in `references`.
    pub well_known: HashMap<FieldPath, String>,
    /// Values of keys of Secrets.
    pub secrets: HashMap<FieldPath, SecretValue>,
    /// All keys of a Secret, for fields that take a whole one.
    pub secret_maps: HashMap<FieldPath, BTreeMap<String, SecretValue>>,
    /// Values of keys of config maps.
    pub config: HashMap<FieldPath, String>,
}

/// `path.name`, or `path[name]` where the name has characters that would be misread.
pub(crate) fn below(path: &str, name: &str) -> FieldPath {
    if name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-' || b == b'$') {
        format!("{path}.{name}")
    } else {
        format!("{path}[{name}]")
    }
}

/// Fields of a spec that are about the object and not in its shape.
pub(crate) const ENVELOPE: [&str; 6] =
    ["azureName", "azureNameFromConfig", "owner", "operatorSpec", "originalVersion", "$propertyBag"];
