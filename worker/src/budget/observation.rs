//! What an answer of ARM says about its buckets, as far as the budget cares.

use std::time::Duration;

use super::key::Class;

/// What one answer says about ARM's budget.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observation {
    /// ARM region that took the call, in lower case. "Remaining" is a figure of that region.
    pub region: Option<String>,
    /// Calls left for this principal in this subscription (or tenant) and region.
    pub remaining: Vec<(Class, u32)>,
    /// Set if ARM said 429: nobody should call before this time is over, by our clock.
    pub throttled_for: Option<Duration>,
    /// Set on a 429 if ARM itself said so, and not a resource provider behind it.
    pub by_gateway: bool,
}
