//! What is reconciled next.
//!
//! Keeps true: at most one reconcile of an object runs at a time; however often it is named, it waits once; within a class the
//! namespaces are served in rotation; a lower class is never starved for good.
//!
//! Pure: time comes in as an argument. [`super::intake`] puts it to work.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet, VecDeque};
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Instant;

use crate::metrics::Label;

/// Why an object is reconciled; earlier ones first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// A user created, changed or deleted it.
    Change,
    /// Its long-running operation is due for a poll.
    Operation,
    /// What it waited for has changed.
    Wake,
    /// Something failed before.
    Retry,
    /// Nothing happened for a resync period.
    Resync,
}

impl Class {
    /// All of them, in order.
    pub const ALL: [Class; 5] = [Class::Change, Class::Operation, Class::Wake, Class::Retry, Class::Resync];

    /// As a word.
    pub fn as_str(self) -> &'static str {
        match self {
            Class::Change => "change",
            Class::Operation => "operation",
            Class::Wake => "wake",
            Class::Retry => "retry",
            Class::Resync => "resync",
        }
    }
}

impl Label for Class {
    fn label(&self) -> &'static str {
        self.as_str()
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Something that can wait in the queue.
pub(crate) trait Item: Clone + Eq + Hash + Ord {
    /// The namespace whose share of the reconciles it uses.
    fn namespace(&self) -> Arc<str>;
}

/// Every so many times the lowest class that waits goes first, so that a flood of changes can't starve resync.
const LOWEST_FIRST_EVERY: u64 = 16;

/// One class's waiting items, a line per namespace, served in rotation.
#[derive(Debug)]
struct Lines<T> {
    by_namespace: HashMap<Arc<str>, VecDeque<T>>,
    rotation: VecDeque<Arc<str>>,
    length: usize,
}

impl<T> Default for Lines<T> {
    fn default() -> Self {
        Self { by_namespace: HashMap::new(), rotation: VecDeque::new(), length: 0 }
    }
}

impl<T: Item> Lines<T> {
    fn push(&mut self, item: T) {
        let namespace = item.namespace();
        let line = self.by_namespace.entry(Arc::clone(&namespace)).or_default();
        if line.is_empty() {
            self.rotation.push_back(namespace);
        }
        line.push_back(item);
        self.length += 1;
    }

    /// The next item that `counts`; items it refuses are dropped.
    fn pop(&mut self, mut counts: impl FnMut(&T) -> bool) -> Option<T> {
        while let Some(namespace) = self.rotation.pop_front() {
            let Some(line) = self.by_namespace.get_mut(&namespace) else { continue };
            let mut found = None;
            while let Some(item) = line.pop_front() {
                self.length -= 1;
                if counts(&item) {
                    found = Some(item);
                    break;
                }
            }
            if line.is_empty() {
                self.by_namespace.remove(&namespace);
            } else {
                self.rotation.push_back(namespace);
            }
            if found.is_some() {
                return found;
            }
        }
        None
    }
}

/// The queue.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    lines: [Lines<T>; Class::ALL.len()],
    /// The class in which an item waits; entries left in other lines are stale.
    waiting: HashMap<T, Class>,
    /// Items due later, and the entry in `timers` that counts.
    due: HashMap<T, (Instant, Class)>,
    timers: BinaryHeap<Reverse<(Instant, T, Class)>>,
    running: HashSet<T>,
    /// Named again while running: they go back in line when the reconcile ends.
    again: HashMap<T, Class>,
    popped: u64,
}

impl<T: Item> Default for Queue<T> {
    fn default() -> Self {
        Self {
            lines: Default::default(),
            waiting: HashMap::new(),
            due: HashMap::new(),
            timers: BinaryHeap::new(),
            running: HashSet::new(),
            again: HashMap::new(),
            popped: 0,
        }
    }
}

impl<T: Item> Queue<T> {
    /// Puts an item in line; if it waits already, it waits in the better of the two classes.
    pub(crate) fn push(&mut self, item: T, class: Class) {
        if self.running.contains(&item) {
            let again = self.again.entry(item).or_insert(class);
            *again = class.min(*again);
            return;
        }
        if self.waiting.get(&item).is_some_and(|present| *present <= class) {
            return;
        }
        self.due.remove(&item);
        self.waiting.insert(item.clone(), class);
        self.lines[class as usize].push(item);
    }

    /// Puts an item in line at a later time, in place of the time it had. An item that waits already stays in line.
    pub(crate) fn push_at(&mut self, item: T, class: Class, due: Instant) {
        if self.waiting.contains_key(&item) {
            return;
        }
        self.due.insert(item.clone(), (due, class));
        self.timers.push(Reverse((due, item, class)));
    }

    /// The next item, from one of the classes that have room; it counts as running until [`Queue::done`].
    pub(crate) fn pop(&mut self, now: Instant, has_room: impl Fn(Class) -> bool) -> Option<(T, Class)> {
        self.ripen(now);
        self.popped += 1;
        let lowest_first = self.popped.is_multiple_of(LOWEST_FIRST_EVERY);
        let order: [Class; 5] = if lowest_first {
            let mut order = Class::ALL;
            order.reverse();
            order
        } else {
            Class::ALL
        };
        for class in order.into_iter().filter(|class| has_room(*class)) {
            let waiting = &self.waiting;
            if let Some(item) = self.lines[class as usize].pop(|item| waiting.get(item) == Some(&class)) {
                self.waiting.remove(&item);
                self.running.insert(item.clone());
                return Some((item, class));
            }
        }
        None
    }

    /// Ends an item's reconcile. It goes back in line if it was named meanwhile.
    pub(crate) fn done(&mut self, item: &T) {
        self.running.remove(item);
        if let Some(class) = self.again.remove(item) {
            self.push(item.clone(), class);
        }
    }

    /// Forgets an item; one that runs does not go back in line.
    pub(crate) fn remove(&mut self, item: &T) {
        self.waiting.remove(item);
        self.due.remove(item);
        self.again.remove(item);
    }

    /// When the next item becomes due, if none waits now.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.timers.peek().map(|Reverse((due, ..))| *due)
    }

    /// How many wait in a class now.
    pub(crate) fn waiting(&self, class: Class) -> usize {
        self.waiting.values().filter(|present| **present == class).count()
    }

    /// Moves everything that is due into its line.
    fn ripen(&mut self, now: Instant) {
        while let Some(Reverse((due, ..))) = self.timers.peek() {
            if *due > now {
                return;
            }
            let Some(Reverse((due, item, class))) = self.timers.pop() else { return };
            // An entry counts only while it is the item's latest; others were replaced.
            if self.due.get(&item) == Some(&(due, class)) {
                self.due.remove(&item);
                self.push(item, class);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    struct Id(&'static str, u32);

    impl Item for Id {
        fn namespace(&self) -> Arc<str> {
            self.0.into()
        }
    }

    fn all(_: Class) -> bool {
        true
    }

    fn drain(queue: &mut Queue<Id>, now: Instant) -> Vec<Id> {
        std::iter::from_fn(|| {
            let (item, _) = queue.pop(now, all)?;
            queue.done(&item);
            Some(item)
        })
        .collect()
    }

    #[test]
    fn a_burst_in_one_namespace_does_not_hold_up_another() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        for n in 0..1000 {
            queue.push(Id("burst", n), Class::Change);
        }
        queue.push(Id("calm", 1), Class::Change);
        let order = drain(&mut queue, now);
        assert_eq!(order.iter().position(|id| id.0 == "calm"), Some(1));
        assert_eq!(order.len(), 1001);
    }

    #[test]
    fn a_change_overtakes_a_resync_of_the_same_object_and_is_served_once() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        queue.push(Id("a", 1), Class::Resync);
        queue.push(Id("a", 1), Class::Change);
        queue.push(Id("a", 1), Class::Retry);
        assert_eq!(queue.pop(now, all), Some((Id("a", 1), Class::Change)));
        queue.done(&Id("a", 1));
        assert_eq!(queue.pop(now, all), None);
    }

    #[test]
    fn an_object_never_runs_twice_at_once_and_comes_again_if_named_meanwhile() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        queue.push(Id("a", 1), Class::Change);
        queue.pop(now, all).unwrap();
        queue.push(Id("a", 1), Class::Resync);
        queue.push(Id("a", 1), Class::Wake);
        assert_eq!(queue.pop(now, all), None);
        queue.done(&Id("a", 1));
        assert_eq!(queue.pop(now, all), Some((Id("a", 1), Class::Wake)));
    }

    #[test]
    fn a_later_time_replaces_the_one_before() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        let after = |secs| now + Duration::from_secs(secs);
        queue.push_at(Id("a", 1), Class::Retry, after(1));
        queue.push_at(Id("a", 1), Class::Resync, after(60));
        assert_eq!(queue.pop(after(2), all), None);
        assert_eq!(queue.pop(after(60), all), Some((Id("a", 1), Class::Resync)));
    }

    #[test]
    fn a_flood_of_changes_does_not_starve_resync() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        queue.push(Id("quiet", 0), Class::Resync);
        for n in 0..100 {
            queue.push(Id("busy", n), Class::Change);
        }
        let order = drain(&mut queue, now);
        assert!(order.iter().position(|id| id.0 == "quiet") < Some(16));
    }

    #[test]
    fn a_class_without_room_waits_and_the_others_go_on() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        queue.push(Id("a", 1), Class::Change);
        queue.push(Id("a", 2), Class::Operation);
        assert_eq!(queue.pop(now, |class| class == Class::Operation), Some((Id("a", 2), Class::Operation)));
        assert_eq!(queue.pop(now, |class| class == Class::Operation), None);
        assert_eq!(queue.pop(now, all), Some((Id("a", 1), Class::Change)));
    }

    #[derive(Clone, Debug)]
    enum Event {
        Push(u8, usize),
        PushAt(u8, usize, u64),
        Pop,
        Done(u8),
        Remove(u8),
        Advance(u64),
    }

    fn event() -> impl Strategy<Value = Event> {
        prop_oneof![
            (0..6u8, 0..5usize).prop_map(|(n, c)| Event::Push(n, c)),
            (0..6u8, 0..5usize, 0..20u64).prop_map(|(n, c, s)| Event::PushAt(n, c, s)),
            Just(Event::Pop),
            (0..6u8).prop_map(Event::Done),
            (0..6u8).prop_map(Event::Remove),
            (0..30u64).prop_map(Event::Advance),
        ]
    }

    proptest! {
        /// Whatever happens: no item runs twice at once, and every item that was named and not removed is served.
        #[test]
        fn nothing_named_is_lost_and_nothing_runs_twice(events in prop::collection::vec(event(), 1..200)) {
            let id = |n: u8| Id(["a", "b", "c"][usize::from(n % 3)], u32::from(n));
            let mut now = Instant::now();
            let mut queue = Queue::default();
            let mut running = HashSet::new();
            let mut owed = HashSet::new();
            for event in events {
                match event {
                    Event::Push(n, c) => { queue.push(id(n), Class::ALL[c]); owed.insert(id(n)); }
                    Event::PushAt(n, c, s) => {
                        queue.push_at(id(n), Class::ALL[c], now + Duration::from_secs(s));
                        owed.insert(id(n));
                    }
                    Event::Pop => if let Some((item, _)) = queue.pop(now, all) {
                        owed.remove(&item);
                        prop_assert!(running.insert(item));
                    },
                    Event::Done(n) => if running.remove(&id(n)) { queue.done(&id(n)); },
                    Event::Remove(n) => { queue.remove(&id(n)); owed.remove(&id(n)); }
                    Event::Advance(s) => now += Duration::from_secs(s),
                }
            }
            for item in running.drain() { queue.done(&item); }
            let served: HashSet<_> = drain(&mut queue, now + Duration::from_hours(1)).into_iter().collect();
            prop_assert!(owed.is_subset(&served), "owed {owed:?}, served {served:?}");
        }
    }
}
