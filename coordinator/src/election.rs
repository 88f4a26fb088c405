//! Who leads: the edge that reads and writes the coordinators' lease.
//!
//! *Flow.* [`Campaign::win`] waits until the lease can be taken; [`Campaign::hold`] renews it until it can't, or until it is told
//! to stop; [`Campaign::vacate`] gives it up, so that a standby takes over at once.
//!
//! *Guarantees.* `hold` returns before anybody else may take the lease: it counts from the beginning of the last renewal
//! that succeeded, on a monotonic clock. *Assumption:* clocks run at the same rate.

mod elector;

use std::sync::Arc;
use std::time::Instant;

use flotilla_proto::Term;
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

pub use elector::Timers;
pub(crate) use elector::{Elector, Verdict};

use crate::membership::Read;
use crate::store::{Found, LeaderLease, Store, Version};

/// A lease that was won.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    /// The term that it began.
    pub term: Term,
    lease: LeaderLease,
    version: Version,
    renewed: Instant,
}

/// A coordinator that wants to lead.
#[derive(Debug)]
pub(crate) struct Campaign {
    store: Arc<dyn Store>,
    timers: Timers,
    identity: String,
    address: String,
}

impl Campaign {
    /// `identity` is unique per process; `address` is where workers find our gRPC server.
    pub(crate) fn new(store: Arc<dyn Store>, timers: Timers, identity: String, address: String) -> Self {
        Self { store, timers, identity, address }
    }

    /// Waits until we lead. `saw` hears the address of whoever leads meanwhile.
    pub(crate) async fn win(&self, saw: impl Fn(Option<String>)) -> Held {
        let mut elector = Elector::new(self.timers);
        loop {
            let wait = match self.try_win(&mut elector, &saw).await {
                Ok(Ok(held)) => return held,
                Ok(Err(wait)) => wait,
                Err(error) if error.is_conflict() => self.timers.retry_every / 4,
                Err(error) => {
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        "Failed to read or take the leader's lease"
                    );
                    self.timers.retry_every
                }
            };
            tokio::time::sleep(wait).await;
        }
    }

    async fn try_win(
        &self,
        elector: &mut Elector,
        saw: &impl Fn(Option<String>),
    ) -> Result<Result<Held, std::time::Duration>, crate::store::Error> {
        let began = Instant::now();
        let found = self.store.leader().await?;
        let read = Read { began, ended: Instant::now() };
        let known = match elector.observe(found.as_ref(), read) {
            Verdict::Wait(wait) => {
                let holder = found.map(|found| found.record).filter(|lease| lease.holder.is_some());
                saw(holder.map(|lease| lease.address));
                return Ok(Err(wait));
            }
            Verdict::Take(known) => known,
        };
        let map = self.store.map().await?.and_then(|found| found.record.ok()).map(|map| map.term.0);
        let term = Elector::next_term(found.as_ref().map(|found| &found.record), map);
        let lease = LeaderLease {
            holder: Some(self.identity.clone()),
            address: self.address.clone(),
            term,
            duration: self.timers.lease,
            acquired: Some(Timestamp::now()),
            renewal: String::new(),
        };
        let renewed = Instant::now();
        let version = self.store.put_leader(&lease, known.as_ref()).await?;
        Ok(Ok(Held { term: Term(term), lease, version, renewed }))
    }

    /// Renews until told to stop or until the lease is lost. Says whether it is still ours.
    pub(crate) async fn hold(&self, held: &mut Held, stop: &CancellationToken) -> bool {
        loop {
            let deadline = tokio::time::Instant::from_std(held.renewed + self.timers.renew_within);
            let next = tokio::time::Instant::now() + self.timers.retry_every;
            tokio::select! {
                () = stop.cancelled() => return true,
                () = tokio::time::sleep_until(next.min(deadline)) => {}
            }
            let kept = tokio::select! {
                () = stop.cancelled() => return true,
                () = tokio::time::sleep_until(deadline) => false,
                kept = self.renew(held) => kept,
            };
            if !kept {
                return false;
            }
        }
    }

    /// False if somebody else has the lease. A failed call decides nothing: the next one does, or the deadline.
    async fn renew(&self, held: &mut Held) -> bool {
        let began = Instant::now();
        match self.store.put_leader(&held.lease, Some(&held.version)).await {
            Ok(version) => {
                held.version = version;
                held.renewed = began;
                return true;
            }
            Err(error) if error.is_conflict() => {}
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "Failed to renew the leader's lease");
                return true;
            }
        }
        // Either somebody took it, or an earlier renewal of ours arrived after we had given up waiting for it.
        match self.store.leader().await {
            Ok(Some(Found { record, version })) if record.holder.as_deref() == Some(self.identity.as_str()) => {
                held.version = version;
                record.term == held.term.0
            }
            Ok(_) => false,
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "Failed to read the leader's lease");
                true
            }
        }
    }

    /// Gives the lease up. Called when the leader's work has ended.
    pub(crate) async fn vacate(&self, held: &Held) {
        let lease = LeaderLease { holder: None, ..held.lease.clone() };
        let mut vacated = self.store.put_leader(&lease, Some(&held.version)).await.map(|_| ());
        // A renewal that was under way when we stopped may have arrived.
        if vacated.as_ref().is_err_and(crate::store::Error::is_conflict)
            && let Ok(Some(Found { record, version })) = self.store.leader().await
            && record.holder.as_deref() == Some(self.identity.as_str())
        {
            vacated = self.store.put_leader(&lease, Some(&version)).await.map(|_| ());
        }
        match vacated {
            Ok(()) => tracing::info!(term = %held.term, "Vacated the leader's lease"),
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "Failed to vacate the leader's lease");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::store::memory::Memory;

    const TIMERS: Timers = Timers {
        lease: Duration::from_millis(800),
        renew_within: Duration::from_millis(400),
        retry_every: Duration::from_millis(50),
    };

    fn campaign(store: &Arc<Memory>, identity: &str) -> Campaign {
        Campaign::new(store.clone(), TIMERS, identity.into(), format!("{identity}:1"))
    }

    #[tokio::test]
    async fn leader_that_cannot_renew_steps_down_before_another_may_lead() {
        let store = Arc::new(Memory::default());
        let leader = campaign(&store, "a");
        let mut held = leader.win(|_| ()).await;
        store.fail(true);
        let began = Instant::now();
        assert!(!leader.hold(&mut held, &CancellationToken::new()).await);
        assert!(began.elapsed() < TIMERS.lease, "{:?}", began.elapsed());
    }

    #[tokio::test]
    async fn renewal_whose_answer_was_lost_is_no_loss() {
        let store = Arc::new(Memory::default());
        let leader = campaign(&store, "a");
        let mut held = leader.win(|_| ()).await;
        store.lose_answers(1);
        let stop = CancellationToken::new();
        let holding = leader.hold(&mut held, &stop);
        assert!(tokio::time::timeout(TIMERS.lease * 2, holding).await.is_err(), "goes on");
    }

    #[tokio::test]
    async fn silent_leader_is_replaced_under_a_higher_term_and_learns_of_it() {
        let store = Arc::new(Memory::default());
        let (old, new) = (campaign(&store, "a"), campaign(&store, "b"));
        let mut held = old.win(|_| ()).await;
        let heard = std::sync::Mutex::new(Vec::new());
        let next = new.win(|leader| heard.lock().unwrap().push(leader)).await;
        assert!(next.term > held.term);
        assert_eq!(heard.lock().unwrap().first(), Some(&Some("a:1".to_owned())));
        held.renewed = Instant::now();
        assert!(!old.hold(&mut held, &CancellationToken::new()).await);
    }

    #[tokio::test]
    async fn vacated_lease_is_free_even_if_a_renewal_came_late() {
        let store = Arc::new(Memory::default());
        let leader = campaign(&store, "a");
        let held = leader.win(|_| ()).await;
        store.put_leader(&held.lease, Some(&held.version)).await.unwrap();
        leader.vacate(&held).await;
        assert_eq!(store.leader().await.unwrap().unwrap().record.holder, None);
    }
}
