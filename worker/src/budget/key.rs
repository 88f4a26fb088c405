//! Names one of ARM's token buckets, and which call spends from it first.

use std::fmt;

pub use flotilla_proto::{BucketKey, Class};

/// Why a call is made, in the order in which calls are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// A user changed the object and waits for the result.
    UserChange,
    /// The object is being deleted.
    Delete,
    /// Asks for the state of a long-running operation.
    Poll,
    /// Retries after an error.
    Retry,
    /// Checks that an unchanged object still is as it should be.
    Resync,
}

impl Priority {
    /// All of them, most urgent first.
    pub const ALL: [Self; 5] = [Self::UserChange, Self::Delete, Self::Poll, Self::Retry, Self::Resync];

    /// The word used in metric labels.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::UserChange => "user_change",
            Self::Delete => "delete",
            Self::Poll => "poll",
            Self::Retry => "retry",
            Self::Resync => "resync",
        }
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
