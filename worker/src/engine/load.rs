//! What each held shard costs, and where it could be cut: between namespaces if possible, then between kinds, then between
//! objects.

use std::time::{Duration, Instant};

use flotilla_proto::{Key, v1};

use super::record::Records;
use crate::fleet::HeldShard;
use crate::fleet::stream::wire;

/// Cut points offered per shard; enough to halve it several times.
const CUTS: usize = 16;
/// A namespace with a larger part of its shard than one in so many may be cut inside.
const HEAVY: usize = 4;

/// Makes load reports.
#[derive(Debug)]
pub(crate) struct Meter {
    last: Instant,
}

impl Meter {
    /// Counts from `now`.
    pub(crate) fn new(now: Instant) -> Self {
        Self { last: now }
    }

    /// The report for now.
    pub(crate) fn report(&mut self, records: &mut Records, held: &[HeldShard], now: Instant) -> v1::LoadReport {
        let elapsed = (now - self.last).max(Duration::from_millis(1));
        self.last = now;
        let keys = records.keys();
        let rate = f64_of(records.take_reconciles()) / elapsed.as_secs_f64();
        let total = keys.len().max(1) as u64;
        let shards = held
            .iter()
            .map(|shard| {
                let from = keys.partition_point(|key| *key < shard.range.start);
                let to = shard.range.end.map_or(keys.len(), |end| keys.partition_point(|key| *key < end));
                let inside = &keys[from..to.max(from)];
                v1::ShardLoad {
                    shard: Some(wire(shard.range, shard.epoch)),
                    objects: inside.len() as u64,
                    reconciles_per_second: rate * f64_of(inside.len() as u64) / f64_of(total),
                    cuts: cuts(inside),
                }
            })
            .collect();
        let kinds = records.kinds().into_iter().map(|kind| v1::KindName { group: kind.group, kind: kind.kind });
        v1::LoadReport { shards, kinds: kinds.collect() }
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of objects and reconciles")]
fn f64_of(count: u64) -> f64 {
    count as f64
}

/// Where a shard with these (sorted) keys could be cut.
fn cuts(keys: &[Key]) -> Vec<v1::CutPoint> {
    let mut offered = Vec::new();
    for namespace in keys.chunk_by(|one, two| one.namespace == two.namespace) {
        let before = offset(keys, namespace);
        offered.push((Key { kind: 0, uid: 0, ..namespace[0] }, before));
        if namespace.len() * HEAVY <= keys.len() || namespace.len() < HEAVY {
            continue;
        }
        for kind in namespace.chunk_by(|one, two| one.kind == two.kind) {
            offered.push((Key { uid: 0, ..kind[0] }, offset(keys, kind)));
            if kind.len() * HEAVY <= keys.len() || kind.len() < HEAVY {
                continue;
            }
            for part in 1..HEAVY {
                let at = kind.len() * part / HEAVY;
                offered.push((kind[at], offset(keys, kind) + at));
            }
        }
    }
    offered.dedup_by_key(|(_, before)| *before);
    offered.retain(|(_, before)| *before > 0);
    let every = offered.len().div_ceil(CUTS).max(1);
    let spread = offered.into_iter().skip(every / 2).step_by(every);
    spread.map(|(key, before)| v1::CutPoint { key: Some(key.into()), objects_before: before as u64 }).collect()
}

/// Where a chunk begins in the slice that it is a part of.
fn offset(keys: &[Key], chunk: &[Key]) -> usize {
    keys.partition_point(|key| *key < chunk[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(namespace: u64, kind: u64, uid: u64) -> Key {
        Key { namespace, kind, uid }
    }

    #[test]
    fn cuts_lie_between_namespaces_first() {
        let keys: Vec<_> = (1..=10).flat_map(|ns| (0..5).map(move |uid| key(ns, 1, uid + 1))).collect();
        let cuts = cuts(&keys);
        assert_eq!(cuts.len(), 9);
        for cut in cuts {
            let at = Key::from(cut.key.unwrap());
            assert_eq!((at.kind, at.uid), (0, 0));
            assert_eq!(cut.objects_before, (at.namespace - 1) * 5);
        }
    }

    #[test]
    fn one_heavy_namespace_can_be_cut_by_kind_and_by_object() {
        let keys: Vec<_> = (1..=100).map(|uid| key(7, 1, uid)).chain((1..=50).map(|uid| key(7, 2, uid))).collect();
        let cuts = cuts(&keys);
        assert!(cuts.iter().any(|cut| cut.objects_before == 100), "{cuts:?}");
        assert!(cuts.iter().any(|cut| cut.objects_before == 50), "{cuts:?}");
        for cut in &cuts {
            let before = keys.iter().filter(|key| **key < Key::from(cut.key.unwrap())).count();
            assert_eq!(before as u64, cut.objects_before);
        }
    }

    #[test]
    fn few_cuts_are_offered_however_many_namespaces() {
        let keys: Vec<_> = (1..=1000).map(|ns| key(ns, 1, 1)).collect();
        assert!(cuts(&keys).len() <= CUTS);
    }
}
