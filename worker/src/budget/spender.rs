//! The handle that callers use, and the task that talks to the leader.
//!
//! The lock is held for one decision of [`State`] at a time. What came of it is sent and counted after that.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use flotilla_proto::v1::leader_message::Message as FromLeader;
use flotilla_proto::v1::worker_message::Message as ToLeader;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::key::{BucketKey, Class, Priority};
use super::metrics::Metrics;
use super::observation::Observation;
use super::options::Options;
use super::permit::{Ledger, Parked, Permit, Source};
use super::queue::Waiter;
use super::state::{Begun, Refused, Report, Served, State, observation};

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
    /// A budget whose messages for the leader go to `outbox`. If that has no room, messages are dropped and
    /// counted (`flotilla.budget.messages.dropped`): the spender repeats a request within a second, and a return that is lost
    /// costs the tokens until their grant ends.
    pub fn new(options: Options, outbox: mpsc::Sender<ToLeader>, metrics: Metrics) -> (Self, Spender) {
        let state = Mutex::new(State::new(options));
        let budget = Self { shared: Arc::new(Shared { state, look: Notify::new(), outbox, metrics }) };
        (budget.clone(), Spender { budget, renew: options.renew })
    }

    /// Waits until one call may be made.
    pub async fn acquire(&self, key: &BucketKey, priority: Priority) -> Result<Permit, Parked> {
        let now = Instant::now();
        let begun = self.state().begin(key, priority, now);
        let answered = match begun {
            Begun::Parked(key, parked) => {
                self.shared.metrics.parked(key.class, 1);
                return Err(parked);
            }
            Begun::Permitted(key, source) => {
                self.shared.metrics.spent(key.class, source, priority, Duration::ZERO);
                self.shared.look.notify_one(); // more may be needed ahead
                return Ok(self.permit(key, source));
            }
            Begun::Waits(answered) => answered,
        };
        self.shared.look.notify_one();
        // The queue goes only with the budget itself, and a caller holds a part of that.
        answered.await.unwrap_or_else(|_| Err(Parked { until: std::time::Instant::now() + BUSY }))
    }

    /// Passes on what an answer of ARM said about its buckets. `key` is the bucket that paid for the call.
    ///
    /// Only ARM's own 429s park a bucket; those of a resource provider concern less than a bucket and are the caller's.
    pub fn observe(&self, key: &BucketKey, seen: &Observation) {
        let parked = self.state().observe(key, seen, Instant::now());
        if let Some((key, wait, refused)) = parked {
            self.refuse(key.class, refused);
            self.send(observation(&key, None, Some(wait)));
        }
        self.shared.look.notify_one();
    }

    /// Takes the leader's messages about the budget; others are ignored.
    pub fn receive(&self, message: &FromLeader) {
        let now = Instant::now();
        match message {
            FromLeader::BudgetGrant(grant) => {
                let served = {
                    let mut state = self.state();
                    state.granted(grant, now).map(|key| (state.serve(&key, now), key))
                };
                if let Some((served, key)) = served {
                    self.permit_all(&key, served, now);
                }
            }
            FromLeader::BudgetPark(park) => {
                if let Some(Ok(key)) = park.bucket.as_ref().map(BucketKey::try_from) {
                    let refused = self.state().park(&key, Duration::from_millis(park.for_ms.into()), now);
                    self.refuse(key.class, refused);
                }
            }
            FromLeader::BudgetShare(share) => self.state().shared(share.workers),
            _ => return,
        }
        self.shared.look.notify_one();
    }

    /// Serves who waits and talks to the leader. Says how long until there is something to do again.
    fn turn(&self, renew: Duration) -> Duration {
        let now = Instant::now();
        let (busy, keys) = {
            let mut state = self.state();
            (state.is_busy(now), state.keys())
        };
        let mut next = if busy { BUSY } else { renew };
        for key in keys {
            let served = self.state().serve(&key, now);
            if let Some(wait) = self.permit_all(&key, served, now) {
                next = next.min(wait.max(TOGETHER));
            }
        }
        let Report { messages, settled, waiting } = self.state().report(now);
        for (class, over) in settled {
            self.shared.metrics.settled(class, over.unused, over.ended);
        }
        for (class, calls) in waiting {
            self.shared.metrics.waiting(class, calls);
        }
        for message in messages {
            self.send(message);
        }
        next
    }

    fn permit(&self, key: BucketKey, source: Source) -> Permit {
        Permit::new(Arc::clone(&self.shared) as Arc<dyn Ledger>, key, source)
    }

    /// Lets calls go that were served. Returns when the next token of our share is there.
    fn permit_all(&self, key: &BucketKey, served: Served, now: Instant) -> Option<Duration> {
        for (Waiter { answer, priority, since }, source) in served.calls {
            match answer.send(Ok(self.permit(key.clone(), source))) {
                // It gave up a moment ago. The token is for the next one.
                Err(Ok(permit)) => permit.give_back(),
                _ => self.shared.metrics.spent(key.class, source, priority, now.saturating_duration_since(since)),
            }
        }
        served.next
    }

    fn refuse(&self, class: Class, refused: Refused) {
        self.shared.metrics.parked(class, refused.calls.len());
        for waiter in refused.calls {
            let _ = waiter.answer.send(Err(refused.parked)); // one that gave up need not know
        }
    }

    fn send(&self, message: ToLeader) {
        if self.shared.outbox.try_send(message).is_err() {
            self.shared.metrics.dropped();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state()
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing in there can be left half done by a panic that would matter more than going on.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ledger for Shared {
    fn finished(&self, bucket: &BucketKey, grant: u64, used: bool) {
        self.state().finished(bucket, grant, used);
        self.look.notify_one();
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
