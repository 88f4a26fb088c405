//! The handle that callers use, and the task that talks to the leader.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use flotilla_proto::v1::leader_message::Message as FromLeader;
use flotilla_proto::v1::worker_message::Message as ToLeader;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::key::{BucketKey, Priority};
use super::metrics::Metrics;
use super::options::Options;
use super::permit::{Parked, Permit};
use super::queue::Waiter;
use super::state::{State, observation};
use crate::arm::rate::Observation;

/// How often the spender looks while there is something to do.
const BUSY: Duration = Duration::from_millis(50);
/// No more often than this, so that calls that come together are asked for together.
const TOGETHER: Duration = Duration::from_millis(5);

/// The worker's budget. Clones share it.
#[derive(Clone, Debug)]
pub struct Budget {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Wakes the task that talks to the leader.
    look: Notify,
    outbox: mpsc::Sender<ToLeader>,
    metrics: Metrics,
}

impl Budget {
    /// A budget whose messages for the leader go to `outbox`. If that has no room they are dropped and counted: each is
    /// repeated or makes up for itself.
    pub fn new(options: Options, outbox: mpsc::Sender<ToLeader>, metrics: Metrics) -> (Self, Spender) {
        let state = Mutex::new(State::new(options));
        let budget = Self { shared: Arc::new(Shared { state, look: Notify::new(), outbox, metrics }) };
        (budget.clone(), Spender { budget, renew: options.renew })
    }

    /// Waits until one call may be made.
    pub async fn acquire(&self, key: &BucketKey, priority: Priority) -> Result<Permit, Parked> {
        let answered = {
            let now = Instant::now();
            let mut state = self.state();
            let key = state.in_region(key);
            if let Some(parked) = state.parked(&key, now) {
                self.shared.metrics.parked(key.class, 1);
                return Err(parked);
            }
            if state.bucket(&key, now).queue.is_empty()
                && let Ok(source) = state.take(&key, now)
            {
                self.shared.metrics.spent(key.class, source, priority, Duration::ZERO);
                drop(state);
                self.shared.look.notify_one(); // more may be needed ahead
                return Ok(Permit::new(self.clone(), key, source));
            }
            let (answer, answered) = oneshot::channel();
            state.bucket(&key, now).queue.push(Waiter { priority, since: now, answer });
            answered
        };
        self.shared.look.notify_one();
        // The queue goes only with the budget itself, and a caller holds a part of that.
        answered.await.unwrap_or_else(|_| Err(Parked { until: std::time::Instant::now() + BUSY }))
    }

    /// Passes on what an answer of ARM said about its buckets. `key` is the bucket that paid for the call.
    ///
    /// Only ARM's own 429s park a bucket; those of a resource provider concern less than a bucket and are the caller's.
    pub fn observe(&self, key: &BucketKey, seen: &Observation) {
        let now = Instant::now();
        let mut state = self.state();
        for (class, left) in &seen.remaining {
            let mut key = key.of_class(*class);
            if let Some(region) = &seen.region {
                state.learn_region(&key, region);
                key = key.in_region(region);
            }
            state.bucket(&key, now).remaining = Some(*left);
        }
        if let Some(wait) = seen.throttled_for.filter(|_| seen.by_gateway) {
            let key = seen.region.as_ref().map_or_else(|| state.in_region(key), |region| key.in_region(region));
            let sent_away = state.park(&key, wait, now);
            self.shared.metrics.parked(key.class, sent_away);
            self.send(observation(&key, None, Some(wait)));
        }
        drop(state);
        self.shared.look.notify_one();
    }

    /// Takes the leader's messages about the budget; others are ignored.
    pub fn receive(&self, message: &FromLeader) {
        let now = Instant::now();
        let mut state = self.state();
        match message {
            FromLeader::BudgetGrant(grant) => {
                if let Some(key) = state.granted(grant, now) {
                    state.serve(&key, self, now);
                }
            }
            FromLeader::BudgetPark(park) => {
                if let Some(Ok(key)) = park.bucket.as_ref().map(BucketKey::try_from) {
                    let sent_away = state.park(&key, Duration::from_millis(park.for_ms.into()), now);
                    self.shared.metrics.parked(key.class, sent_away);
                }
            }
            FromLeader::BudgetShare(share) => state.shared(share.workers),
            _ => return,
        }
        drop(state);
        self.shared.look.notify_one();
    }

    /// The call of a permit has its answer, or was not made.
    pub(super) fn finished(&self, key: &BucketKey, grant: u64, used: bool) {
        self.state().finished(key, grant, used);
        self.shared.look.notify_one();
    }

    pub(super) fn metrics(&self) -> &Metrics {
        &self.shared.metrics
    }

    /// Serves who waits and talks to the leader. Says how long until there is something to do again.
    fn turn(&self, renew: Duration) -> Duration {
        let now = Instant::now();
        let mut state = self.state();
        let mut next = if state.is_busy(now) { BUSY } else { renew };
        for key in state.keys() {
            if let Some(wait) = state.serve(&key, self, now) {
                next = next.min(wait.max(TOGETHER));
            }
        }
        for message in state.report(self, now) {
            self.send(message);
        }
        next
    }

    fn send(&self, message: ToLeader) {
        if self.shared.outbox.try_send(message).is_err() {
            self.shared.metrics.dropped();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing in there can be left half done by a panic that would matter more than going on.
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Talks to the leader for a [`Budget`].
#[derive(Debug)]
pub struct Spender {
    budget: Budget,
    renew: Duration,
}

impl Spender {
    /// Runs until shutdown. Losing it is harmless: what is not given back ends by itself.
    pub async fn run(self, shutdown: CancellationToken) {
        loop {
            let next = self.budget.turn(self.renew);
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(next) => {}
                () = self.budget.shared.look.notified() => {
                    tokio::select! {
                        () = shutdown.cancelled() => return,
                        () = tokio::time::sleep(TOGETHER) => {}
                    }
                }
            }
        }
    }
}
