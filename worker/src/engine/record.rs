//! What is kept of each object between reconciles: little, because there are many.
//!
//! The object itself is not kept. A reconcile begins with a read of it, so that nothing is decided from an old copy; the price is
//! one read per reconcile, the gain is that 10,000 objects fit in a few MiB.

mod namespaces;
mod waiters;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::{Duration, Instant};

use flotilla_proto::{GroupKind, Key, KeyRange, v1};

use self::namespaces::Namespaces;
use self::waiters::Waiters;
use super::done::{Done, Next, WaitsFor};
use super::memory::Mind;
use super::object::Id;
use super::queue::{Class, Queue};
use super::retry::jittered;
use super::seen::Seen;
use super::standing::Standing;
use super::unready::{self, Unready};
use crate::fleet::Handover;
use crate::metrics::{Group, Tally};

/// One object.
#[derive(Debug)]
struct Record {
    uid: Box<str>,
    key: Key,
    version: u64,
    mark: u64,
    ready: bool,
    created: bool,
    arm_id: Option<Box<str>>,
    /// Whose changes bring its next reconcile forward.
    waits_for: Box<[Id]>,
    mind: Option<Box<Mind>>,
    /// Unclean while the former owner's last writes for it are unknown.
    handover: Handover,
    /// When the present spec was first seen, until it is ready.
    since: Option<Instant>,
    /// Its Ready condition, unless True.
    unready: Option<Box<Unready>>,
}

/// All objects in the held shards, and the queue of those to reconcile.
#[derive(Debug, Default)]
pub(crate) struct Records {
    objects: HashMap<Id, Record>,
    waiters: Waiters,
    namespaces: Namespaces,
    queue: Queue<Id>,
    resync: Option<Duration>,
    reconciles: u64,
    /// Keys of the objects that are being reconciled, whether or not their records still exist.
    running: HashMap<Id, Key>,
}

/// A reconcile that may begin.
#[derive(Debug)]
pub(crate) struct Job {
    /// The object.
    pub id: Id,
    /// Its key.
    pub key: Key,
    /// Why it is reconciled.
    pub class: Class,
    /// What is remembered of it.
    pub mind: Mind,
    /// Unclean if Azure must be read before the first write.
    pub handover: Handover,
}

impl Records {
    /// An empty list. Unchanged objects are reconciled once per `resync`.
    pub(crate) fn new(resync: Option<Duration>) -> Self {
        Self { resync, ..Self::default() }
    }

    /// The one copy of a namespace's name.
    pub(crate) fn namespace(&mut self, name: &str) -> Arc<str> {
        self.namespaces.intern(name)
    }

    /// Takes in an object that the watch or a list shows. Returns whether it became ready since it was last seen.
    pub(crate) fn seen(&mut self, id: Id, uid: &str, key: Key, seen: &Seen, handover: Handover, now: Instant) -> bool {
        let version = version(seen);
        let mark = seen.mark();
        let known = self.objects.get(&id).filter(|record| *record.uid == *uid);
        let (fresh, changed, was_ready) = match known {
            // A list may be older than what the watch has shown already.
            Some(record) if record.version > version => return false,
            Some(record) => (false, record.mark != mark, record.ready),
            None => (true, true, false),
        };
        if known.is_none() {
            self.forget(&id);
        }
        let record = self.objects.entry(id.clone()).or_insert_with(|| Record {
            uid: uid.into(),
            key,
            version,
            mark,
            ready: false,
            created: false,
            arm_id: None,
            waits_for: Box::default(),
            mind: None,
            handover,
            since: None,
            unready: None,
        });
        record.version = version;
        record.unready = seen.unready().map(Box::new);
        record.mark = mark;
        record.ready = seen.ready();
        record.created = seen.created();
        record.arm_id = seen.arm_id().map(Into::into);
        let settled = seen.settled();
        if changed && !settled {
            record.since.get_or_insert(now);
        }
        let became_ready = record.ready && !was_ready;
        if fresh && settled {
            self.resync_somewhen(&id, uid, now);
        } else if changed {
            self.queue.push(id, Class::Change);
        }
        became_ready
    }

    /// At a start it is unknown when an object was last reconciled; spread over the period they make no wave.
    fn resync_somewhen(&mut self, id: &Id, uid: &str, now: Instant) {
        let Some(period) = self.resync else { return };
        let share = f64::from(u16::try_from(seed(uid) >> 48).unwrap_or(0)) / f64::from(u16::MAX);
        self.queue.push_at(id.clone(), Class::Resync, now + period.mul_f64(share));
    }

    /// The object is gone, or not ours any more. Returns whether it was known.
    pub(crate) fn forget(&mut self, id: &Id) -> bool {
        let Some(record) = self.objects.remove(id) else { return false };
        self.queue.remove(id);
        self.waiters.replace(id, &record.waits_for, &[]);
        true
    }

    /// Forgets all objects in these ranges.
    pub(crate) fn forget_ranges(&mut self, ranges: &[KeyRange]) {
        let inside = |key: &Key| ranges.iter().any(|range| range.contains(key));
        let ids: Vec<_> = self.objects.iter().filter(|(_, r)| inside(&r.key)).map(|(id, _)| id.clone()).collect();
        for id in ids {
            self.forget(&id);
        }
    }

    /// Objects of a kind that are known and not among `present`, after a complete list of the kind.
    pub(crate) fn absent(&self, kind: &GroupKind, namespace: Option<&str>, present: &HashSet<Id>) -> Vec<Id> {
        let listed = |id: &&Id| *id.kind == *kind && namespace.is_none_or(|namespace| *id.namespace == *namespace);
        self.objects.keys().filter(listed).filter(|id| !present.contains(*id)).cloned().collect()
    }

    /// Puts everything in line that waits for this object.
    pub(crate) fn wake(&mut self, target: &Id) -> usize {
        let waiters = self.waiters.of(target);
        for id in &waiters {
            self.queue.push(id.clone(), Class::Wake);
        }
        waiters.len()
    }

    /// Everything outside of our own shards that somebody waits for, if that has changed since the last call.
    pub(crate) fn take_interest(&mut self) -> Option<Vec<v1::ObjectName>> {
        let waited_for = self.waiters.take_changed()?;
        Some(waited_for.filter(|id| !self.objects.contains_key(id)).map(v1::ObjectName::from).collect())
    }

    /// How an object stands that others depend on.
    pub(crate) fn standing(&self, id: &Id) -> Option<Standing> {
        let record = self.objects.get(id)?;
        Some(Standing {
            uid: record.uid.to_string(),
            ready: record.ready,
            created: record.created,
            arm_id: record.arm_id.as_deref().map(str::to_owned),
        })
    }

    /// The next object to reconcile, of a class that has room.
    pub(crate) fn next(&mut self, now: Instant, has_room: impl Fn(Class) -> bool) -> Option<Job> {
        loop {
            let (id, class) = self.queue.pop(now, &has_room)?;
            let Some(record) = self.objects.get_mut(&id) else {
                self.queue.done(&id);
                continue;
            };
            let mut mind = record.mind.take().map(|mind| *mind).unwrap_or_default();
            if matches!(class, Class::Change | Class::Wake) {
                mind.memory.wake();
            }
            self.running.insert(id.clone(), record.key);
            return Some(Job { key: record.key, class, mind, handover: record.handover, id });
        }
    }

    /// Ends a reconcile. Returns whether the object became ready, and how long that took.
    pub(crate) fn done(&mut self, id: &Id, uid: &str, done: Done, now: Instant) -> Ended {
        self.reconciles += 1;
        self.running.remove(id);
        let Some(record) = self.objects.get_mut(id).filter(|record| *record.uid == *uid || uid.is_empty()) else {
            self.queue.done(id);
            return Ended::default();
        };
        if !done.handover.is_unclean() {
            record.handover = Handover::Clean;
        }
        record.mind = (done.mind != Mind::default()).then(|| Box::new(done.mind));
        let mut ended = Ended::default();
        if let Some(standing) = done.standing {
            ended.became_ready = standing.ready && !record.ready;
            ended.ready_after = record.since.filter(|_| standing.ready).map(|since| now - since);
            if standing.ready {
                record.since = None;
            }
            record.ready = standing.ready;
            record.created |= standing.created;
            record.arm_id = standing.arm_id.map(Into::into);
        }
        if let WaitsFor::These(after) = done.waits_for {
            self.waiters.replace(id, &record.waits_for, &after);
            record.waits_for = after.into();
        }
        match done.next {
            Next::At { due, class } => self.queue.push_at(id.clone(), class, due),
            Next::AfterResync => {
                if let Some(period) = self.resync {
                    self.queue.push_at(id.clone(), Class::Resync, now + jittered(period, seed(uid)));
                }
            }
        }
        self.queue.done(id);
        ended
    }

    /// The object of a reconcile is gone. Returns whether it was known.
    pub(crate) fn gone(&mut self, id: &Id) -> bool {
        self.running.remove(id);
        let known = self.forget(id);
        self.queue.done(id);
        known
    }

    /// Ends a reconcile that lost its claim; the object is reconciled again at that time, if its shard is still ours.
    pub(crate) fn put_back(&mut self, id: &Id, mind: Mind, again: Option<Instant>) {
        self.running.remove(id);
        if let Some(record) = self.objects.get_mut(id) {
            record.mind = (mind != Mind::default()).then(|| Box::new(mind));
            if let Some(again) = again {
                self.queue.push_at(id.clone(), Class::Retry, again);
            }
        }
        self.queue.done(id);
    }

    /// When the next object becomes due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.queue.next_due()
    }

    /// Keys of the objects that are being reconciled.
    pub(crate) fn running(&self) -> impl Iterator<Item = &Key> {
        self.running.values()
    }

    /// How many objects wait in a class now.
    pub(crate) fn waiting(&self, class: Class) -> usize {
        self.queue.waiting(class)
    }

    /// How many objects are known.
    pub(crate) fn len(&self) -> usize {
        self.objects.len()
    }

    /// Objects with a long-running operation.
    pub(crate) fn operations(&self) -> usize {
        let minds = self.objects.values().filter_map(|record| record.mind.as_ref());
        minds.filter(|mind| mind.handle.is_some()).count()
    }

    /// What is not ready, why, and since when.
    pub(crate) fn unready(&self) -> BTreeMap<Group, Tally> {
        let unready = self.objects.iter().filter_map(|(id, record)| Some((&id.kind, record.unready.as_deref()?)));
        unready::tally(unready)
    }

    /// Reconciles since the last call.
    pub(crate) fn take_reconciles(&mut self) -> u64 {
        std::mem::take(&mut self.reconciles)
    }

    /// All keys, sorted, for the load report.
    pub(crate) fn keys(&self) -> Vec<Key> {
        let mut keys: Vec<_> = self.objects.values().map(|record| record.key).collect();
        keys.sort_unstable();
        keys
    }

    /// Namespaces that have objects here.
    pub(crate) fn used_namespaces(&self) -> HashSet<Arc<str>> {
        self.objects.keys().map(|id| Arc::clone(&id.namespace)).collect()
    }

    /// Kinds that have objects here.
    pub(crate) fn kinds(&self) -> BTreeSet<GroupKind> {
        let kinds: HashSet<&GroupKind> = self.objects.keys().map(|id| &*id.kind).collect();
        kinds.into_iter().cloned().collect()
    }
}

/// What the end of a reconcile brought.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Ended {
    /// The object is ready and was not before.
    pub became_ready: bool,
    /// How long that took.
    pub ready_after: Option<Duration>,
}

/// Versions count up. A server whose versions do not is believed to send in order.
fn version(seen: &Seen) -> u64 {
    let version = kube::Resource::meta(seen).resource_version.as_deref();
    version.and_then(|version| version.parse().ok()).unwrap_or(0)
}

fn seed(uid: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    uid.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests;
