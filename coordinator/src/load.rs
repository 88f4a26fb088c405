//! What each part of the key space costs, from the workers' reports, and where it could be cut.
//!
//! Reports are about what workers held when they wrote them, so they are kept by range and asked by range: a shard that was
//! cut, joined or moved a moment ago has an estimate until its owner reports again. Figures outlive their worker, so that
//! the shards of a dead one are placed by what they cost before.

use std::collections::{BTreeMap, BTreeSet};

use flotilla_proto::{Key, KeyRange, v1};

/// Cost of one reconcile per second in objects: a worker spends on it about what holding so many unchanged objects takes.
const OBJECTS_PER_RECONCILE_RATE: f64 = 50.0;
/// Cost of a namespace without objects, in objects: enough to spread namespaces before any load is known, and soon
/// outweighed when there is.
pub(crate) const EMPTY_NAMESPACE: f64 = 0.01;
/// How much of a new rate counts against the ones before. Workers report once a second, so a rate counts in full after some two minutes: one
/// read, or the reads that a move brings, must not move shards about.
const SMOOTHING: f64 = 1.0 / 120.0;

/// A place where a shard could be cut, with the cost that would be on its left.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Cut {
    /// First key on the right.
    pub key: Key,
    /// Cost from the shard's start to here.
    pub cost_before: f64,
}

impl Cut {
    /// Whether it leaves whole namespaces on both sides.
    pub(crate) fn is_between_namespaces(&self) -> bool {
        (self.key.kind, self.key.uid) == (0, 0)
    }
}

/// One reported range.
#[derive(Clone, Debug)]
struct Piece {
    range: KeyRange,
    objects: f64,
    rate: f64,
    /// Objects before each offered cut, sorted by key.
    cuts: Vec<(Key, f64)>,
}

impl Piece {
    /// Objects before a key: those before the last cut at or before it.
    fn objects_before(&self, key: &Key) -> f64 {
        if *key <= self.range.start {
            return 0.0;
        }
        if self.range.end.is_some_and(|end| end <= *key) {
            return self.objects;
        }
        let after = self.cuts.partition_point(|(cut, _)| cut <= key);
        after.checked_sub(1).map_or(0.0, |index| self.cuts[index].1)
    }

    /// Objects inside a range.
    fn objects_in(&self, range: &KeyRange) -> f64 {
        let before_end = range.end.map_or(self.objects, |end| self.objects_before(&end));
        (before_end - self.objects_before(&range.start)).max(0.0)
    }

    fn cost(&self, objects: f64) -> f64 {
        let rate = if self.objects > 0.0 { self.rate * objects / self.objects } else { 0.0 };
        objects + rate * OBJECTS_PER_RECONCILE_RATE
    }
}

/// All reports, by range.
#[derive(Clone, Debug, Default)]
pub(crate) struct Loads {
    pieces: BTreeMap<Key, Piece>,
    namespaces: BTreeSet<u64>,
}

impl Loads {
    /// The namespaces that exist, by their hashes.
    pub(crate) fn set_namespaces(&mut self, namespaces: BTreeSet<u64>) {
        self.namespaces = namespaces;
    }

    /// Takes in a report about one range. It replaces what was known about these keys.
    pub(crate) fn report(&mut self, range: KeyRange, load: &v1::ShardLoad) {
        if range.is_empty() {
            return;
        }
        let share = |piece: &Piece| match piece.objects {
            objects if objects > 0.0 => piece.objects_in(&range) / objects,
            _ => 0.0,
        };
        let known = self.pieces.values().filter(|piece| piece.range.overlaps(&range));
        let before: f64 = known.map(|piece| piece.rate * share(piece)).sum();
        let reported = if load.reconciles_per_second.is_finite() { load.reconciles_per_second.max(0.0) } else { 0.0 };
        let rate = before + (reported - before) * SMOOTHING;
        let objects = as_cost(load.objects);
        let mut cuts: Vec<_> = load
            .cuts
            .iter()
            .filter_map(|cut| Some((Key::from(cut.key?), as_cost(cut.objects_before).min(objects))))
            .filter(|(key, _)| *key > range.start && range.contains(key))
            .collect();
        cuts.sort_by_key(|(key, _)| *key);
        self.carve(&range);
        self.pieces.insert(range.start, Piece { range, objects, rate, cuts });
    }

    /// Cuts everything known about these keys away and keeps the rest.
    fn carve(&mut self, range: &KeyRange) {
        let touched: Vec<_> =
            self.pieces.iter().filter(|(_, piece)| piece.range.overlaps(range)).map(|(start, _)| *start).collect();
        for piece in touched.iter().filter_map(|start| self.pieces.remove(start)).collect::<Vec<_>>() {
            let left = KeyRange { start: piece.range.start, end: Some(range.start) };
            let right = range.end.map(|start| KeyRange { start, end: piece.range.end });
            for rest in right.into_iter().chain([left]).filter(|rest| !rest.is_empty()) {
                let objects = piece.objects_in(&rest);
                let skipped = piece.objects_before(&rest.start);
                let inside = |key: &Key| *key > rest.start && rest.contains(key);
                let cuts = piece.cuts.iter().filter(|(key, _)| inside(key)).map(|(key, count)| (*key, count - skipped));
                let rate = if piece.objects > 0.0 { piece.rate * objects / piece.objects } else { 0.0 };
                self.pieces.insert(rest.start, Piece { range: rest, objects, rate, cuts: cuts.collect() });
            }
        }
    }

    /// What a range costs.
    pub(crate) fn cost(&self, range: &KeyRange) -> f64 {
        let reported: f64 = self.overlapping(range).map(|piece| piece.cost(piece.objects_in(range))).sum();
        reported + as_cost(self.namespaces_in(range).count() as u64) * EMPTY_NAMESPACE
    }

    /// Objects in a range, as far as known.
    pub(crate) fn objects(&self, range: &KeyRange) -> f64 {
        self.overlapping(range).map(|piece| piece.objects_in(range)).sum()
    }

    /// Where a range could be cut, in order, each with the cost on its left.
    pub(crate) fn cuts(&self, range: &KeyRange) -> Vec<Cut> {
        let offered = self
            .overlapping(range)
            .flat_map(|piece| piece.cuts.iter().map(|(key, _)| *key).chain([piece.range.start]).chain(piece.range.end));
        let namespaces = self.namespaces_in(range).map(|namespace| Key { namespace, ..Key::MIN });
        let keys: BTreeSet<Key> =
            offered.chain(namespaces).filter(|key| *key > range.start && range.contains(key)).collect();
        let cut = |key| Cut { key, cost_before: self.cost(&KeyRange { start: range.start, end: Some(key) }) };
        keys.into_iter().map(cut).collect()
    }

    fn overlapping<'a>(&'a self, range: &'a KeyRange) -> impl Iterator<Item = &'a Piece> {
        self.pieces.values().filter(|piece| piece.range.overlaps(range))
    }

    /// A namespace counts where its first key lies.
    fn namespaces_in(&self, range: &KeyRange) -> impl Iterator<Item = u64> {
        self.namespaces.range(range.start.namespace..).copied().filter({
            let range = *range;
            move |namespace| range.contains(&Key { namespace: *namespace, ..Key::MIN })
        })
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of objects stay far below 2^52")]
fn as_cost(objects: u64) -> f64 {
    objects as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(namespace: u64) -> Key {
        Key { namespace, ..Key::MIN }
    }

    fn range(start: u64, end: u64) -> KeyRange {
        KeyRange { start: key(start), end: Some(key(end)) }
    }

    fn load(objects: u64, rate: f64, cuts: &[(u64, u64)]) -> v1::ShardLoad {
        let cut = |(at, objects_before): &(u64, u64)| v1::CutPoint {
            key: Some(key(*at).into()),
            objects_before: *objects_before,
        };
        v1::ShardLoad { shard: None, objects, reconciles_per_second: rate, cuts: cuts.iter().map(cut).collect() }
    }

    fn close(one: f64, two: f64) -> bool {
        (one - two).abs() < 1e-9
    }

    #[test]
    fn parts_of_a_report_add_up_to_it() {
        let mut loads = Loads::default();
        for _ in 0..2000 {
            loads.report(KeyRange::ALL, &load(100, 2.0, &[(10, 30), (20, 70)]));
        }
        let parts = [range(0, 10), range(10, 20), KeyRange { start: key(20), end: None }];
        let costs = parts.map(|part| loads.cost(&part));
        assert!(close(costs.iter().sum(), loads.cost(&KeyRange::ALL)), "{costs:?}");
        assert!((loads.cost(&KeyRange::ALL) - 200.0).abs() < 0.01, "{costs:?}");
        assert!(close(loads.objects(&range(10, 20)), 40.0));
    }

    #[test]
    fn newer_report_replaces_only_its_own_keys() {
        let mut loads = Loads::default();
        loads.report(KeyRange::ALL, &load(100, 0.0, &[(10, 30), (20, 70)]));
        loads.report(range(10, 20), &load(5, 0.0, &[]));
        assert!(close(loads.cost(&KeyRange::ALL), 30.0 + 5.0 + 30.0));
        let keys: Vec<_> = loads.cuts(&KeyRange::ALL).iter().map(|cut| cut.key).collect();
        assert_eq!(keys, [key(10), key(20)]);
    }

    #[test]
    fn rates_are_smoothed_and_objects_are_not() {
        let mut loads = Loads::default();
        loads.report(KeyRange::ALL, &load(100, 0.0, &[]));
        loads.report(KeyRange::ALL, &load(200, 12.0, &[]));
        assert!(close(loads.cost(&KeyRange::ALL), 200.0 + 0.1 * OBJECTS_PER_RECONCILE_RATE));
    }

    #[test]
    fn the_first_report_of_a_new_leader_does_not_count_in_full() {
        let mut loads = Loads::default();
        loads.report(KeyRange::ALL, &load(25, 1.0, &[]));
        assert!(loads.cost(&KeyRange::ALL) < 26.0, "{}", loads.cost(&KeyRange::ALL));
    }

    #[test]
    fn namespaces_are_cut_points_before_any_load_is_known() {
        let mut loads = Loads::default();
        loads.set_namespaces([5, 9].into());
        let cuts = loads.cuts(&KeyRange::ALL);
        assert_eq!(cuts.iter().map(|cut| cut.key).collect::<Vec<_>>(), [key(5), key(9)]);
        assert!(close(cuts[1].cost_before, EMPTY_NAMESPACE));
        assert!(cuts.iter().all(Cut::is_between_namespaces));
    }

    #[test]
    fn senseless_figures_do_no_harm() {
        let mut loads = Loads::default();
        loads.report(range(9, 3), &load(100, 1.0, &[]));
        loads.report(range(3, 9), &load(10, f64::NAN, &[(1, 5), (100, 7), (5, 1000)]));
        assert!(close(loads.cost(&KeyRange::ALL), 10.0));
    }
}
