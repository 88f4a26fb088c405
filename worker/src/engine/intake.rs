//! The engine's loop: takes shards in and hands them back, and begins a reconcile of whatever is next in line.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flotilla_proto::task::Kind as TaskKind;
use flotilla_proto::v1::worker_message::Message as ToLeader;
use flotilla_proto::{Key, KeyRange, v1};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::context::Context;
use super::memory::Mind;
use super::object::Id;
use super::queue::Class;
use super::reconcile::{self, End};
use super::record::Job;
use super::watch::Watches;
use crate::fleet::Event;
use crate::metrics::{Gauges, Group, Label as _, Overflow, Tally};

/// Reconciles at once. Almost all of a reconcile is waiting for Azure, the API server or the budget, so this bounds memory and
/// not speed: ARM's buckets allow about 45 calls a second for one identity, and a call takes less than a few seconds.
const RECONCILES: usize = 768;
/// Reconciles at once that follow operations. They have room of their own: they spend reads, and must not wait behind a burst
/// of changes that all wait for writes.
const POLLS: usize = 256;
/// Objects in one message to the leader about changes: a few dozen KiB.
const CHANGED: usize = 256;
/// Until an object is reconciled again whose reconcile panicked.
const AFTER_PANIC: Duration = Duration::from_mins(1);

/// Room for reconciles.
#[derive(Clone, Debug)]
struct Room {
    reconciles: Arc<Semaphore>,
    polls: Arc<Semaphore>,
}

impl Room {
    fn new() -> Self {
        Self { reconciles: Arc::new(Semaphore::new(RECONCILES)), polls: Arc::new(Semaphore::new(POLLS)) }
    }

    fn of(&self, class: Class) -> &Arc<Semaphore> {
        if class == Class::Operation { &self.polls } else { &self.reconciles }
    }
}

/// The engine.
#[derive(Debug)]
pub(crate) struct Engine {
    ctx: Arc<Context>,
    events: mpsc::Receiver<Event>,
    interest: watch::Sender<Vec<v1::ObjectName>>,
    outgoing: mpsc::Sender<ToLeader>,
}

impl Engine {
    /// An engine that obeys `events` and tells the leader of changes.
    pub(crate) fn new(
        ctx: Arc<Context>,
        events: mpsc::Receiver<Event>,
        interest: watch::Sender<Vec<v1::ObjectName>>,
        outgoing: mpsc::Sender<ToLeader>,
    ) -> Self {
        Self { ctx, events, interest, outgoing }
    }

    /// Runs until `stop`. Then it begins nothing new and lets what runs come to its end, or to a point where another
    /// worker can go on, within `grace`.
    pub(crate) async fn run(mut self, stop: CancellationToken, grace: Duration) {
        let mut watches = Watches::new(Arc::clone(&self.ctx));
        let running = TaskTracker::new();
        let room = Room::new();
        loop {
            self.begin(&running, &room);
            self.send_interest();
            let due = self.ctx.records().next_due();
            tokio::select! {
                () = stop.cancelled() => break,
                Some(event) = self.events.recv() => self.obey(event, &mut watches, &running),
                ids = self.ctx.changes.take() => self.spread(&ids),
                () = self.ctx.work.notified() => {}
                () = until(due) => {}
            }
        }
        tracing::info!(running = running.len(), "Closed intake");
        watches.stop().await;
        running.close();
        if tokio::time::timeout(grace, running.wait()).await.is_err() {
            tracing::warn!(running = running.len(), "Left reconciles to the next owner");
        }
    }

    /// Begins as many reconciles as there is room for and objects are in line.
    fn begin(&self, running: &TaskTracker, room: &Room) {
        loop {
            // Only this loop takes room, so what it sees stays true until it does.
            let has_room = |class| room.of(class).available_permits() > 0;
            let Some(job) = self.ctx.records().next(Instant::now(), has_room) else { return };
            let slot = Arc::clone(room.of(job.class)).try_acquire_owned();
            let ctx = Arc::clone(&self.ctx);
            let work = running.track_future(async move {
                one(&ctx, job).await;
                drop(slot);
                ctx.work.notify_one();
            });
            self.ctx.process.start(TaskKind::Reconcile, |_| work).detach();
        }
    }

    fn obey(&self, event: Event, watches: &mut Watches, running: &TaskTracker) {
        match event {
            Event::Kinds(kinds) => watches.set(&kinds),
            Event::Gained(_) => watches.list(),
            Event::Lost => self.ctx.records().forget_ranges(&[KeyRange::ALL]),
            Event::Wake(ids) => {
                for id in &ids {
                    if id.kind.group.is_empty() && id.kind.kind == "Secret" {
                        self.ctx.resolver.forget(&id.namespace, &id.name);
                    }
                    self.ctx.records().wake(id);
                }
            }
            Event::Leaving { ranges, within, done } => {
                let work = running.track_future(hand_back(Arc::clone(&self.ctx), ranges, within, done));
                self.ctx.process.start(TaskKind::HandBack, |_| work).detach();
            }
        }
    }

    /// Wakes those that wait for these objects, here and elsewhere.
    fn spread(&self, ids: &[Id]) {
        for id in ids {
            self.ctx.records().wake(id);
        }
        for ids in ids.chunks(CHANGED) {
            let objects = ids.iter().map(v1::ObjectName::from).collect();
            // Without room those that wait elsewhere find out by their own timers.
            if self.outgoing.try_send(ToLeader::Changed(v1::Changed { objects })).is_err() {
                self.ctx.metrics.overflowed(Overflow::WakeUps, ids.len() as u64);
            }
        }
    }

    fn send_interest(&self) {
        let interest = self.ctx.records().take_interest();
        if let Some(interest) = interest {
            self.interest.send_replace(interest);
        }
    }
}

/// Puts an object back whose reconcile panicked: it would count as running for ever, and its shard could not be handed back.
/// What the worker remembered of it is lost, which is safe.
struct PutBack<'a> {
    ctx: &'a Context,
    id: &'a Id,
}

impl Drop for PutBack<'_> {
    fn drop(&mut self) {
        self.ctx.records().put_back(self.id, Mind::default(), Some(Instant::now() + AFTER_PANIC));
    }
}

/// One reconcile, and what follows from it.
async fn one(ctx: &Context, job: Job) {
    let (id, key) = (job.id.clone(), job.key);
    let unfinished = PutBack { ctx, id: &id };
    let end = reconcile::run(ctx, job).await;
    std::mem::forget(unfinished);
    match end {
        End::Done { uid, done, .. } => {
            let ended = ctx.records().done(&id, &uid, *done, Instant::now());
            if let Some(after) = ended.ready_after {
                ctx.metrics.became_ready(after);
            }
            if ended.became_ready {
                ctx.changes.add(id);
            }
        }
        End::Gone => {
            if ctx.records().gone(&id) {
                ctx.changes.add(id);
            }
        }
        End::Lost(mind) => {
            // While the lease is only late the shard is still ours, and the object is reconciled once it is renewed.
            let again = ctx.shards.holds(&key).then(|| Instant::now() + Duration::from_millis(500));
            ctx.records().put_back(&id, *mind, again);
        }
    }
}

/// Waits until nothing runs in these ranges and forgets their objects; gives up when the shards stay after all.
async fn hand_back(ctx: Arc<Context>, ranges: Vec<KeyRange>, within: Duration, done: oneshot::Sender<()>) {
    let deadline = Instant::now() + within;
    let inside = |key: &&Key| ranges.iter().any(|range| range.contains(key));
    loop {
        if done.is_closed() {
            return;
        }
        let left = ctx.records().running().filter(inside).count();
        if left == 0 {
            break;
        }
        if Instant::now() >= deadline {
            // Not answering makes the leader fence us rather than let two write at once.
            tracing::error!(left, "Failed to hand a shard back in time");
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    ctx.records().forget_ranges(&ranges);
    let _ = done.send(());
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due.into()).await,
        None => std::future::pending().await,
    }
}

impl Gauges for Context {
    fn queue(&self) -> Vec<(&'static str, u64)> {
        let records = self.records();
        Class::ALL.into_iter().map(|class| (class.label(), records.waiting(class) as u64)).collect()
    }

    fn shards(&self) -> u64 {
        self.shards.held().len() as u64
    }

    fn operations(&self) -> u64 {
        self.records().operations() as u64
    }

    fn objects(&self) -> u64 {
        self.records().len() as u64
    }

    fn unready(&self) -> BTreeMap<Group, Tally> {
        self.records().unready()
    }
}
