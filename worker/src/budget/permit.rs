//! The answer to a call that wants to be made.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use super::key::BucketKey;

/// One call to ARM may be made, now.
///
/// Hold it until the answer was observed: till then the token counts as being in our hands, so that ARM's word on what is
/// left is not taken to include it. Dropping it counts as having made the call: what is not known to be unused is spent.
#[must_use = "a permit that is not used should be given back"]
#[derive(Debug)]
pub struct Permit {
    ledger: Arc<dyn Ledger>,
    bucket: BucketKey,
    source: Source,
    used: bool,
}

/// Where it is written down what became of a token.
pub(super) trait Ledger: fmt::Debug + Send + Sync {
    /// The call of a permit has its answer, or was not made.
    fn finished(&self, bucket: &BucketKey, grant: u64, used: bool);
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
    pub(super) fn new(ledger: Arc<dyn Ledger>, bucket: BucketKey, source: Source) -> Self {
        Self { ledger, bucket, source, used: true }
    }

    /// Gives the token back because no call was made.
    pub fn give_back(mut self) {
        self.used = false;
    }

    /// Where it counts.
    #[cfg(test)]
    pub(super) fn bucket(&self) -> &BucketKey {
        &self.bucket
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Source::Grant(grant) = self.source {
            self.ledger.finished(&self.bucket, grant, self.used);
        }
    }
}

/// Nobody may call in this bucket for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Azure asked Flotilla to wait before the next call of this kind")]
pub struct Parked {
    /// When to try again.
    pub until: Instant,
}
