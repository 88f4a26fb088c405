//! A fleet in a box: a store, leaders that come and go, workers with their own clocks, streams that delay and break.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use flotilla_proto::v1::leader_message::Message as ToWorker;
use flotilla_proto::{Epoch, Key, KeyRange, Term, WorkerId, timing, v1};

use super::super::{Action, Event, Fleet, Settings, StreamId};
use crate::membership::{LeaseSeen, Read};
use crate::shard_map::ShardMap;

/// A worker stops writing so long after its last renewal began.
pub(super) const FENCED_AFTER: Duration = timing::LEASE_FENCE_AFTER;

/// Keys at which ownership is checked.
pub(super) const PROBES: u64 = 24;

pub(super) fn probe(index: u64) -> Key {
    Key { namespace: index * (u64::MAX / PROBES) + 7, ..Key::MIN }
}

/// A worker's lease in the store.
#[derive(Clone)]
struct Lease {
    holder: Option<WorkerId>,
    fenced: bool,
    renewal: u64,
    version: u64,
}

/// A process that runs, is paused, or has crashed.
pub(super) struct Worker {
    pub(super) pod: String,
    pub(super) id: WorkerId,
    incarnation: u32,
    pub(super) alive: bool,
    /// Answers no Revoke.
    pub(super) hung: bool,
    /// Never reaches a leader.
    pub(super) mute: bool,
    /// When the last renewal that succeeded began, on its own clock.
    renewed: Option<Instant>,
    pub(super) held: Vec<(KeyRange, Epoch)>,
    seen: Vec<(KeyRange, Epoch)>,
    term: u64,
    stream: Option<StreamId>,
    to_release: Vec<v1::Shard>,
}

impl Worker {
    /// Whether it would send a write for this key now.
    pub(super) fn writes(&self, key: &Key, now: Instant) -> bool {
        let valid = self.renewed.is_some_and(|renewed| now < renewed + FENCED_AFTER);
        self.alive && valid && self.held.iter().any(|(range, _)| range.contains(key))
    }

    /// Its lease was taken away. It stays who it is and begins again.
    fn lose_all(&mut self) {
        self.held.clear();
        self.renewed = None;
        self.stream = None;
        self.to_release.clear();
    }

    /// Another process in the same pod.
    fn begin_anew(&mut self) {
        self.lose_all();
        self.incarnation += 1;
        self.id = WorkerId::new(&self.pod, &self.incarnation.to_string());
        self.seen.clear();
    }

    fn obey(&mut self, message: ToWorker) {
        match message {
            ToWorker::Welcome(welcome) => self.term = self.term.max(welcome.term),
            ToWorker::Grant(grant) if grant.term >= self.term => {
                for (range, epoch) in grant.shards.iter().map(unwire) {
                    if self.seen.iter().any(|(seen, known)| seen.overlaps(&range) && *known >= epoch) {
                        continue;
                    }
                    cut(&mut self.held, &range, epoch);
                    self.held.push((range, epoch));
                    self.seen.push((range, epoch));
                }
            }
            ToWorker::Revoke(revoke) if revoke.term >= self.term => {
                for (range, epoch) in revoke.shards.iter().map(unwire) {
                    if !self.hung {
                        cut(&mut self.held, &range, epoch);
                        self.seen.push((range, epoch));
                    }
                }
                if !self.hung {
                    self.to_release.extend(revoke.shards);
                }
            }
            _ => {}
        }
    }
}

fn unwire(shard: &v1::Shard) -> (KeyRange, Epoch) {
    (shard.range.expect("a shard has a range").into(), Epoch(shard.epoch))
}

/// Takes a range out of what is held under this epoch or an older one.
fn cut(held: &mut Vec<(KeyRange, Epoch)>, range: &KeyRange, epoch: Epoch) {
    let mut rest = Vec::new();
    for (have, known) in held.drain(..) {
        if known > epoch || !have.overlaps(range) {
            rest.push((have, known));
            continue;
        }
        let left = KeyRange { start: have.start, end: Some(range.start) };
        let right = range.end.map(|start| KeyRange { start, end: have.end });
        rest.extend(
            [Some(left), right].into_iter().flatten().filter(|part| !part.is_empty()).map(|part| (part, known)),
        );
    }
    *held = rest;
}

/// A store operation that a leader asked for: it takes effect at one moment and is answered at another.
enum Operation {
    Save { version: u64, map: ShardMap },
    Fence { worker: WorkerId, version: u64 },
    Read { began: Instant },
    Answer(Event),
    ReadAnswer { leases: Vec<LeaseSeen>, began: Instant },
}

/// A coordinator that leads, or believes so.
struct Leader {
    fleet: Fleet,
    /// The version of the map object that it wrote or read last.
    map_version: u64,
    operations: VecDeque<Operation>,
}

/// A Join stream to one leader, with what is under way in each direction.
struct Stream {
    leader: usize,
    worker: usize,
    id: WorkerId,
    up: VecDeque<Event>,
    down: VecDeque<ToWorker>,
    broken: bool,
}

/// The store, leaders, workers and streams of one simulated fleet. What each worker believes is kept beside the truth.
pub(super) struct FleetModel {
    pub(super) now: Instant,
    leases: BTreeMap<String, Lease>,
    map: Option<(ShardMap, u64)>,
    versions: u64,
    leaders: Vec<Option<Leader>>,
    pub(super) workers: Vec<Worker>,
    streams: Vec<Stream>,
    /// Each grant that reached a worker.
    granted: Vec<(KeyRange, Epoch, WorkerId)>,
}

impl FleetModel {
    pub(super) fn new(workers: usize) -> Self {
        let worker = |index: usize| {
            let pod = format!("w{index}");
            Worker {
                id: WorkerId::new(&pod, "0"),
                pod,
                incarnation: 0,
                alive: true,
                hung: false,
                mute: false,
                renewed: None,
                held: Vec::new(),
                seen: Vec::new(),
                term: 0,
                stream: None,
                to_release: Vec::new(),
            }
        };
        Self {
            now: Instant::now(),
            leases: BTreeMap::new(),
            map: None,
            versions: 0,
            leaders: Vec::new(),
            workers: (0..workers).map(worker).collect(),
            streams: Vec::new(),
            granted: Vec::new(),
        }
    }

    fn next_version(&mut self) -> u64 {
        self.versions += 1;
        self.versions
    }

    pub(super) fn stored_map(&self) -> Option<&ShardMap> {
        self.map.as_ref().map(|(map, _)| map)
    }

    /// Another coordinator takes over. The one before may not know yet.
    pub(super) fn elect(&mut self) {
        let (found, map_version) = self.map.clone().map_or((None, 0), |(map, version)| (Some(map), version));
        let term = Term(self.leaders.len() as u64 + 1);
        // A worker that does not answer is fenced within the time that a story takes.
        let settings = Settings { revoke_within: Duration::from_secs(5), ..Settings::default() };
        let fleet = Fleet::new(settings, "c", term, found, self.now);
        self.leaders.push(Some(Leader { fleet, map_version, operations: VecDeque::new() }));
        self.dispatch(self.leaders.len() - 1, Event::Tick);
    }

    /// A coordinator crashes or learns that it does not lead.
    pub(super) fn depose(&mut self, leader: usize) {
        if let Some(slot) = self.leaders.get_mut(leader) {
            *slot = None;
        }
        for stream in self.streams.iter_mut().filter(|stream| stream.leader == leader) {
            stream.broken = true;
        }
    }

    pub(super) fn depose_all_but_newest(&mut self) {
        for leader in 0..self.leaders.len().saturating_sub(1) {
            self.depose(leader);
        }
    }

    pub(super) fn newest_leads(&self) -> bool {
        self.leaders.last().is_some_and(Option::is_some)
    }

    fn dispatch(&mut self, leader: usize, event: Event) {
        let now = self.now;
        let Some(Some(slot)) = self.leaders.get_mut(leader) else { return };
        for action in slot.fleet.handle(event, now) {
            match action {
                Action::Save { version, map } => slot.operations.push_back(Operation::Save { version, map }),
                Action::Fence { worker, version } => {
                    let version = version.parse().expect("our versions are numbers");
                    slot.operations.push_back(Operation::Fence { worker, version });
                }
                Action::ReadLeases => slot.operations.push_back(Operation::Read { began: now }),
                Action::Send { stream, message, .. } => {
                    let stream = &mut self.streams[usize::try_from(stream.0).expect("few streams")];
                    if !stream.broken {
                        stream.down.push_back(message);
                    }
                }
                Action::Close { stream, .. } => {
                    self.streams[usize::try_from(stream.0).expect("few streams")].broken = true;
                }
                Action::Note(_) => {}
            }
        }
    }

    pub(super) fn tick(&mut self, leader: usize) {
        self.dispatch(leader, Event::Tick);
    }

    pub(super) fn leaders(&self) -> usize {
        self.leaders.len()
    }

    /// A leader begins to read the leases.
    pub(super) fn begin_read(&mut self, leader: usize) {
        let began = self.now;
        if let Some(Some(leader)) = self.leaders.get_mut(leader) {
            leader.operations.push_back(Operation::Read { began });
        }
    }

    /// The store takes up or answers a leader's oldest or newest operation.
    pub(super) fn run_operation(&mut self, leader: usize, newest: bool) {
        let Some(Some(slot)) = self.leaders.get_mut(leader) else { return };
        let operation = if newest { slot.operations.pop_back() } else { slot.operations.pop_front() };
        match operation {
            None => {}
            Some(Operation::Save { version, map }) => {
                let expected = slot.map_version;
                if self.map.as_ref().map_or(0, |(_, version)| *version) != expected {
                    self.depose(leader);
                    return;
                }
                if let Some((before, _)) = &self.map {
                    assert!(map.term >= before.term && map.epoch >= before.epoch, "term and epoch only grow");
                }
                let stored = self.next_version();
                self.map = Some((map, stored));
                if let Some(Some(slot)) = self.leaders.get_mut(leader) {
                    slot.map_version = stored;
                    slot.operations.push_back(Operation::Answer(Event::Saved { version }));
                }
            }
            Some(Operation::Fence { worker, version }) => {
                let fenced = self.next_version();
                let lease = self.leases.get_mut(worker.pod()).filter(|lease| lease.version == version);
                let done = lease.is_some();
                if let Some(lease) = lease {
                    *lease = Lease { holder: None, fenced: true, version: fenced, ..lease.clone() };
                }
                if let Some(Some(slot)) = self.leaders.get_mut(leader) {
                    slot.operations.push_back(Operation::Answer(Event::Fenced { worker, done }));
                }
            }
            Some(Operation::Read { began }) => {
                let seen = |(pod, lease): (&String, &Lease)| LeaseSeen {
                    pod: pod.clone(),
                    holder: lease.holder.clone(),
                    fenced: lease.fenced,
                    renewal: lease.renewal.to_string(),
                    version: lease.version.to_string(),
                };
                let leases = self.leases.iter().map(seen).collect();
                slot.operations.push_back(Operation::ReadAnswer { leases, began });
            }
            Some(Operation::Answer(event)) => self.dispatch(leader, event),
            Some(Operation::ReadAnswer { leases, began }) => {
                let read = Read { began, ended: self.now };
                self.dispatch(leader, Event::Leases { leases, read });
            }
        }
    }

    /// A worker renews its lease; the request was on its way for a while.
    pub(super) fn renew(&mut self, worker: usize, took: Duration) {
        let version = self.next_version();
        let began = self.now.checked_sub(took).unwrap_or(self.now);
        let worker = &mut self.workers[worker];
        if !worker.alive {
            return;
        }
        let first = worker.renewed.is_none();
        let lease = self.leases.get(&worker.pod);
        // A new process takes the lease over; one that had it may only go on with it.
        if !first && lease.and_then(|lease| lease.holder.as_ref()) != Some(&worker.id) {
            worker.lose_all();
            return;
        }
        worker.renewed = Some(if first { self.now } else { began });
        let lease = Lease { holder: Some(worker.id.clone()), fenced: false, renewal: version, version };
        self.leases.insert(worker.pod.clone(), lease);
    }

    /// A worker opens a stream to the newest leader and says Hello.
    pub(super) fn join(&mut self, index: usize) {
        let leader = self.leaders.len().saturating_sub(1);
        if !self.workers[index].alive
            || self.workers[index].mute
            || !self.newest_leads()
            || self.workers[index].renewed.is_none()
        {
            return;
        }
        let stream = StreamId(self.streams.len() as u64);
        let worker = &mut self.workers[index];
        worker.stream = Some(stream);
        worker.to_release.clear();
        let hello = Event::Joined { worker: worker.id.clone(), stream, held: worker.held.clone() };
        let id = worker.id.clone();
        let (up, down) = (VecDeque::from([hello]), VecDeque::new());
        self.streams.push(Stream { leader, worker: index, id, up, down, broken: false });
    }

    pub(super) fn has_stream(&self, worker: usize) -> bool {
        let stream = self.workers[worker].stream.and_then(|stream| self.streams.get(usize::try_from(stream.0).ok()?));
        stream.is_some_and(|stream| !stream.broken)
    }

    pub(super) fn streams(&self) -> usize {
        self.streams.len()
    }

    /// The oldest message of a stream arrives at the leader, even when the worker has long moved on.
    pub(super) fn deliver_up(&mut self, stream: usize) {
        let Some(slot) = self.streams.get_mut(stream) else { return };
        let leader = slot.leader;
        if let Some(event) = slot.up.pop_front() {
            self.dispatch(leader, event);
        }
    }

    /// The oldest message of a stream arrives at the worker, if it still listens to this stream.
    pub(super) fn deliver_down(&mut self, stream: usize) {
        let Some(slot) = self.streams.get_mut(stream) else { return };
        let Some(message) = slot.down.pop_front() else { return };
        let worker = &mut self.workers[slot.worker];
        let listens = worker.stream == Some(StreamId(stream as u64)) && worker.id == slot.id && !slot.broken;
        if !worker.alive || !listens {
            return;
        }
        if let ToWorker::Grant(grant) = &message {
            for (range, epoch) in grant.shards.iter().map(unwire) {
                for (other, known, owner) in &self.granted {
                    let same = *known == epoch && other.overlaps(&range);
                    assert!(
                        !same || *owner == worker.id,
                        "{range}@{epoch} was granted to {owner} and to {}",
                        worker.id
                    );
                }
                self.granted.push((range, epoch, worker.id.clone()));
            }
        }
        worker.obey(message);
    }

    /// The same message arrives a second time later.
    pub(super) fn duplicate_up(&mut self, stream: usize) {
        let Some(slot) = self.streams.get_mut(stream) else { return };
        if let Some(event @ Event::Released { .. }) = slot.up.front().cloned() {
            slot.up.push_back(event);
        }
    }

    pub(super) fn break_stream(&mut self, stream: usize) {
        let Some(slot) = self.streams.get_mut(stream) else { return };
        slot.broken = true;
        slot.down.clear();
        slot.up.push_back(Event::Left { worker: slot.id.clone(), stream: StreamId(stream as u64) });
    }

    /// A worker finishes what ran and answers the revokes.
    pub(super) fn release(&mut self, worker: usize) {
        let shards: Vec<_> = self.workers[worker].to_release.drain(..).map(|shard| unwire(&shard)).collect();
        self.say(worker, |id, stream| Event::Released { worker: id, stream, shards });
    }

    /// A worker stops: gives everything up, then its lease, then ends.
    pub(super) fn leave(&mut self, worker: usize) {
        let shards = std::mem::take(&mut self.workers[worker].held);
        self.say(worker, |id, stream| Event::Released { worker: id, stream, shards });
        let version = self.next_version();
        let slot = &mut self.workers[worker];
        if let Some(lease) = self.leases.get_mut(&slot.pod).filter(|lease| lease.holder.as_ref() == Some(&slot.id)) {
            *lease = Lease { holder: None, fenced: false, renewal: version, version };
        }
        slot.alive = false;
    }

    /// A worker reports what each held range costs, with a cut in its middle.
    pub(super) fn report(&mut self, worker: usize) {
        let load = |(range, _): &(KeyRange, Epoch)| {
            let inside: Vec<_> = (0..PROBES).map(probe).filter(|key| range.contains(key)).collect();
            let cut = inside.get(inside.len() / 2).filter(|_| inside.len() > 1);
            let objects_before = inside.len() as u64 / 2 * 10;
            let cuts = cut.map(|key| v1::CutPoint { key: Some((*key).into()), objects_before }).into_iter().collect();
            let objects = inside.len() as u64 * 10;
            (*range, v1::ShardLoad { shard: None, objects, reconciles_per_second: 0.0, cuts })
        };
        let shards = self.workers[worker].held.iter().map(load).collect();
        self.say(worker, |id, stream| Event::Load { worker: id, stream, shards });
    }

    fn say(&mut self, worker: usize, event: impl FnOnce(WorkerId, StreamId) -> Event) {
        let slot = &self.workers[worker];
        let Some(stream) = slot.stream.filter(|_| slot.alive) else { return };
        let event = event(slot.id.clone(), stream);
        let stream = &mut self.streams[usize::try_from(stream.0).expect("few streams")];
        if !stream.broken {
            stream.up.push_back(event);
        }
    }

    pub(super) fn crash(&mut self, worker: usize) {
        self.workers[worker].alive = false;
        for index in 0..self.streams.len() {
            if self.streams[index].worker == worker && !self.streams[index].broken {
                self.break_stream(index);
            }
        }
    }

    pub(super) fn restart(&mut self, worker: usize) {
        self.crash(worker);
        self.workers[worker].begin_anew();
        self.workers[worker].alive = true;
        self.workers[worker].hung = false;
    }

    /// Workers that would write for this key now.
    pub(super) fn writers(&self, key: &Key) -> Vec<&WorkerId> {
        self.workers.iter().filter(|worker| worker.writes(key, self.now)).map(|worker| &worker.id).collect()
    }
}
