//! What a shard's owner is doing with it, from revoke to the next grant.
//!
//! It keeps true that a shard can be granted again only after its owner said that it gave it up, or is surely dead; and
//! that every wait ends: a revoke that is not answered by its deadline makes the owner lose its lease.

use std::time::Instant;

use flotilla_proto::WorkerId;

/// Where a shard stands between two owners.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Tenure {
    /// The map names an owner that this leader has not heard yet.
    Unconfirmed,
    /// Its owner holds it, or will as soon as the grant reaches it.
    Held,
    /// Its owner was asked to give it up.
    Revoking(Revoking),
    /// Nobody holds it.
    Vacant(Vacancy),
}

/// A revoke under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Revoking {
    /// Who gets it next; None where that is decided when it is free.
    pub to: Option<WorkerId>,
    /// When the revoke was first asked for.
    pub since: Instant,
    /// When the owner is fenced if it has not answered.
    pub deadline: Instant,
    /// Whether the owner lost its lease over this one.
    pub fenced: bool,
}

/// Why nobody holds a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Vacancy {
    /// The former owner did not acknowledge, so the next one reads before it writes.
    pub unclean: bool,
    /// Who was to get it.
    pub to: Option<WorkerId>,
    /// How it became free.
    pub reason: Reason,
    /// Since when it has been on its way: from the revoke, or from the last sign of a dead owner.
    pub since: Instant,
}

/// Why a shard changes hands. A closed set: it is a metric's label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Reason {
    /// Nobody ever had it.
    Unowned,
    /// Its owner's lease ran out.
    LeaseExpired,
    /// Its owner stops, and said so.
    Leaving,
    /// Its owner does not hold it though the map names it: a grant was lost, or the worker started afresh.
    NotHeld,
    /// The load was uneven.
    Balance,
}

impl Reason {
    /// The word used in logs, on the debug page and as a label.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Reason::Unowned => "unowned",
            Reason::LeaseExpired => "lease expired",
            Reason::Leaving => "leaving",
            Reason::NotHeld => "not held",
            Reason::Balance => "balance",
        }
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a worker's Hello says about a shard that the map gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holding {
    /// It holds every key of it.
    All,
    /// It holds some of its keys.
    Part,
    /// It holds none.
    Nothing,
}

/// What the leader has to do after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Do {
    /// Nothing.
    Nothing,
    /// Send Revoke to the owner.
    Revoke,
    /// Take the owner's lease away.
    Fence,
}

impl Tenure {
    /// A shard as a new leader finds it: `owned` says whether the map names an owner, `ever` whether it ever had one.
    pub(crate) fn found(owned: bool, ever: bool, now: Instant) -> Self {
        if owned {
            return Tenure::Unconfirmed;
        }
        Tenure::Vacant(Vacancy { unclean: ever, to: None, reason: Reason::Unowned, since: now })
    }

    /// The owner says what it holds on a new stream; what an older stream still carried is void.
    pub(crate) fn hello(&mut self, holding: Holding, deadline: Instant, now: Instant) -> Do {
        match (&*self, holding) {
            (Tenure::Vacant(_), _) => Do::Nothing,
            (Tenure::Unconfirmed | Tenure::Held, Holding::All) => {
                *self = Tenure::Held;
                Do::Nothing
            }
            (Tenure::Unconfirmed | Tenure::Held, Holding::Part) => self.revoke(None, deadline, now),
            (Tenure::Unconfirmed | Tenure::Held, Holding::Nothing) => {
                *self = Self::vacant(true, None, Reason::NotHeld, now);
                Do::Nothing
            }
            (Tenure::Revoking(_), Holding::All | Holding::Part) => Do::Revoke,
            (Tenure::Revoking(revoking), Holding::Nothing) => {
                *self = Self::vacant(true, revoking.to.clone(), Reason::Balance, revoking.since);
                Do::Nothing
            }
        }
    }

    /// Asks the owner to give the shard up. A revoke under way only gets another destination.
    pub(crate) fn revoke(&mut self, to: Option<WorkerId>, deadline: Instant, now: Instant) -> Do {
        match self {
            Tenure::Vacant(vacancy) => vacancy.to = to,
            Tenure::Revoking(revoking) => revoking.to = to,
            Tenure::Unconfirmed | Tenure::Held => {
                *self = Tenure::Revoking(Revoking { to, since: now, deadline, fenced: false });
                return Do::Revoke;
            }
        }
        Do::Nothing
    }

    /// The owner gave it up: asked to, or because it stops.
    pub(crate) fn released(&mut self, now: Instant) -> bool {
        let vacant = match self {
            Tenure::Vacant(_) => return false,
            Tenure::Revoking(revoking) => Self::vacant(false, revoking.to.clone(), Reason::Balance, revoking.since),
            Tenure::Unconfirmed | Tenure::Held => Self::vacant(false, None, Reason::Leaving, now),
        };
        *self = vacant;
        true
    }

    /// The owner surely writes no more. `clean` if it let its lease go itself, after its work had ended.
    pub(crate) fn owner_died(&mut self, clean: bool, since: Instant) -> bool {
        if matches!(self, Tenure::Vacant(_)) {
            return false;
        }
        let to = match self {
            Tenure::Revoking(revoking) => revoking.to.take(),
            _ => None,
        };
        let reason = if clean { Reason::Leaving } else { Reason::LeaseExpired };
        *self = Self::vacant(!clean, to, reason, since);
        true
    }

    /// Time passed.
    pub(crate) fn tick(&mut self, now: Instant) -> Do {
        match self {
            Tenure::Revoking(revoking) if !revoking.fenced && now >= revoking.deadline => {
                revoking.fenced = true;
                Do::Fence
            }
            _ => Do::Nothing,
        }
    }

    /// Whether it may be granted now.
    pub(crate) fn is_vacant(&self) -> bool {
        matches!(self, Tenure::Vacant(_))
    }

    fn vacant(unclean: bool, to: Option<WorkerId>, reason: Reason, since: Instant) -> Self {
        Tenure::Vacant(Vacancy { unclean, to, reason, since })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn later(now: Instant) -> Instant {
        now + Duration::from_secs(10)
    }

    #[test]
    fn planned_move_is_clean_and_keeps_its_destination() {
        let now = Instant::now();
        let mut tenure = Tenure::Held;
        let next = WorkerId::new("b", "1");
        assert_eq!(tenure.revoke(Some(next.clone()), later(now), now), Do::Revoke);
        assert!(!tenure.is_vacant());
        assert!(tenure.released(now));
        let Tenure::Vacant(vacancy) = tenure else { panic!("{tenure:?}") };
        assert_eq!((vacancy.unclean, vacancy.to), (false, Some(next)));
    }

    #[test]
    fn unanswered_revoke_ends_in_one_fence_and_an_unclean_take_over() {
        let now = Instant::now();
        let mut tenure = Tenure::Held;
        tenure.revoke(None, later(now), now);
        assert_eq!(tenure.tick(now), Do::Nothing);
        assert_eq!(tenure.tick(later(now)), Do::Fence);
        assert_eq!(tenure.tick(later(now)), Do::Nothing);
        assert!(!tenure.is_vacant(), "the owner may still write until its lease has run out");
        tenure.owner_died(false, now);
        assert!(matches!(tenure, Tenure::Vacant(Vacancy { unclean: true, .. })));
    }

    #[test]
    fn second_revoke_and_second_release_change_nothing() {
        let now = Instant::now();
        let mut tenure = Tenure::Held;
        assert_eq!(tenure.revoke(None, later(now), now), Do::Revoke);
        assert_eq!(tenure.revoke(None, later(later(now)), now), Do::Nothing);
        assert_eq!(tenure.tick(later(now)), Do::Fence, "asking again does not move the deadline");
        assert!(tenure.released(now) && !tenure.released(now));
    }

    #[test]
    fn owner_that_holds_only_a_part_gives_it_up_first() {
        let now = Instant::now();
        let mut tenure = Tenure::Unconfirmed;
        assert_eq!(tenure.hello(Holding::Part, later(now), now), Do::Revoke);
        assert!(!tenure.is_vacant());
    }

    #[test]
    fn revoke_is_repeated_on_a_new_stream() {
        let now = Instant::now();
        let mut tenure = Tenure::Held;
        tenure.revoke(None, later(now), now);
        assert_eq!(tenure.hello(Holding::All, later(now), now), Do::Revoke);
        assert_eq!(tenure.hello(Holding::Nothing, later(now), now), Do::Nothing);
        assert!(tenure.is_vacant());
    }
}
