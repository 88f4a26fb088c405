//! Spends the worker's part of ARM's rate limits.
//!
//! *Flow.* Every call to ARM first [acquires](Budget::acquire) a permit. Tokens are asked for in batches, ahead of demand,
//! from the leader, which keeps the ledger of the whole fleet; they are spent by priority and given back when they are not
//! needed. What ARM's answers say about its buckets is [passed on](Budget::observe).
//!
//! *Guarantees.* A token is spent once and only while its grant is valid, counted from when it was asked for. While a
//! bucket is parked after a 429 nobody gets a permit for it. A worker that the leader does not answer lives on its last
//! share of each bucket, evenly, without a burst.
//!
//! *Caveats.* A permit is not a claim: check that the object is still ours after waiting for one.
//!
//! [`bucket`], [`queue`], [`share`] and [`state`] decide, with the time passed in; [`spender`] takes the lock for a decision, and
//! sends what came of it after the lock is released.

mod bucket;
mod key;
mod metrics;
mod observation;
mod options;
mod permit;
mod queue;
mod share;
mod spender;
mod state;
#[cfg(test)]
mod tests;

pub use key::{BucketKey, Class, Priority};
pub use metrics::Metrics;
pub use observation::Observation;
pub use options::Options;
pub use permit::{Parked, Permit};
pub use spender::{Budget, Spender};
