//! How a reconcile left its object, and what follows: when the next one is due, and whose changes bring it forward.

use std::time::Instant;

use super::memory::Mind;
use super::object::Id;
use super::queue::Class;
use super::standing::Standing;
use crate::fleet::Handover;

/// When the object is reconciled next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// After a resync period: nothing is left to do. Never, where resync is off.
    AfterResync,
    /// At this time.
    At {
        /// The time.
        due: Instant,
        /// Why, for the order in the queue.
        class: Class,
    },
}

/// Whose changes bring the next reconcile forward.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WaitsFor {
    /// The same objects as before: this reconcile did not look up what the object refers to.
    Unchanged,
    /// These, and no others.
    These(Vec<Id>),
}

impl WaitsFor {
    /// No object's.
    pub(crate) const NOBODY: Self = Self::These(Vec::new());
}

/// How a reconcile left an object that stays.
#[derive(Debug)]
pub(crate) struct Done {
    /// What to remember.
    pub mind: Mind,
    /// When the next reconcile is due.
    pub next: Next,
    /// What may bring it forward.
    pub waits_for: WaitsFor,
    /// Clean once Azure was read or a claim written: unfinished work of a former owner is known then.
    pub handover: Handover,
    /// How the object stands now, as far as the reconcile knows better than the watch.
    pub standing: Option<Standing>,
}
