//! The answer to a call that wants to be made.

use std::time::Instant;

use super::key::BucketKey;
use super::spender::Budget;

/// One call to ARM may be made, now.
///
/// Hold it until the answer was observed: till then the token counts as being in our hands, so that ARM's word on what is
/// left is not taken to include it. Dropping it counts as having made the call: what is not known to be unused is spent.
#[must_use = "a permit that is not used should be given back"]
#[derive(Debug)]
pub struct Permit {
    budget: Budget,
    bucket: BucketKey,
    source: Source,
    used: bool,
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
    pub(super) fn new(budget: Budget, bucket: BucketKey, source: Source) -> Self {
        Self { budget, bucket, source, used: true }
    }

    /// Drops it without a word to the budget, which holds its lock and knows.
    pub(super) fn disarm(mut self) -> Source {
        std::mem::replace(&mut self.source, Source::Share)
    }

    /// Gives the token back because no call was made.
    pub fn give_back(mut self) {
        self.used = false;
    }

    /// Where it counts.
    pub fn bucket(&self) -> &BucketKey {
        &self.bucket
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Source::Grant(grant) = self.source {
            self.budget.finished(&self.bucket, grant, self.used);
        }
    }
}

/// Nobody may call in this bucket for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("ARM asked everybody to wait before the next call of this kind")]
pub struct Parked {
    /// When to try again.
    pub until: Instant,
}
