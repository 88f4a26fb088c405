//! What is kept of each object between looks at it: little, because there are many.
//!
//! The object itself is not kept. A look begins with a read of it, so that nothing is decided from an old copy; the price is
//! one read per look, the gain is that 10,000 objects fit in a few MiB.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::{Duration, Instant};

use flotilla_proto::{GroupKind, Key, KeyRange, v1};

use super::condition::Ready;
use super::memory::Memory;
use super::object::Id;
use super::queue::{Class, Queue};
use super::retry::jittered;
use super::seen::Seen;
use super::unready::{self, Group, Tally, Unready};
use crate::arm::operation::Handle;

/// An object that others depend on, as its record shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Its UID.
    pub uid: String,
    /// Ready=True.
    pub ready: bool,
    /// Azure has had it.
    pub created: bool,
    /// Its ARM id.
    pub arm_id: Option<String>,
}

/// What this worker remembers of an object's work, while there is work.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mind {
    /// What is known beyond the object.
    pub memory: Memory,
    /// The operation in flight, further than the one stored on the object.
    pub handle: Option<Handle>,
    /// The handle could not be written to the object yet.
    pub unstored: bool,
    /// Why the last polls failed.
    pub unheard: Option<Ready>,
}

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
    /// Whose change it is looked at for.
    waits_for: Box<[Id]>,
    mind: Option<Box<Mind>>,
    /// Its shard's former owner did not hand it over, and Azure was not read for it since.
    unclean: bool,
    /// When the present spec was first seen, until it is ready.
    since: Option<Instant>,
    /// Its Ready condition, unless True.
    unready: Option<Box<Unready>>,
}

/// All objects in the held shards, and the queue of those to look at.
#[derive(Debug, Default)]
pub struct Records {
    objects: HashMap<Id, Record>,
    /// Who waits for what.
    waiters: HashMap<Id, HashSet<Id>>,
    /// Names of namespaces and kinds, each once.
    namespaces: HashSet<Arc<str>>,
    namespaces_limit: usize,
    queue: Queue<Id>,
    resync: Option<Duration>,
    reconciles: u64,
    interest_changed: bool,
    /// Keys of the objects that are being looked at, whether or not their records still exist.
    running: HashMap<Id, Key>,
}

/// A turn that may begin.
#[derive(Debug)]
pub struct Turn {
    /// The object.
    pub id: Id,
    /// Its key.
    pub key: Key,
    /// Why it is looked at.
    pub class: Class,
    /// What is remembered of it.
    pub mind: Mind,
    /// Read Azure before the first write.
    pub unclean: bool,
}

/// How a turn left the object.
#[derive(Debug)]
pub struct Left {
    /// What to remember.
    pub mind: Mind,
    /// When to look again, and why. Without it, after a resync period.
    pub next: Option<(Instant, Class)>,
    /// Whose change to look for; without it, the same as before.
    pub waits_for: Option<Vec<Id>>,
    /// Azure was read or nothing had been written: others' unfinished work is known.
    pub clean: bool,
    /// How the object stands now, as far as the turn knows better than the watch.
    pub standing: Option<Standing>,
}

impl Records {
    /// An empty list. Unchanged objects are looked at once per `resync`.
    pub fn new(resync: Option<Duration>) -> Self {
        Self { resync, ..Self::default() }
    }

    /// The one copy of a namespace's name.
    pub fn namespace(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.namespaces.get(name) {
            return Arc::clone(known);
        }
        // Namespaces come and go; names that only this set holds are of those that went.
        if self.namespaces.len() >= self.namespaces_limit.max(64) {
            self.namespaces.retain(|name| Arc::strong_count(name) > 1);
            self.namespaces_limit = self.namespaces.len() * 2;
        }
        let name: Arc<str> = name.into();
        self.namespaces.insert(Arc::clone(&name));
        name
    }

    /// Takes in an object that the watch or a list shows. Returns whether it became ready since it was last seen.
    pub fn seen(&mut self, id: Id, uid: &str, key: Key, seen: &Seen, unclean: bool, now: Instant) -> bool {
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
            unclean,
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

    /// At a start nobody knows when an object was last looked at; spread over the period they make no wave.
    fn resync_somewhen(&mut self, id: &Id, uid: &str, now: Instant) {
        let Some(period) = self.resync else { return };
        let share = f64::from(u16::try_from(seed(uid) >> 48).unwrap_or(0)) / f64::from(u16::MAX);
        self.queue.push_at(id.clone(), Class::Resync, now + period.mul_f64(share));
    }

    /// The object is gone, or not ours any more. Returns whether it was known.
    pub fn forget(&mut self, id: &Id) -> bool {
        let Some(record) = self.objects.remove(id) else { return false };
        self.queue.remove(id);
        self.interest_changed |= !record.waits_for.is_empty();
        for target in &record.waits_for {
            self.stop_waiting(target, id);
        }
        true
    }

    /// Forgets all objects in these ranges.
    pub fn forget_ranges(&mut self, ranges: &[KeyRange]) {
        let inside = |key: &Key| ranges.iter().any(|range| range.contains(key));
        let ids: Vec<_> = self.objects.iter().filter(|(_, r)| inside(&r.key)).map(|(id, _)| id.clone()).collect();
        for id in ids {
            self.forget(&id);
        }
    }

    /// Objects of a kind that are known and not among `present`, after a complete list of the kind.
    pub fn absent(&self, kind: &GroupKind, namespace: Option<&str>, present: &HashSet<Id>) -> Vec<Id> {
        let listed = |id: &&Id| *id.kind == *kind && namespace.is_none_or(|namespace| *id.namespace == *namespace);
        self.objects.keys().filter(listed).filter(|id| !present.contains(*id)).cloned().collect()
    }

    /// Puts everything in line that waits for this object.
    pub fn wake(&mut self, target: &Id) -> usize {
        let waiters: Vec<_> = self.waiters.get(target).into_iter().flatten().cloned().collect();
        for id in &waiters {
            self.queue.push(id.clone(), Class::Wake);
        }
        waiters.len()
    }

    /// Everything outside of our own shards that somebody waits for, if that has changed since the last call.
    pub fn take_interest(&mut self) -> Option<Vec<v1::ObjectName>> {
        if !std::mem::take(&mut self.interest_changed) {
            return None;
        }
        let elsewhere = self.waiters.keys().filter(|id| !self.objects.contains_key(id));
        Some(elsewhere.map(v1::ObjectName::from).collect())
    }

    /// Whether the object is known here.
    pub fn contains(&self, id: &Id) -> bool {
        self.objects.contains_key(id)
    }

    /// How an object stands that others depend on.
    pub fn standing(&self, id: &Id) -> Option<Standing> {
        let record = self.objects.get(id)?;
        Some(Standing {
            uid: record.uid.to_string(),
            ready: record.ready,
            created: record.created,
            arm_id: record.arm_id.as_deref().map(str::to_owned),
        })
    }

    /// The next object to look at, of a class that has room.
    pub fn next(&mut self, now: Instant, has_room: impl Fn(Class) -> bool) -> Option<Turn> {
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
            return Some(Turn { key: record.key, class, mind, unclean: record.unclean, id });
        }
    }

    /// Ends a turn. Returns how long the object took to get ready, if it just did, and whether what it waits for changed.
    pub fn left(&mut self, id: &Id, uid: &str, left: Left, now: Instant) -> Ended {
        self.reconciles += 1;
        self.running.remove(id);
        let Some(record) = self.objects.get_mut(id).filter(|record| *record.uid == *uid || uid.is_empty()) else {
            self.queue.done(id);
            return Ended::default();
        };
        record.unclean &= !left.clean;
        record.mind = (left.mind != Mind::default()).then(|| Box::new(left.mind));
        let mut ended = Ended::default();
        if let Some(standing) = left.standing {
            ended.became_ready = standing.ready && !record.ready;
            ended.ready_after = record.since.filter(|_| standing.ready).map(|since| now - since);
            if standing.ready {
                record.since = None;
            }
            record.ready = standing.ready;
            record.created |= standing.created;
            record.arm_id = standing.arm_id.map(Into::into);
        }
        if let Some(after) = left.waits_for {
            let before = std::mem::replace(&mut record.waits_for, after.clone().into());
            for target in before.iter().filter(|target| !after.contains(target)) {
                self.stop_waiting(target, id);
                self.interest_changed = true;
            }
            for target in after.into_iter().filter(|target| !before.contains(target)) {
                self.waiters.entry(target).or_default().insert(id.clone());
                self.interest_changed = true;
            }
        }
        match (left.next, self.resync) {
            (Some((due, class)), _) => self.queue.push_at(id.clone(), class, due),
            (None, Some(period)) => {
                let due = now + jittered(period, seed(uid));
                self.queue.push_at(id.clone(), Class::Resync, due);
            }
            (None, None) => {}
        }
        self.queue.done(id);
        ended
    }

    /// The object of a turn is gone. Returns whether it was known.
    pub fn gone(&mut self, id: &Id) -> bool {
        self.running.remove(id);
        let known = self.forget(id);
        self.queue.done(id);
        known
    }

    /// Ends a turn that could not be begun; the object is looked at again when its shard allows it.
    pub fn put_back(&mut self, id: &Id, mind: Mind, again: Option<Instant>) {
        self.running.remove(id);
        if let Some(record) = self.objects.get_mut(id) {
            record.mind = (mind != Mind::default()).then(|| Box::new(mind));
            if let Some(again) = again {
                self.queue.push_at(id.clone(), Class::Retry, again);
            }
        }
        self.queue.done(id);
    }

    /// Puts an object in line.
    pub fn push(&mut self, id: Id, class: Class) {
        if self.objects.contains_key(&id) {
            self.queue.push(id, class);
        }
    }

    /// When the next object becomes due.
    pub fn next_due(&self) -> Option<Instant> {
        self.queue.next_due()
    }

    /// Keys of the objects that are being looked at.
    pub fn running(&self) -> impl Iterator<Item = &Key> {
        self.running.values()
    }

    /// How many objects wait in a class now.
    pub fn waiting(&self, class: Class) -> usize {
        self.queue.waiting(class)
    }

    /// How many objects are known.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether none is known.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Objects with a long-running operation.
    pub fn operations(&self) -> usize {
        let minds = self.objects.values().filter_map(|record| record.mind.as_ref());
        minds.filter(|mind| mind.handle.is_some()).count()
    }

    /// What is not ready, why, and since when.
    pub fn unready(&self) -> BTreeMap<Group, Tally> {
        let unready = self.objects.iter().filter_map(|(id, record)| Some((&id.kind, record.unready.as_deref()?)));
        unready::tally(unready)
    }

    /// Looks taken since the last call.
    pub fn take_reconciles(&mut self) -> u64 {
        std::mem::take(&mut self.reconciles)
    }

    /// All keys, sorted, for the load report.
    pub fn keys(&self) -> Vec<Key> {
        let mut keys: Vec<_> = self.objects.values().map(|record| record.key).collect();
        keys.sort_unstable();
        keys
    }

    /// Namespaces that have objects here.
    pub fn used_namespaces(&self) -> HashSet<Arc<str>> {
        self.objects.keys().map(|id| Arc::clone(&id.namespace)).collect()
    }

    /// Kinds that have objects here.
    pub fn kinds(&self) -> BTreeSet<GroupKind> {
        let kinds: HashSet<&GroupKind> = self.objects.keys().map(|id| &*id.kind).collect();
        kinds.into_iter().cloned().collect()
    }

    fn stop_waiting(&mut self, target: &Id, id: &Id) {
        if let Some(waiters) = self.waiters.get_mut(target) {
            waiters.remove(id);
            if waiters.is_empty() {
                self.waiters.remove(target);
            }
        }
    }
}

/// What the end of a turn brought.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Ended {
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
