//! The leader's core: membership, map, placement and hand-off in one machine without I/O.
//!
//! *Flow.* [`Fleet::handle`] takes one event and the time and returns what to do. Whoever runs it does that, in order.
//!
//! *Guarantees.* A grant leaves only after the map that names the new owner is in the store, and the map names a new owner
//! only after the former one released the shard, or its lease ran out and was fenced. A new leader changes no owner before
//! every owner that is alive has said what it holds. Every wait ends: see [`Settings`].
//!
//! *Assumptions.* The store refuses a map or a lease whose version is not the one last read, so a deposed leader can change
//! nothing. A worker obeys one stream at a time.

mod holdings;
mod message;
mod settle;
#[cfg(test)]
mod simulation;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use flotilla_proto::v1::leader_message::Message as ToWorker;
use flotilla_proto::{Epoch, Key, KeyRange, Term, WorkerId, timing, v1};

pub(crate) use message::{Action, Event, Note, StreamId};

use crate::handoff::Tenure;
use crate::load::Loads;
use crate::membership::{Membership, State, Timers};
use crate::shard_map::{Shard, ShardMap};

/// Times of the leader's core.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How long a silent worker is believed.
    pub lease: Timers,
    /// How long a worker has to give a shard up. A worker that does not answer in time loses
    /// everything.
    pub revoke_within: Duration,
    /// How much longer the leader waits before it takes the worker's lease away.
    pub revoke_grace: Duration,
    /// How long a new leader waits for the owners in the map before it places what nobody holds.
    pub gather_within: Duration,
    /// How often the load is evened out.
    pub balance_every: Duration,
    /// How often workers report their load.
    pub heartbeat: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            lease: Timers { expired_after: timing::LEASE_EXPIRED_AFTER, dead_after: timing::LEASE_DEAD_AFTER },
            revoke_within: timing::REVOKE_WITHIN,
            revoke_grace: timing::REVOKE_GRACE,
            gather_within: timing::GATHER_WITHIN,
            balance_every: Duration::from_secs(1),
            heartbeat: timing::STREAM_HEARTBEAT,
        }
    }
}

/// A grant that waits for its map to be in the store.
#[derive(Clone, Debug)]
struct PendingGrant {
    version: u64,
    worker: WorkerId,
    start: Key,
    epoch: Epoch,
    unclean: bool,
    note: Note,
}

/// A worker that said Hello.
#[derive(Clone, Debug)]
struct Peer {
    stream: StreamId,
    /// It said that it stops: it gets nothing more.
    leaving: bool,
    /// When it joined, and whether it has reported what its shards cost since.
    joined: Instant,
    reported: bool,
}

/// How an attempt to take a lease away stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fencing {
    /// Asked for, not yet answered.
    Asked,
    /// Failed; the leader retries with what the next read shows.
    Failed,
}

/// The leader's view of the fleet.
#[derive(Clone, Debug)]
pub(crate) struct Fleet {
    settings: Settings,
    leader: String,
    map: ShardMap,
    /// By the shard's start; one for each shard of the map.
    tenures: BTreeMap<Key, Tenure>,
    members: Membership,
    peers: BTreeMap<WorkerId, Peer>,
    loads: Loads,
    grants: Vec<PendingGrant>,
    /// Grows with each change of the map; `saved` is the newest in the store, `saving` the one under way.
    version: u64,
    saved: u64,
    saving: Option<u64>,
    fencing: BTreeMap<WorkerId, Fencing>,
    /// Workers that did not answer a revoke.
    condemned: BTreeSet<WorkerId>,
    /// Until when owners are waited for; None once everybody was heard.
    gathering: Option<Instant>,
    /// Workers that lost everything with their lease, so that they need not be heard where the map was lost.
    excused: BTreeSet<WorkerId>,
    /// There was no map in the store, so what workers say they hold is taken over.
    adopting: bool,
    next_balance: Instant,
    balancing: bool,
}

impl Fleet {
    /// A new leader of this term with the map it found in the store, if any.
    pub(crate) fn new(settings: Settings, leader: &str, term: Term, found: Option<ShardMap>, now: Instant) -> Self {
        let adopting = found.is_none();
        let mut map = found.unwrap_or_default();
        map.term = term;
        let tenure = |shard: &Shard| Tenure::found(shard.owner.is_some(), shard.epoch > Epoch(0), now);
        Self {
            settings,
            leader: leader.to_owned(),
            tenures: map.shards().iter().map(|shard| (shard.range.start, tenure(shard))).collect(),
            map,
            members: Membership::new(settings.lease),
            peers: BTreeMap::new(),
            loads: Loads::default(),
            grants: Vec::new(),
            version: 1,
            saved: 0,
            saving: None,
            fencing: BTreeMap::new(),
            condemned: BTreeSet::new(),
            gathering: Some(now + settings.gather_within),
            excused: BTreeSet::new(),
            adopting,
            next_balance: now,
            balancing: false,
        }
    }

    /// Takes in one event and says what to do about it.
    pub(crate) fn handle(&mut self, event: Event, now: Instant) -> Vec<Action> {
        let mut actions = Vec::new();
        match event {
            Event::Leases { leases, read } => {
                let owners: BTreeSet<_> = self.map.shards().iter().filter_map(|shard| shard.owner.clone()).collect();
                for worker in self.members.observe(&leases, read, &owners) {
                    self.emptied(worker, now);
                }
                self.fencing.retain(|_, state| *state == Fencing::Asked);
            }
            Event::Joined { worker, stream, held } => self.joined(&worker, stream, &held, now, &mut actions),
            Event::Left { worker, stream } => {
                if self.is_current(&worker, stream) {
                    self.peers.remove(&worker);
                }
            }
            Event::Released { worker, stream, shards } if self.is_current(&worker, stream) => {
                self.released(&worker, &shards, now);
            }
            Event::Load { worker, stream, shards } if self.is_current(&worker, stream) => {
                if let Some(peer) = self.peers.get_mut(&worker) {
                    peer.reported = true;
                }
                for (range, load) in shards {
                    if self.map.shard_of(&range.start).owner.as_ref() == Some(&worker) {
                        self.loads.report(range, &load);
                    }
                }
            }
            Event::Released { .. } | Event::Load { .. } => actions.push(Action::Note(Note::Stale)),
            Event::Namespaces(namespaces) => self.loads.set_namespaces(namespaces),
            Event::Kinds(kinds) => {
                if kinds != self.map.kinds {
                    self.map.kinds = kinds;
                    self.version += 1;
                    let message = self.kinds();
                    actions.extend(self.peers.iter().map(|(worker, peer)| send(worker, peer.stream, message.clone())));
                }
            }
            Event::Saved { version } => {
                self.saving = None;
                self.saved = self.saved.max(version);
                self.send_grants(&mut actions);
            }
            Event::Fenced { worker, done } => {
                if done {
                    self.members.fenced(&worker);
                    self.condemned.remove(&worker);
                    self.fencing.remove(&worker);
                } else {
                    self.fencing.insert(worker, Fencing::Failed);
                    actions.push(Action::ReadLeases);
                }
            }
            Event::Tick => {}
        }
        self.settle(now, &mut actions);
        actions
    }

    /// The map as it is or will shortly be in the store.
    pub(crate) fn map(&self) -> &ShardMap {
        &self.map
    }

    /// All known workers with their states.
    pub(crate) fn workers(&self, now: Instant) -> impl Iterator<Item = (&WorkerId, State)> {
        self.members.states(now)
    }

    /// When a read of the leases could prove a worker silent: to be read then rather than at the next turn.
    pub(crate) fn next_proof(&self, now: Instant) -> Option<Instant> {
        self.members.next_proof(now)
    }

    /// Objects in a range as far as reported.
    pub(crate) fn objects(&self, range: &KeyRange) -> f64 {
        self.loads.objects(range)
    }

    fn is_current(&self, worker: &WorkerId, stream: StreamId) -> bool {
        self.peers.get(worker).is_some_and(|peer| peer.stream == stream)
    }

    fn revoke_deadline(&self, now: Instant) -> Instant {
        now + self.settings.revoke_within + self.settings.revoke_grace
    }

    fn revoke(&self, shards: Vec<v1::Shard>) -> ToWorker {
        let deadline_ms = u32::try_from(self.settings.revoke_within.as_millis()).unwrap_or(u32::MAX);
        ToWorker::Revoke(v1::Revoke { term: self.map.term.0, shards, deadline_ms })
    }

    fn kinds(&self) -> ToWorker {
        let name =
            |kind: &flotilla_proto::GroupKind| v1::KindName { group: kind.group.clone(), kind: kind.kind.clone() };
        ToWorker::Kinds(v1::Kinds { kinds: self.map.kinds.iter().map(name).collect() })
    }
}

fn send(worker: &WorkerId, stream: StreamId, message: ToWorker) -> Action {
    Action::Send { worker: worker.clone(), stream, message }
}

fn wire(range: &KeyRange, epoch: Epoch) -> v1::Shard {
    v1::Shard { range: Some((*range).into()), epoch: epoch.0 }
}
