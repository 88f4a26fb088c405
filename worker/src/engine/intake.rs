//! The engine's loop: takes shards in and hands them back, and begins a turn for whatever is next in line.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flotilla_proto::KeyRange;
use flotilla_proto::v1;
use flotilla_proto::v1::worker_message::Message as ToLeader;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::context::Context;
use super::object::Id;
use super::queue::Class;
use super::record::Turn;
use super::turn::{self, End};
use super::unready::{Group, Tally};
use super::watch::Watches;
use crate::fleet::Event;

/// Turns at once. Almost all of a turn is waiting for Azure, the API server or the budget, so this bounds memory and not
/// speed: ARM's buckets allow about 45 calls a second for one identity, and a call takes less than a few seconds.
const TURNS: usize = 768;
/// Turns at once that follow operations. They have room of their own: they spend reads, and must not wait behind a burst of
/// changes that all wait for writes.
const POLLS: usize = 256;

/// Room for turns.
#[derive(Clone, Debug)]
struct Room {
    turns: Arc<Semaphore>,
    polls: Arc<Semaphore>,
}

impl Room {
    fn new() -> Self {
        Self { turns: Arc::new(Semaphore::new(TURNS)), polls: Arc::new(Semaphore::new(POLLS)) }
    }

    fn of(&self, class: Class) -> &Arc<Semaphore> {
        if class == Class::Operation { &self.polls } else { &self.turns }
    }
}

/// The engine.
#[derive(Debug)]
pub struct Engine {
    ctx: Arc<Context>,
    events: mpsc::Receiver<Event>,
    interest: watch::Sender<Vec<v1::ObjectName>>,
    outgoing: mpsc::Sender<ToLeader>,
}

impl Engine {
    /// An engine that obeys `events` and tells the leader of changes.
    pub fn new(
        ctx: Arc<Context>,
        events: mpsc::Receiver<Event>,
        interest: watch::Sender<Vec<v1::ObjectName>>,
        outgoing: mpsc::Sender<ToLeader>,
    ) -> Self {
        Self { ctx, events, interest, outgoing }
    }

    /// Runs until told to stop. Then it begins nothing new and lets what runs come to its end, or to a point where another
    /// worker can go on, within `grace`.
    pub async fn run(mut self, stop: CancellationToken, grace: Duration) {
        let (changes, mut inbox) = mpsc::unbounded_channel();
        let mut watches = Watches::new(Arc::clone(&self.ctx), changes.clone());
        let turns = TaskTracker::new();
        let room = Room::new();
        loop {
            self.begin(&turns, &room, &changes);
            self.tell_interest();
            let due = self.ctx.records().next_due();
            tokio::select! {
                () = stop.cancelled() => break,
                Some(event) = self.events.recv() => self.obey(event, &mut watches, &turns),
                Some(id) = inbox.recv() => {
                    let mut ids = vec![id];
                    while ids.len() < 256 && let Ok(id) = inbox.try_recv() {
                        ids.push(id);
                    }
                    self.spread(&ids);
                }
                () = self.ctx.work.notified() => {}
                () = until(due) => {}
            }
        }
        tracing::info!(running = turns.len(), "Closed the intake");
        watches.stop().await;
        turns.close();
        if tokio::time::timeout(grace, turns.wait()).await.is_err() {
            tracing::warn!(running = turns.len(), "Left turns to the next owner");
        }
    }

    /// Begins as many turns as there is room for and objects are in line.
    fn begin(&self, turns: &TaskTracker, room: &Room, changes: &super::watch::Changes) {
        loop {
            // Only this loop takes room, so what it sees stays true until it does.
            let has_room = |class| room.of(class).available_permits() > 0;
            let Some(turn) = self.ctx.records().next(Instant::now(), has_room) else { return };
            let slot = Arc::clone(room.of(turn.class)).try_acquire_owned();
            let (ctx, changes) = (Arc::clone(&self.ctx), changes.clone());
            turns.spawn(async move {
                one(&ctx, turn, &changes).await;
                drop(slot);
                ctx.work.notify_one();
            });
        }
    }

    fn obey(&self, event: Event, watches: &mut Watches, turns: &TaskTracker) {
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
                turns.spawn(hand_back(Arc::clone(&self.ctx), ranges, within, done));
            }
        }
    }

    /// Wakes who waits for these, here and elsewhere.
    fn spread(&self, ids: &[Id]) {
        for id in ids {
            self.ctx.records().wake(id);
        }
        let objects = ids.iter().map(v1::ObjectName::from).collect();
        // Without room the others find out by their own timers.
        let _ = self.outgoing.try_send(ToLeader::Changed(v1::Changed { objects }));
    }

    fn tell_interest(&self) {
        let interest = self.ctx.records().take_interest();
        if let Some(interest) = interest {
            self.interest.send_replace(interest);
        }
    }
}

/// One turn, and what follows from it.
async fn one(ctx: &Context, turn: Turn, changes: &super::watch::Changes) {
    let (id, key) = (turn.id.clone(), turn.key);
    match turn::run(ctx, turn).await {
        End::Left(left, uid, _) => {
            let ended = ctx.records().left(&id, &uid, *left, Instant::now());
            if let Some(after) = ended.ready_after {
                crate::metrics::Metrics::global().became_ready(after);
            }
            if ended.became_ready {
                let _ = changes.send(id);
            }
        }
        End::Gone => {
            if ctx.records().gone(&id) {
                let _ = changes.send(id);
            }
        }
        End::Lost(mind) => {
            // While the lease is only late the shard is still ours, and the object is looked at when it is renewed.
            let again = ctx.shards.holds(&key).then(|| Instant::now() + Duration::from_millis(500));
            ctx.records().put_back(&id, *mind, again);
        }
    }
}

/// Lets what runs in these ranges come to its end, and forgets their objects; or leaves off when the shards stay after all.
async fn hand_back(ctx: Arc<Context>, ranges: Vec<KeyRange>, within: Duration, done: oneshot::Sender<()>) {
    let deadline = Instant::now() + within;
    let inside = |key: &&flotilla_proto::Key| ranges.iter().any(|range| range.contains(key));
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
            tracing::error!(left, "Could not hand a shard back in time");
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

impl crate::metrics::Gauges for Context {
    fn queue(&self) -> Vec<(Class, u64)> {
        let records = self.records();
        Class::ALL.into_iter().map(|class| (class, records.waiting(class) as u64)).collect()
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
