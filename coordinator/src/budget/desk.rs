//! Where workers' messages about the budget arrive and the ledger's answers leave.
//!
//! No task and no channel of its own: the leader's loop hands in messages and ticks, and sends what comes out.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use flotilla_proto::v1::leader_message::Message as ToWorker;
use flotilla_proto::v1::worker_message::Message as FromWorker;
use flotilla_proto::{BucketKey, Term, UnknownBucket, WorkerId, v1};

use super::ledger::{Grant, Ledger, Park};
use super::metrics::{Event, Metrics};
use super::options::Options;

/// Whom a message is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum To {
    /// One worker.
    One(WorkerId),
    /// All that are connected.
    All,
}

/// A message that the leader is to send.
#[derive(Clone, Debug, PartialEq)]
pub struct Outgoing {
    /// For whom.
    pub to: To,
    /// What to say.
    pub message: ToWorker,
}

/// The budget's part of a leader.
#[derive(Debug)]
pub struct Desk {
    ledger: Ledger,
    metrics: Metrics,
}

impl Desk {
    /// How often [`Desk::tick`] wants to be called: often enough that a bucket of a sixtyfold ARM does not run over.
    pub const TICK: Duration = Duration::from_millis(50);

    /// Opens the desk of a new leader.
    pub fn new(term: Term, options: Options, metrics: Metrics, now: Instant) -> Self {
        Self { ledger: Ledger::new(term, options, now), metrics }
    }

    /// A worker has opened its stream: it learns what is parked.
    pub fn joined(&mut self, worker: &WorkerId, now: Instant) -> Vec<Outgoing> {
        self.ledger.heard(worker, now);
        self.ledger.parked(now).iter().map(|park| parked(To::One(worker.clone()), park)).collect()
    }

    /// Sets which workers are alive by their leases, connected or not.
    pub fn set_members(&mut self, live: &BTreeSet<WorkerId>, now: Instant) {
        self.ledger.set_members(live, now);
    }

    /// Takes any message of a worker; those that are not about the budget are a sign of life.
    pub fn receive(
        &mut self,
        worker: &WorkerId,
        message: &FromWorker,
        now: Instant,
    ) -> Result<Vec<Outgoing>, UnknownBucket> {
        let mut out = Vec::new();
        self.ledger.heard(worker, now);
        match message {
            FromWorker::BudgetRequest(request) => {
                self.ledger.says(worker, request.workers, now);
                if let Some(bucket) = &request.bucket {
                    self.ledger.request(worker, &bucket.try_into()?, request.tokens, request.request, now);
                    self.settle(&mut out, now);
                }
            }
            FromWorker::BudgetReturn(back) => {
                let key = key(back.bucket.as_ref())?;
                let credited = self.ledger.give_back(worker, &key, back.grant, back.unused, now);
                self.metrics.tokens(key.class, Event::Returned, credited);
            }
            FromWorker::BudgetObservation(seen) => {
                let key = key(seen.bucket.as_ref())?;
                if let Some(remaining) = seen.remaining {
                    self.ledger.observe(&key, remaining, now);
                }
                if let Some(wait) = seen.retry_after_ms {
                    let park = self.ledger.park(&key, Duration::from_millis(wait.into()), now);
                    tracing::warn!(bucket = %key, wait = ?park.wait, %worker, "Parked bucket after 429");
                    self.metrics.throttled(key.class, park.longer_by);
                    out.push(parked(To::All, &park));
                }
            }
            _ => {}
        }
        Ok(out)
    }

    /// Divides what has come in since the last call, and tells workers their share.
    pub fn tick(&mut self, now: Instant) -> Vec<Outgoing> {
        let mut out = Vec::new();
        self.settle(&mut out, now);
        for (worker, workers) in self.ledger.tell_shares(now) {
            out.push(Outgoing { to: To::One(worker), message: ToWorker::BudgetShare(v1::BudgetShare { workers }) });
        }
        self.metrics.levels(&self.ledger, now);
        out
    }

    fn settle(&mut self, out: &mut Vec<Outgoing>, now: Instant) {
        let (grants, settled) = self.ledger.settle(now);
        for (class, tokens) in settled.forfeited {
            self.metrics.tokens(class, Event::Forfeited, tokens);
        }
        for grant in grants {
            self.metrics.tokens(grant.bucket.class, Event::Granted, grant.tokens);
            out.push(granted(grant));
        }
    }
}

fn key(bucket: Option<&v1::Bucket>) -> Result<BucketKey, UnknownBucket> {
    bucket.ok_or(UnknownBucket)?.try_into()
}

fn granted(grant: Grant) -> Outgoing {
    let message = ToWorker::BudgetGrant(v1::BudgetGrant {
        bucket: Some((&grant.bucket).into()),
        tokens: grant.tokens,
        valid_ms: millis(grant.valid),
        grant: grant.id,
        request: grant.request,
    });
    Outgoing { to: To::One(grant.worker), message }
}

fn parked(to: To, park: &Park) -> Outgoing {
    let park = v1::BudgetPark { bucket: Some((&park.bucket).into()), for_ms: millis(park.wait) };
    Outgoing { to, message: ToWorker::BudgetPark(park) }
}

/// A time for the wire; longer than seven weeks is as good as for ever.
fn millis(time: Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX)
}
