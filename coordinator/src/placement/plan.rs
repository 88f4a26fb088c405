//! The steps that placement decides on, each with its reason, printed alike in logs, tests and the debug page.

use std::fmt;

use flotilla_proto::{Key, KeyRange, WorkerId};

use super::short;
use crate::handoff::Reason;

/// One step. They are carried out in order.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    /// Cut a shard; both parts stay with its owner.
    Split {
        /// The shard.
        range: KeyRange,
        /// First key of the right part.
        at: Key,
        /// What the whole shard costs.
        cost: f64,
        /// Why.
        reason: Reason,
    },
    /// Join two neighbours of one owner.
    Merge {
        /// The left one.
        left: KeyRange,
        /// First key of the right one.
        at: Key,
    },
    /// Give a shard that nobody holds to a worker.
    Assign {
        /// The shard.
        range: KeyRange,
        /// Who had it last.
        from: Option<WorkerId>,
        /// Who gets it.
        to: WorkerId,
        /// What it costs.
        cost: f64,
        /// The mean load of a worker at this moment.
        mean: f64,
        /// How it became free.
        reason: Reason,
    },
    /// Ask the owner to give a shard up so that another worker gets it.
    Move {
        /// The shard.
        range: KeyRange,
        /// Who has it.
        from: Option<WorkerId>,
        /// Who gets it.
        to: WorkerId,
        /// What it costs.
        cost: f64,
        /// The mean load of a worker at this moment.
        mean: f64,
        /// Why.
        reason: Reason,
    },
}

/// Steps in the order in which to take them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Plan {
    /// The steps.
    pub steps: Vec<Step>,
    /// Whether another round should follow even for small differences.
    pub balancing: bool,
}

impl Plan {
    /// Whether there is nothing to do.
    pub(crate) fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |worker: &Option<WorkerId>| worker.as_ref().map_or_else(|| "nobody".to_owned(), ToString::to_string);
        match self {
            Step::Split { range, at, cost, reason } => {
                write!(f, "split {} at {} ({reason}, cost {cost:.2})", short(&range.start), short(at))
            }
            Step::Merge { left, at } => write!(f, "merge {} with {} (cold)", short(&left.start), short(at)),
            Step::Assign { range, from, to, cost, mean, reason }
            | Step::Move { range, from, to, cost, mean, reason } => {
                let from = name(from);
                write!(f, "{} {from}->{to} ({reason}, cost {cost:.2} of mean {mean:.2})", short(&range.start))
            }
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("moves=[")?;
        for (index, step) in self.steps.iter().enumerate() {
            write!(f, "{}{step}", if index == 0 { "" } else { ", " })?;
        }
        f.write_str("]")
    }
}
