//! Decides what an object needs, and does it.
//!
//! An object's way: [`watch`] sees that it changed, [`record`] puts it in the [`queue`], and [`intake`] begins a [`reconcile`] when
//! it is next. A reconcile gathers what can be known ([`view`], [`resolve`], [`live`]), asks [`decide`] for one [`plan`], carries that out
//! through [`cluster`] and [`azure`], and repeats this until nothing is left to do now. What the worker knows beyond the object is
//! in [`memory`], what is kept of each object between reconciles in [`record`]. [`condition`], [`trouble`] and [`events`] say it to
//! people.
//!
//! What other crates may use is at the end: benchmarks decide as the engine does, tests read objects as it does.

pub(crate) mod azure;
mod changes;
pub(crate) mod cluster;
mod condition;
pub(crate) mod context;
mod decide;
mod done;
pub(crate) mod events;
pub(crate) mod intake;
mod live;
pub(crate) mod load;
mod memory;
mod names;
pub(crate) mod object;
mod patch;
mod plan;
mod queue;
mod reconcile;
mod record;
mod resolve;
mod retry;
mod seen;
mod standing;
mod trouble;
mod unready;
mod view;
mod watch;

pub use condition::{Condition, Ready, Reason, replace};
pub use context::Settings;
pub use decide::{Desired, Observed, decide};
pub use live::{Live, State};
pub use memory::{Memory, Operation, Outcome, Resting};
pub use object::{Id, Intent, Object, Policy};
pub use plan::Plan;
pub use seen::Seen;
pub use trouble::Trouble;
pub use view::spec_version;
