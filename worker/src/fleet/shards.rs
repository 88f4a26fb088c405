//! The claim under which everything is written: the shard is held, and our own lease is surely valid.
//!
//! The lease's end is kept on the monotonic clock and counted from the moment *before* the renewal was sent, so that a
//! worker stops before another may take over, whatever the wall clocks say.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use flotilla_proto::{Epoch, Key, KeyRange, Term};
use tokio::sync::watch;

use super::handover::Handover;
use super::held::{Gained, Held, HeldShard, Tenure};

/// The held shards and the lease's end, shared by all who write.
#[derive(Clone, Debug)]
pub struct Shards(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    started: Instant,
    /// Milliseconds since `started`; zero while there is no lease.
    valid_until: AtomicU64,
    held: RwLock<Held>,
    /// The worker is stopping: no new reconcile starts anywhere.
    closed: AtomicBool,
    /// Changes when a shard is revoked or lost, and when the worker stops.
    leaving: watch::Sender<()>,
}

/// The right to write for one object. Ask [`Claim::valid`] right before each write.
#[derive(Clone, Debug)]
pub struct Claim {
    key: Key,
    range_epoch: Epoch,
    tenure: Tenure,
    term: Term,
    shards: Shards,
}

impl Default for Shards {
    fn default() -> Self {
        Self(Arc::new(Inner {
            started: Instant::now(),
            valid_until: AtomicU64::new(0),
            held: RwLock::default(),
            closed: AtomicBool::new(false),
            leaving: watch::Sender::new(()),
        }))
    }
}

impl Shards {
    /// Nothing held, no lease yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The claim for a reconcile of an object; `None` if its shard is not held or is being handed back, or the lease ran out.
    pub fn claim(&self, key: &Key) -> Option<Claim> {
        let held = self.read();
        let shard = held.shard_of(key).filter(|shard| !shard.leaving)?;
        let claim = Claim {
            key: *key,
            range_epoch: shard.epoch,
            tenure: held.tenure(key)?,
            term: held.term(),
            shards: self.clone(),
        };
        drop(held);
        (self.leased(Instant::now()) && !self.is_closed()).then_some(claim)
    }

    /// Starts no new reconcile from now on. Running ones may end.
    pub(crate) fn close(&self) {
        self.0.closed.store(true, Ordering::Release);
        self.0.leaving.send_replace(());
    }

    fn is_closed(&self) -> bool {
        self.0.closed.load(Ordering::Acquire)
    }

    /// How the former owner parted with a key; `None` unless the key is held and not being handed back.
    pub(crate) fn handover(&self, key: &Key) -> Option<Handover> {
        self.read().shard_of(key).filter(|shard| !shard.leaving).map(|shard| shard.handover)
    }

    /// Whether a key is held, even if its shard is being handed back.
    pub(crate) fn holds(&self, key: &Key) -> bool {
        self.read().shard_of(key).is_some()
    }

    /// The lease is valid until then.
    pub fn renew(&self, until: Instant) {
        let milliseconds = until.saturating_duration_since(self.0.started).as_millis();
        self.0.valid_until.store(u64::try_from(milliseconds).unwrap_or(u64::MAX), Ordering::Release);
    }

    /// The lease is no longer valid.
    pub(crate) fn expire(&self) {
        self.0.valid_until.store(0, Ordering::Release);
    }

    /// Whether the lease is surely valid.
    pub fn leased(&self, now: Instant) -> bool {
        let until = self.0.started + Duration::from_millis(self.0.valid_until.load(Ordering::Acquire));
        now < until
    }

    /// A copy of all held ranges.
    pub fn held(&self) -> Vec<HeldShard> {
        self.read().shards().to_vec()
    }

    /// The newest term heard of.
    pub(crate) fn term(&self) -> Term {
        self.read().term()
    }

    /// Takes note of a leader. False if a newer one is known.
    pub(crate) fn hear(&self, term: Term) -> bool {
        self.write().hear(term)
    }

    /// See [`Held::grant`].
    pub fn grant(&self, term: Term, range: KeyRange, epoch: Epoch, handover: Handover) -> Vec<Gained> {
        self.write().grant(term, range, epoch, handover)
    }

    /// See [`Held::revoke`].
    pub(crate) fn revoke(&self, term: Term, range: KeyRange, epoch: Epoch) -> Vec<KeyRange> {
        let leaving = self.write().revoke(term, range, epoch);
        self.0.leaving.send_replace(());
        leaving
    }

    /// See [`Held::keep_revoked`].
    pub(crate) fn keep_revoked(&self) -> Vec<Gained> {
        self.write().keep_revoked()
    }

    /// See [`Held::release`].
    pub(crate) fn release(&self, range: KeyRange) {
        self.write().release(range);
    }

    /// See [`Held::lose_all`].
    pub(crate) fn lose_all(&self) -> Vec<KeyRange> {
        let lost = self.write().lose_all();
        self.0.leaving.send_replace(());
        lost
    }

    fn read(&self) -> RwLockReadGuard<'_, Held> {
        self.0.held.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Held> {
        self.0.held.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Claim {
    /// Whether it still holds: the lease is valid and the key was held all the time since.
    ///
    /// A new leader that leaves the shard where it is does not end it, nor does a shard that is cut or joined.
    pub fn valid(&self, now: Instant) -> bool {
        self.shards.read().tenure(&self.key) == Some(self.tenure) && self.shards.leased(now)
    }

    /// Waits until the shard is revoked or lost. Work that has not begun is better left to the next owner then.
    pub(crate) async fn leaving(&self) {
        let mut changes = self.shards.0.leaving.subscribe();
        loop {
            let stays = self.shards.read().shard_of(&self.key).is_some_and(|shard| !shard.leaving);
            if !stays || self.shards.is_closed() {
                return;
            }
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    /// The epoch it was made under.
    pub(crate) fn epoch(&self) -> Epoch {
        self.range_epoch
    }

    /// The leader's term it was made under.
    pub(crate) fn term(&self) -> Term {
        self.term
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leased() -> Shards {
        let shards = Shards::new();
        shards.renew(Instant::now() + Duration::from_mins(1));
        shards.grant(Term(1), KeyRange::ALL, Epoch(1), Handover::Clean);
        shards
    }

    #[test]
    fn a_claim_ends_with_the_lease() {
        let shards = leased();
        let claim = shards.claim(&Key::MIN).unwrap();
        assert!(claim.valid(Instant::now()));
        assert!(!claim.valid(Instant::now() + Duration::from_mins(2)));
        shards.expire();
        assert!(!claim.valid(Instant::now()));
        assert!(shards.claim(&Key::MIN).is_none());
    }

    #[test]
    fn a_claim_outlives_the_revoke_and_ends_with_the_release() {
        let shards = leased();
        let claim = shards.claim(&Key::MIN).unwrap();
        shards.revoke(Term(1), KeyRange::ALL, Epoch(1));
        assert!(shards.claim(&Key::MIN).is_none(), "no new reconcile starts");
        assert!(claim.valid(Instant::now()), "a running reconcile may end");
        shards.release(KeyRange::ALL);
        assert!(!claim.valid(Instant::now()));
    }

    #[test]
    fn a_claim_of_an_older_epoch_is_void_though_the_shard_came_back() {
        let shards = leased();
        let claim = shards.claim(&Key::MIN).unwrap();
        shards.release(KeyRange::ALL);
        shards.grant(Term(1), KeyRange::ALL, Epoch(2), Handover::Unclean);
        assert!(!claim.valid(Instant::now()));
        assert_eq!(shards.handover(&Key::MIN), Some(Handover::Unclean));
    }

    #[test]
    fn a_new_leader_that_changes_nothing_ends_no_claim() {
        let shards = leased();
        let claim = shards.claim(&Key::MIN).unwrap();
        shards.hear(Term(2));
        shards.grant(Term(2), KeyRange::ALL, Epoch(1), Handover::Clean);
        assert!(claim.valid(Instant::now()));
    }
}
