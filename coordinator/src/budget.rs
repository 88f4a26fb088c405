//! The ledger of ARM's rate limits: what each bucket holds and who was granted what.
//!
//! *Flow.* Workers ask for tokens over their stream; the [`Desk`] turns their messages into calls of the [`Ledger`] and
//! the ledger's grants into messages. A grant ends after a few seconds; what was not used comes back.
//!
//! *Guarantees.* For each bucket, the tokens on hand plus those in workers' hands never exceed what ARM's own bucket
//! holds, so calls that follow the grants are not answered 429 unless somebody else spends from the same bucket. That
//! holds for any order, delay or loss of messages and for any crash: what is not known to be unused counts as spent.
//!
//! *Assumptions.* The leader's and the workers' monotonic clocks run equally fast. A worker that hears nothing from the
//! leader lives on its share (bucket / workers), but not before [`Options::away_after`] has passed here too.
//!
//! *Caveats.* Other tools on the same identity are seen through ARM's headers only, so they can cause a 429 before the
//! ledger has noticed them.

mod bucket;
mod desk;
mod ledger;
mod members;
mod metrics;
mod options;
mod regions;
#[cfg(test)]
mod tests;

pub use desk::{Desk, Outgoing, To};
#[cfg(test)]
pub(crate) use ledger::{Grant, Ledger};
pub use metrics::Metrics;
pub use options::Options;
