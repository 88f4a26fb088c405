//! Who is in the fleet, judged from the workers' leases alone.
//!
//! A worker is believed dead only when its lease was seen unchanged for `dead_after` on our own monotonic clock, by a read
//! that *began* after that time, and when we then fenced the lease so that it cannot be renewed any more. What the worker's
//! clock says is never compared with ours. A stalled read therefore delays a verdict and never causes one.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use flotilla_proto::WorkerId;

/// How long a silent worker is believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timers {
    /// Unchanged for so long, a worker is given nothing new: it has stopped writing by its own clock.
    pub expired_after: Duration,
    /// Unchanged for so long, its shards may be taken.
    pub dead_after: Duration,
}

/// What a worker is fit for, from nothing to everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum State {
    /// Surely writes no more: its shards may be given to others.
    Dead,
    /// Not seen for a while: keeps its shards and gets no more.
    Expired,
    /// Renews its lease.
    Ready,
}

/// A worker's lease as read from the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseSeen {
    /// The pod in the lease's name.
    pub pod: String,
    /// Who holds it; None once it was released or fenced.
    pub holder: Option<WorkerId>,
    /// Whether we or another leader took it away, rather than the worker having let it go.
    pub fenced: bool,
    /// Changes with each renewal. Only compared for equality.
    pub renewal: String,
    /// The store's version, which guards the fence.
    pub version: String,
}

/// When a read of the leases began and ended, on our clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Read {
    /// Before the request was sent: what it shows is not older.
    pub began: Instant,
    /// After the answer came: what it shows is not newer.
    pub ended: Instant,
}

/// Where a worker's lease stands.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Lease {
    /// Held, with what the last renewal looked like and the version that guards the fence.
    Held { renewal: String, version: String },
    /// Missing, or another's, when last read. It could be taken again, so only a late read is a proof.
    Missing,
    /// Fenced by us: it can't be renewed, so time alone is a proof.
    Fenced,
    /// Let go by the worker after its work had ended.
    Released,
}

#[derive(Clone, Debug)]
struct Member {
    lease: Lease,
    /// The end of the first read that showed this renewal: the renewal itself was earlier.
    changed: Instant,
    /// A read that began late enough showed no newer renewal.
    overdue: bool,
}

/// The fleet's workers and what is known of their leases.
#[derive(Clone, Debug)]
pub(crate) struct Membership {
    timers: Timers,
    members: BTreeMap<WorkerId, Member>,
    /// The end of the first read, from when a worker counts that was never seen.
    first_read: Option<Instant>,
}

impl Membership {
    /// Nobody known yet.
    pub(crate) fn new(timers: Timers) -> Self {
        Self { timers, members: BTreeMap::new(), first_read: None }
    }

    /// Whether the leases were read at least once.
    pub(crate) fn has_read(&self) -> bool {
        self.first_read.is_some()
    }

    /// Takes in one consistent read of all workers' leases. `expected` are workers that own shards, so that one without
    /// a lease is noticed too. Returns workers that took their lease again after it had been fenced: they hold nothing.
    pub(crate) fn observe<'a>(
        &mut self,
        leases: &[LeaseSeen],
        read: Read,
        expected: impl IntoIterator<Item = &'a WorkerId>,
    ) -> Vec<WorkerId> {
        let mut emptied = Vec::new();
        self.first_read.get_or_insert(read.ended);
        for worker in expected {
            self.members.entry(worker.clone()).or_insert(Member {
                lease: Lease::Missing,
                changed: read.ended,
                overdue: false,
            });
        }
        for (lease, holder) in leases.iter().filter_map(|lease| Some((lease, lease.holder.as_ref()?))) {
            if self.observe_held(lease, holder, read) {
                emptied.push(holder.clone());
            }
        }
        let Timers { dead_after, .. } = self.timers;
        for (worker, member) in &mut self.members {
            let lease = leases.iter().find(|lease| lease.pod == worker.pod());
            if lease.is_some_and(|lease| lease.holder.as_ref() == Some(worker)) {
                continue;
            }
            // A vacant lease speaks for its last holder, not for one that another process has replaced before.
            let last_holder = matches!(member.lease, Lease::Held { .. }) || member.changed == read.ended;
            if last_holder && lease.is_some_and(|lease| lease.holder.is_none() && !lease.fenced) {
                member.lease = Lease::Released;
            } else if matches!(member.lease, Lease::Held { .. }) {
                member.lease = Lease::Missing;
            }
            member.overdue |= read.began >= member.changed + dead_after;
        }
        emptied
    }

    /// Says whether the lease had been fenced before. The renewal that meets a fence fails, and with it the worker's shards.
    fn observe_held(&mut self, lease: &LeaseSeen, holder: &WorkerId, read: Read) -> bool {
        let fresh = || Member {
            lease: Lease::Held { renewal: lease.renewal.clone(), version: lease.version.clone() },
            changed: read.ended,
            overdue: false,
        };
        let member = self.members.entry(holder.clone()).or_insert_with(fresh);
        match &mut member.lease {
            Lease::Held { renewal, version } if *renewal == lease.renewal => {
                version.clone_from(&lease.version);
                member.overdue |= read.began >= member.changed + self.timers.dead_after;
            }
            before => {
                let fenced = *before == Lease::Fenced;
                *member = fresh();
                return fenced;
            }
        }
        false
    }

    /// The fence succeeded: the lease can't be renewed under the version we saw.
    pub(crate) fn fenced(&mut self, worker: &WorkerId) {
        if let Some(member) = self.members.get_mut(worker) {
            member.lease = Lease::Fenced;
        }
    }

    /// The lease version to fence, for a worker whose time has run out but whose lease still names it.
    pub(crate) fn to_fence(&self) -> impl Iterator<Item = (&WorkerId, &str)> {
        self.members.iter().filter_map(|(worker, member)| match &member.lease {
            Lease::Held { version, .. } if member.overdue => Some((worker, version.as_str())),
            _ => None,
        })
    }

    /// When the next silent worker can be proved so, by a read that begins then.
    pub(crate) fn next_proof(&self, now: Instant) -> Option<Instant> {
        let silent = self.members.values().filter(|member| !member.overdue && member.lease != Lease::Released);
        silent.map(|member| member.changed + self.timers.dead_after).filter(|at| *at > now).min()
    }

    /// The version of a lease that a worker holds now.
    pub(crate) fn version(&self, worker: &WorkerId) -> Option<&str> {
        match &self.members.get(worker)?.lease {
            Lease::Held { version, .. } => Some(version),
            Lease::Missing | Lease::Fenced | Lease::Released => None,
        }
    }

    /// What the worker is fit for. A worker that was never seen is no more than expired: its lease may be on its way.
    pub(crate) fn state(&self, worker: &WorkerId, now: Instant) -> State {
        let Some(member) = self.members.get(worker) else { return State::Expired };
        match member.lease {
            Lease::Released => State::Dead,
            Lease::Missing | Lease::Fenced if member.overdue => State::Dead,
            Lease::Fenced if now >= member.changed + self.timers.dead_after => State::Dead,
            Lease::Missing | Lease::Fenced => State::Expired,
            Lease::Held { .. } if now >= member.changed + self.timers.expired_after => State::Expired,
            Lease::Held { .. } => State::Ready,
        }
    }

    /// Whether the worker let its lease go itself, which it does only after its work ended.
    pub(crate) fn released(&self, worker: &WorkerId) -> bool {
        self.members.get(worker).is_some_and(|member| member.lease == Lease::Released)
    }

    /// When the last renewal was first seen.
    pub(crate) fn last_seen(&self, worker: &WorkerId) -> Option<Instant> {
        Some(self.members.get(worker)?.changed)
    }

    /// All workers with their states.
    pub(crate) fn states(&self, now: Instant) -> impl Iterator<Item = (&WorkerId, State)> {
        self.members.keys().map(move |worker| (worker, self.state(worker, now)))
    }

    /// Forgets dead workers that nobody asks about any more.
    pub(crate) fn forget_dead(&mut self, now: Instant, still_needed: impl Fn(&WorkerId) -> bool) {
        let dead: Vec<_> = self
            .states(now)
            .filter(|(worker, state)| *state == State::Dead && !still_needed(worker))
            .map(|(worker, _)| worker.clone())
            .collect();
        for worker in dead {
            self.members.remove(&worker);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMERS: Timers = Timers { expired_after: Duration::from_secs(6), dead_after: Duration::from_secs(8) };

    /// The leases in the store, with a clock in seconds.
    struct LeaseTable {
        start: Instant,
        members: Membership,
    }

    impl LeaseTable {
        fn new() -> Self {
            Self { start: Instant::now(), members: Membership::new(TIMERS) }
        }

        fn at(&self, seconds: u64) -> Instant {
            self.start + Duration::from_secs(seconds)
        }

        fn read(&mut self, leases: &[LeaseSeen], began: u64, ended: u64) {
            let read = Read { began: self.at(began), ended: self.at(ended) };
            self.members.observe(leases, read, &[worker("a", "1")]);
        }

        fn state(&self, incarnation: &str, at: u64) -> State {
            self.members.state(&worker("a", incarnation), self.at(at))
        }
    }

    fn worker(pod: &str, incarnation: &str) -> WorkerId {
        WorkerId::new(pod, incarnation)
    }

    fn held(incarnation: &str, renewal: &str) -> LeaseSeen {
        let holder = Some(worker("a", incarnation));
        LeaseSeen { pod: "a".into(), holder, fenced: false, renewal: renewal.into(), version: renewal.into() }
    }

    fn vacant(fenced: bool) -> LeaseSeen {
        LeaseSeen { pod: "a".into(), holder: None, fenced, renewal: "x".into(), version: "x".into() }
    }

    #[test]
    fn renewing_worker_is_ready() {
        let mut table = LeaseTable::new();
        table.read(&[held("1", "r1")], 0, 0);
        table.read(&[held("1", "r2")], 7, 7);
        assert_eq!(table.state("1", 12), State::Ready);
    }

    #[test]
    fn silent_worker_is_expired_until_it_is_fenced() {
        let mut table = LeaseTable::new();
        table.read(&[held("1", "r1")], 0, 0);
        assert_eq!(table.state("1", 6), State::Expired);
        assert_eq!(table.members.to_fence().count(), 0);
        assert_eq!(table.members.next_proof(table.at(6)), Some(table.at(8)));
        table.read(&[held("1", "r1")], 8, 8);
        assert_eq!(table.state("1", 9), State::Expired, "it could still renew");
        assert_eq!(table.members.to_fence().collect::<Vec<_>>(), [(&worker("a", "1"), "r1")]);
        table.members.fenced(&worker("a", "1"));
        assert_eq!(table.state("1", 9), State::Dead);
    }

    #[test]
    fn read_that_began_early_and_ended_late_proves_nothing() {
        let mut table = LeaseTable::new();
        table.read(&[held("1", "r1")], 0, 0);
        table.read(&[held("1", "r1")], 7, 20);
        assert_eq!(table.members.to_fence().count(), 0);
    }

    #[test]
    fn fence_ahead_of_time_waits_for_the_workers_own_clock() {
        let mut table = LeaseTable::new();
        table.read(&[held("1", "r1")], 0, 1);
        table.members.fenced(&worker("a", "1"));
        assert_eq!(table.state("1", 8), State::Expired);
        assert_eq!(table.state("1", 9), State::Dead);
    }

    #[test]
    fn worker_that_takes_its_lease_again_after_a_fence_holds_nothing() {
        let mut table = LeaseTable::new();
        table.read(&[held("1", "r1")], 0, 0);
        table.read(&[held("1", "r2")], 1, 1);
        table.members.fenced(&worker("a", "1"));
        let read = Read { began: table.at(3), ended: table.at(3) };
        assert_eq!(table.members.observe(&[held("1", "r3")], read, []), [worker("a", "1")]);
        assert_eq!(table.state("1", 3), State::Ready);
        assert!(table.members.observe(&[held("1", "r4")], read, []).is_empty());
    }

    #[test]
    fn released_lease_frees_the_worker_at_once() {
        let mut table = LeaseTable::new();
        table.read(&[held("1", "r1")], 0, 0);
        table.read(&[vacant(false)], 1, 1);
        assert_eq!(table.state("1", 1), State::Dead);
        assert!(table.members.released(&worker("a", "1")));
    }

    #[test]
    fn fenced_or_missing_lease_is_no_release() {
        for leases in [vec![vacant(true)], vec![]] {
            let mut table = LeaseTable::new();
            table.read(&leases, 0, 0);
            assert_eq!(table.state("1", 100), State::Expired, "{leases:?}");
            table.read(&leases, 7, 9);
            assert_eq!(table.state("1", 9), State::Expired, "{leases:?}");
            table.read(&leases, 8, 9);
            assert_eq!(table.state("1", 9), State::Dead, "{leases:?}");
        }
    }

    #[test]
    fn restarted_pod_is_ready_while_its_former_process_is_waited_for() {
        let mut table = LeaseTable::new();
        table.read(&[held("1", "r1")], 0, 0);
        table.read(&[held("2", "r2")], 3, 3);
        assert_eq!((table.state("2", 3), table.state("1", 7)), (State::Ready, State::Expired));
        table.read(&[held("2", "r3")], 8, 8);
        assert_eq!((table.state("2", 8), table.state("1", 8)), (State::Ready, State::Dead));
    }

    #[test]
    fn unknown_worker_gets_nothing_and_loses_nothing() {
        assert_eq!(LeaseTable::new().state("1", 100), State::Expired);
    }
}
