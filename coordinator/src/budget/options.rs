//! The settings of the ledger.

use std::time::Duration;

use flotilla_proto::{Class, Limit, timing};

/// Times and rates of the ledger.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How much faster ARM's clock runs than ours: 1 for the real one.
    pub time_scale: f64,
    /// How long a grant can be spent, counted from when the worker sent its request.
    pub valid: Duration,
    /// How long after its end a grant may still be given back. Later it counts as spent.
    pub settle_within: Duration,
    /// How long a request stands when the worker does not repeat it.
    pub demand_for: Duration,
    /// A worker not heard for this long may live on its share, which is then kept free for it. Shorter than a worker's
    /// own patience, so that the share is free before it is used.
    pub away_after: Duration,
    /// How long the share of a worker that is back is still kept free: the way of the answer that ends its use.
    pub back_after: Duration,
    /// How long a new leader that has met nobody who remembers a share keeps everything free for live workers it has
    /// not heard. Then it takes the fleet for a new one in which some cannot reach it, and keeps equal parts for those.
    pub unheard_for: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            time_scale: 1.0,
            valid: timing::BUDGET_VALID_FOR,
            settle_within: timing::BUDGET_SETTLE_WITHIN,
            demand_for: timing::BUDGET_DEMAND_FOR,
            away_after: timing::BUDGET_AWAY_AFTER,
            back_after: timing::BUDGET_BACK_AFTER,
            unheard_for: timing::BUDGET_UNHEARD_FOR,
        }
    }
}

impl Options {
    /// What is handed out of a bucket of this class.
    pub fn limit(&self, class: Class) -> Limit {
        class.limit().scaled(self.time_scale).handed_out()
    }
}
