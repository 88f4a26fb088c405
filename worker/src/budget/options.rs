//! Times of the spender.

use std::time::Duration;

use flotilla_proto::{Class, Limit, timing};

/// Settings of the spender.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How much faster ARM's clock runs than ours: 1 for the real one.
    pub time_scale: f64,
    /// How long a request may stay unanswered before we live on our share. Longer than the leader's
    /// `Options::away_after`, so that the leader keeps our share free before we use it.
    pub patience: Duration,
    /// How often the leader hears from us, whether or not we want something.
    pub renew: Duration,
    /// Tokens that no call wanted for this long go back to the leader.
    pub keep_idle: Duration,
    /// A call that has waited this long moves up by one priority, so that none waits for ever.
    pub age: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            time_scale: 1.0,
            patience: timing::BUDGET_PATIENCE,
            renew: timing::BUDGET_RENEW_EVERY,
            keep_idle: timing::BUDGET_KEEP_IDLE,
            age: Duration::from_secs(30),
        }
    }
}

impl Options {
    /// What the fleet hands out of a bucket of this class.
    pub(super) fn limit(&self, class: Class) -> Limit {
        class.limit().scaled(self.time_scale).handed_out()
    }
}
