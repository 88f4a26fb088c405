//! A leader's term: one loop that owns the core, the streams and the budget, and does what they say.
//!
//! It keeps true that all decisions are taken in one place, one after the other. Calls to the store run beside the loop and
//! come back as events. The loop ends when it is told to, or when the store shows that somebody else leads.

mod context;
mod peers;
mod saving;
mod vacant;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use flotilla_proto::v1::leader_message::Message as ToWorker;
use flotilla_proto::v1::worker_message::Message as FromWorker;
use flotilla_proto::{GroupKind, Term, WorkerId, v1};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

pub(crate) use self::context::{Context, Error, Inputs, Outputs};
use self::peers::Peers;
use self::saving::{MapWriter, Wrote};
use self::vacant::VacantLeases;
use crate::budget;
use crate::fleet::{Action, Event, Fleet, StreamId};
use crate::membership::{LeaseSeen, Read, State};
use crate::server::{Incoming, ranges};
use crate::shard_map::ShardMap;
use crate::store::{self, Version};
use crate::wake::{Interests, ObjectName};

/// The answer of a call that ran beside the loop.
enum Done {
    Leases(Result<(Vec<LeaseSeen>, Read), store::Error>),
    Fenced { worker: WorkerId, result: Result<(), store::Error> },
    Saved { version: u64, wrote: Wrote },
    Forgot,
}

/// A term under way.
pub(crate) struct Leader {
    context: Context,
    fleet: Fleet,
    peers: Peers,
    desk: budget::Desk,
    interests: Interests,
    writer: MapWriter,
    outputs: Outputs,
    calls: JoinSet<Done>,
    reading: bool,
    read_again: bool,
    reported: BTreeMap<WorkerId, BTreeSet<GroupKind>>,
    vacant: VacantLeases,
    live: BTreeSet<WorkerId>,
}

impl Leader {
    /// Reads the map and begins. Returns the kinds that the map names, and whether there was a map.
    pub(crate) async fn begin(
        context: Context,
        term: Term,
        outputs: Outputs,
    ) -> Result<(Self, Option<ShardMap>), Error> {
        let found = context.store.map().await.map_err(Error::Begin)?;
        let version = found.as_ref().map(|found| found.version.clone());
        let map = found.and_then(|found| match found.record {
            Ok(map) => Some(map),
            Err(error) => {
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "Failed to read the shard map; rebuilding it from what workers hold"
                );
                None
            }
        });
        if let Some(map) = map.as_ref().filter(|map| map.term >= term) {
            return Err(Error::Superseded { term: map.term });
        }
        let now = Instant::now();
        let leader = Self {
            fleet: Fleet::new(context.settings, &context.identity, term, map.clone(), now),
            peers: Peers::default(),
            desk: budget::Desk::new(term, context.budget, context.budget_metrics.clone(), now),
            interests: Interests::default(),
            writer: MapWriter::new(context.store.clone(), term, version, map.clone()),
            outputs,
            calls: JoinSet::new(),
            reading: false,
            read_again: false,
            reported: BTreeMap::new(),
            vacant: VacantLeases::default(),
            live: BTreeSet::new(),
            context,
        };
        Ok((leader, map))
    }

    /// Leads until told to stop.
    pub(crate) async fn run(mut self, mut inputs: Inputs, stop: CancellationToken) -> Result<(), Error> {
        let mut leases = tokio::time::interval(self.context.read_leases_every);
        let mut budget = tokio::time::interval(budget::Desk::TICK);
        for ticks in [&mut leases, &mut budget] {
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        }
        loop {
            let now = Instant::now();
            let proof = self.fleet.next_proof(now).unwrap_or(now + self.context.settings.lease.dead_after);
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                () = tokio::time::sleep_until(proof.into()) => self.read_leases(),
                Some(incoming) = inputs.incoming.recv() => self.incoming(incoming),
                Some(done) = self.calls.join_next() => {
                    if let Ok(done) = done {
                        self.done(done)?;
                    }
                }
                _ = leases.tick() => self.read_leases(),
                _ = budget.tick() => {
                    let outgoing = self.desk.tick(Instant::now());
                    self.send_budget(outgoing);
                }
                Ok(()) = inputs.kinds.changed() => {
                    let kinds = inputs.kinds.borrow_and_update().clone();
                    self.handle(Event::Kinds(kinds));
                }
                Ok(()) = inputs.namespaces.changed() => {
                    let namespaces = inputs.namespaces.borrow_and_update().clone();
                    self.handle(Event::Namespaces(namespaces));
                }
                Some(name) = inputs.changed.recv() => self.wake([name], None),
            }
        }
    }

    fn incoming(&mut self, incoming: Incoming) {
        let now = Instant::now();
        match incoming {
            Incoming::Joined { worker, stream, hello, outbox } => {
                let held = ranges(&hello.held);
                tracing::info!(%worker, version = %hello.version, held = held.len(), "Worker joined");
                self.peers.add(worker.clone(), stream, outbox);
                self.handle(Event::Joined { worker: worker.clone(), stream, held });
                let outgoing = self.desk.joined(&worker, now);
                self.send_budget(outgoing);
            }
            Incoming::Left { worker, stream } => {
                if self.peers.remove(&worker, stream) {
                    tracing::info!(%worker, "Worker left");
                    self.interests.forget(&worker);
                    self.tell_wanted();
                }
                self.handle(Event::Left { worker, stream });
            }
            Incoming::Said { worker, stream, message } => {
                if !self.peers.is_current(&worker, stream) {
                    return;
                }
                match self.desk.receive(&worker, &message, now) {
                    Ok(outgoing) => self.send_budget(outgoing),
                    Err(error) => tracing::warn!(%worker, %error, "Dropped a message about the budget"),
                }
                self.said(worker, stream, message);
            }
        }
    }

    fn said(&mut self, worker: WorkerId, stream: StreamId, message: FromWorker) {
        match message {
            FromWorker::Released(released) => {
                self.handle(Event::Released { worker, stream, shards: ranges(&released.shards) });
            }
            FromWorker::Load(report) => {
                let kinds = report.kinds.into_iter().map(|name| GroupKind::new(name.group, name.kind)).collect();
                self.report_kinds(&worker, kinds);
                let range = |load: v1::ShardLoad| Some((load.shard.as_ref()?.range?.into(), load));
                let shards = report.shards.into_iter().filter_map(range).collect();
                self.handle(Event::Load { worker, stream, shards });
            }
            FromWorker::Interest(interest) => {
                self.interests.set(&worker, interest.objects.into_iter().map(ObjectName::from));
                self.tell_wanted();
            }
            FromWorker::Changed(changed) => {
                self.wake(changed.objects.into_iter().map(ObjectName::from), Some(&worker));
            }
            FromWorker::Hello(_) => tracing::warn!(%worker, "Dropped a second Hello on one stream"),
            FromWorker::BudgetRequest(_) | FromWorker::BudgetReturn(_) | FromWorker::BudgetObservation(_) => {}
        }
    }

    /// Hands an event to the core and does what it says.
    fn handle(&mut self, event: Event) {
        for action in self.fleet.handle(event, Instant::now()) {
            match action {
                Action::Save { version, map } => {
                    let writer = self.writer.clone();
                    self.calls.spawn(async move { Done::Saved { version, wrote: writer.write(map).await } });
                }
                Action::Send { worker, stream, message } => self.send(&worker, Some(stream), message),
                Action::Close { worker, stream } => {
                    self.peers.remove(&worker, stream);
                }
                Action::Fence { worker, version } => {
                    let (store, by) = (self.context.store.clone(), self.context.identity.clone());
                    self.calls.spawn(async move {
                        let result = store.fence(worker.pod(), &Version(version), &by).await;
                        Done::Fenced { worker, result }
                    });
                }
                Action::ReadLeases => self.read_leases(),
                Action::Note(note) => self.context.metrics.note(&note),
            }
        }
    }

    fn done(&mut self, done: Done) -> Result<(), Error> {
        match done {
            Done::Leases(result) => {
                self.reading = false;
                match result {
                    Ok((leases, read)) => {
                        self.forget_leases(&leases, read.ended);
                        self.handle(Event::Leases { leases, read });
                        self.report();
                    }
                    Err(error) => {
                        tracing::warn!(error = &error as &dyn std::error::Error, "Failed to read the workers' leases");
                        self.handle(Event::Tick);
                    }
                }
                if std::mem::take(&mut self.read_again) {
                    self.read_leases();
                }
            }
            Done::Fenced { worker, result } => {
                if let Err(error) = &result {
                    tracing::warn!(%worker, error = error as &dyn std::error::Error, "Failed to fence a worker's lease");
                } else {
                    tracing::warn!(%worker, "Fenced a worker's lease");
                }
                self.context.metrics.fence(result.is_ok());
                self.handle(Event::Fenced { worker, done: result.is_ok() });
            }
            Done::Saved { version, wrote } => match wrote {
                Wrote::Yes(stored) => {
                    self.context.metrics.map_write("written");
                    self.writer.written(stored);
                    self.handle(Event::Saved { version });
                }
                Wrote::Superseded(term) => {
                    self.context.metrics.map_write("superseded");
                    return Err(Error::Superseded { term });
                }
            },
            Done::Forgot => {}
        }
        Ok(())
    }

    /// Reads the leases, one read at a time: a read that was asked for meanwhile begins after this one.
    fn read_leases(&mut self) {
        if std::mem::replace(&mut self.reading, true) {
            self.read_again = true;
            return;
        }
        let store = self.context.store.clone();
        self.calls.spawn(async move {
            let began = Instant::now();
            let leases = store.workers().await;
            Done::Leases(leases.map(|leases| (leases, Read { began, ended: Instant::now() })))
        });
    }

    /// Removes leases that nobody has held for long.
    fn forget_leases(&mut self, leases: &[LeaseSeen], now: Instant) {
        for (pod, version) in self.vacant.overdue(leases, self.context.keep_leases_for, now) {
            let store = self.context.store.clone();
            self.calls.spawn(async move {
                if let Err(error) = store.forget(&pod, &Version(version)).await {
                    tracing::debug!(%pod, error = &error as &dyn std::error::Error, "Failed to delete an old lease");
                }
                Done::Forgot
            });
        }
    }

    /// Brings metrics, the budget's members and the workers' kinds up to date with the leases.
    fn report(&mut self) {
        let now = Instant::now();
        let states: Vec<(WorkerId, State)> =
            self.fleet.workers(now).map(|(worker, state)| (worker.clone(), state)).collect();
        let live: BTreeSet<_> =
            states.iter().filter(|(_, state)| *state > State::Dead).map(|(worker, _)| worker.clone()).collect();
        if live != self.live {
            self.desk.set_members(&live, now);
            self.reported.retain(|worker, _| live.contains(worker));
            self.live = live;
        }
        let mut shards: BTreeMap<WorkerId, (u64, f64)> =
            states.iter().map(|(worker, _)| (worker.clone(), (0, 0.0))).collect();
        let map = self.fleet.map();
        for shard in map.shards() {
            if let Some(owner) = &shard.owner {
                let entry = shards.entry(owner.clone()).or_default();
                entry.0 += 1;
                entry.1 += self.fleet.objects(&shard.range);
            }
        }
        let metrics = &self.context.metrics;
        metrics.map(map.term.0, map.epoch.0, map.kinds.len());
        metrics.shards(&shards);
        metrics.workers(states.into_iter().map(|(_, state)| state));
    }

    fn report_kinds(&mut self, worker: &WorkerId, kinds: BTreeSet<GroupKind>) {
        if self.reported.get(worker) == Some(&kinds) {
            return;
        }
        self.reported.insert(worker.clone(), kinds);
        let all = self.reported.values().flatten().cloned().collect();
        self.outputs.reported.send_if_modified(|known| std::mem::replace(known, all) != *known);
    }

    fn tell_wanted(&mut self) {
        let wanted = self.interests.wanted();
        self.outputs.wanted.send_if_modified(|known| std::mem::replace(known, wanted) != wanted);
    }

    fn wake(&mut self, changed: impl IntoIterator<Item = ObjectName>, seen_by: Option<&WorkerId>) {
        for (worker, objects) in self.interests.route(changed, seen_by) {
            self.context.metrics.woke(objects.len());
            let objects = objects.into_iter().map(Into::into).collect();
            self.send(&worker, None, ToWorker::Wake(v1::Wake { objects }));
        }
    }

    fn send_budget(&mut self, outgoing: Vec<budget::Outgoing>) {
        for budget::Outgoing { to, message } in outgoing {
            match to {
                budget::To::One(worker) => self.send(&worker, None, message),
                budget::To::All => {
                    for worker in self.peers.all() {
                        self.send(&worker, None, message.clone());
                    }
                }
            }
        }
    }

    /// Sends to a worker, on this stream only if one is named. One that does not read is cut off.
    fn send(&mut self, worker: &WorkerId, stream: Option<StreamId>, message: ToWorker) {
        if let Some(stream) = self.peers.send(worker, stream, message) {
            tracing::warn!(%worker, "Ended the stream of a worker that does not read its messages");
            self.context.metrics.slow_stream();
            self.interests.forget(worker);
            self.handle(Event::Left { worker: worker.clone(), stream });
        }
    }
}
