//! The answer to a call that wants to be made.

use std::time::Instant;

use super::key::BucketKey;
use super::spender::Budget;

/// One call to ARM may be made, now.
///
/// Dropping it counts as having made the call: what is not known to be unused counts as spent.
#[must_use = "a permit that is not used should be given back"]
#[derive(Debug)]
pub struct Permit {
    pub(super) budget: Budget,
    pub(super) bucket: BucketKey,
    pub(super) source: Source,
}

/// Where a token came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// A grant of the leader, by its number.
    Grant(u64),
    /// Our share, while the leader does not answer.
    Share,
}

impl Source {
    /// The word used in metric labels.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Source::Grant(_) => "grant",
            Source::Share => "share",
        }
    }
}

impl Permit {
    /// Gives the token back because no call was made.
    pub fn give_back(self) {
        self.budget.take_back(&self.bucket, self.source);
    }
}

/// Nobody may call in this bucket for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("ARM asked everybody to wait before the next call of this kind")]
pub struct Parked {
    /// When to try again.
    pub until: Instant,
}
