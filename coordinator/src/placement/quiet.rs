//! A quiet fleet on simulated time: nothing changes but that each object is read once per resync period, and placement leaves it alone.
//!
//! What the leader sees is what workers report once per heartbeat. The new owner of a shard starts the periods of its objects again, each at a
//! place of its own, as workers do.
#![expect(clippy::cast_precision_loss, reason = "counts of a test's objects")]

use std::collections::BTreeMap;

use flotilla_proto::{GroupKind, Key, KeyRange, WorkerId, v1};

use super::{Stand, Step, View, plan};
use crate::handoff::Reason;
use crate::load::Loads;

/// Objects that are read in turn, and who holds which range.
struct QuietFleet {
    /// Each object with the second of the period in which it is read.
    objects: Vec<(Key, u64)>,
    period: u64,
    workers: Vec<WorkerId>,
    shards: Vec<(KeyRange, Option<WorkerId>)>,
    loads: Loads,
    balancing: bool,
    /// Reads beside those, by the second in which they happen.
    extra_reads: BTreeMap<u64, Vec<Key>>,
}

impl QuietFleet {
    /// So many objects in namespaces of five, each read once in `period` seconds.
    fn new(objects: u64, workers: usize, period: u64) -> Self {
        let kind = GroupKind::new("x.azure.com", "StorageAccount");
        let key = |index: u64| Key::of(&format!("team-{}", index / 5), &kind, &format!("uid-{index}"));
        // A multiplication by an odd number spreads the reads without order, the same way at each run.
        let mut objects: Vec<_> =
            (0..objects).map(|index| (key(index), index.wrapping_mul(0x9e37_79b9_7f4a_7c15) % period)).collect();
        objects.sort_unstable();
        Self {
            objects,
            period,
            workers: (0..workers).map(|index| WorkerId::new(&format!("w{index}"), "1")).collect(),
            shards: vec![(KeyRange::ALL, None)],
            loads: Loads::default(),
            balancing: false,
            extra_reads: BTreeMap::new(),
        }
    }

    /// The objects in a range.
    fn inside(&self, range: &KeyRange) -> &[(Key, u64)] {
        let before = |key: Key| self.objects.partition_point(|(object, _)| *object < key);
        &self.objects[before(range.start)..range.end.map_or(self.objects.len(), before)]
    }

    fn held_by<'a>(&'a self, owner: &'a WorkerId) -> impl Iterator<Item = &'a KeyRange> {
        self.shards.iter().filter(move |(_, holder)| holder.as_ref() == Some(owner)).map(|(range, _)| range)
    }

    /// How often a worker reads one of its objects in this second, on average.
    fn rate(&self, owner: &WorkerId, second: u64) -> f64 {
        let due = |range: &KeyRange| self.inside(range).iter().filter(|(_, at)| *at == second % self.period).count();
        let moved = self.extra_reads.get(&second).map_or(&[][..], Vec::as_slice);
        let moved = moved.iter().filter(|key| self.held_by(owner).any(|range| range.contains(key))).count();
        let objects: usize = self.held_by(owner).map(|range| self.inside(range).len()).sum();
        (self.held_by(owner).map(due).sum::<usize>() + moved) as f64 / objects.max(1) as f64
    }

    /// What a worker reports about one of its shards: its reads count evenly for all of its objects.
    fn report(&self, range: &KeyRange, rate: f64) -> v1::ShardLoad {
        let inside = self.inside(range);
        let borders = (1..inside.len()).filter(|index| inside[*index].0.namespace != inside[*index - 1].0.namespace);
        let cut = |index: usize| v1::CutPoint {
            key: Some(Key { kind: 0, uid: 0, ..inside[index].0 }.into()),
            objects_before: index as u64,
        };
        v1::ShardLoad {
            shard: None,
            objects: inside.len() as u64,
            reconciles_per_second: rate * inside.len() as f64,
            cuts: borders.map(cut).collect(),
        }
    }

    /// One heartbeat and one round of placement. Returns how many steps it took.
    fn second(&mut self, second: u64) -> usize {
        for worker in self.workers.clone() {
            let rate = self.rate(&worker, second);
            for range in self.held_by(&worker).copied().collect::<Vec<_>>() {
                let load = self.report(&range, rate);
                self.loads.report(range, &load);
            }
        }
        let shard = |(range, owner): &(KeyRange, Option<WorkerId>)| super::ShardView {
            range: *range,
            owner: owner.clone(),
            stand: if owner.is_some() { Stand::Held } else { Stand::Vacant(Reason::Unowned) },
            cost: self.loads.cost(range),
            cuts: self.loads.cuts(range),
        };
        let plan = plan(&View {
            workers: self.workers.clone(),
            shards: self.shards.iter().map(shard).collect(),
            balancing: self.balancing,
            loads_known: true,
        });
        self.balancing = plan.balancing;
        for step in &plan.steps {
            self.take(step, second);
        }
        plan.steps.len()
    }

    fn take(&mut self, step: &Step, second: u64) {
        let index = |shards: &[(KeyRange, _)], start: Key| shards.iter().position(|(range, _)| range.start == start);
        match step {
            Step::Split { range, at, .. } => {
                let index = index(&self.shards, range.start).expect("the shard exists");
                let owner = self.shards[index].1.clone();
                self.shards[index].0.end = Some(*at);
                self.shards.insert(index + 1, (KeyRange { start: *at, end: range.end }, owner));
            }
            Step::Merge { left, at } => {
                let right = index(&self.shards, *at).expect("the shard exists");
                let (gone, _) = self.shards.remove(right);
                let left = index(&self.shards, left.start).expect("the shard exists");
                self.shards[left].0.end = gone.end;
            }
            Step::Assign { range, to, .. } | Step::Move { range, to, .. } => {
                let index = index(&self.shards, range.start).expect("the shard exists");
                self.shards[index].1 = Some(to.clone());
                let (range, period) = (*range, self.period);
                for (key, at) in self.objects.iter_mut().filter(|(key, _)| range.contains(key)) {
                    *at = (second + key.uid % period) % period;
                }
            }
        }
    }

    /// Objects of each worker.
    fn held(&self) -> Vec<usize> {
        self.workers.iter().map(|worker| self.held_by(worker).map(|range| self.inside(range).len()).sum()).collect()
    }
}

#[test]
fn quiet_fleet_of_any_size_is_at_rest_after_a_minute() {
    for (objects, workers, period) in [
        (20, 3, 20),
        (85, 3, 180),
        (85, 3, 20),
        (200, 3, 20),
        (200, 5, 3600),
        (2000, 3, 60),
        (2200, 8, 180),
        (2200, 8, 3600),
    ] {
        let mut fleet = QuietFleet::new(objects, workers, period);
        let changes: Vec<_> = (0..1800).map(|second| fleet.second(second)).collect();
        let late: Vec<_> = changes.iter().enumerate().skip(60).filter(|(_, steps)| **steps > 0).collect();
        assert_eq!(late, [], "{objects} objects on {workers} workers, period {period} s; they hold {:?}", fleet.held());
        assert!(fleet.held().iter().all(|held| *held > 0), "{:?}", fleet.held());
    }
}

#[test]
fn lasting_load_is_still_evened_out() {
    // One worker's objects are read twenty times as often as the others': that is load, and it matters.
    let mut fleet = QuietFleet::new(2000, 3, 60);
    for second in 0..60 {
        fleet.second(second);
    }
    let before = fleet.held();
    let held = fleet.held_by(&fleet.workers[0]).flat_map(|range| fleet.inside(range));
    let keys: Vec<_> = held.map(|(key, _)| *key).collect();
    for second in 60..900 {
        let reads = keys.iter().skip(usize::try_from(second % 3).unwrap_or(0)).step_by(3).copied();
        fleet.extra_reads.entry(second).or_default().extend(reads);
        fleet.second(second);
    }
    let after = fleet.held();
    assert!(after[0] * 10 < before[0] * 9, "{before:?} to {after:?}");
}
