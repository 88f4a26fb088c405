//! The shard map: which worker owns which range of the key space.
//!
//! It keeps true that every key has exactly one shard, that no two neighbours overlap or leave a gap, and that the epoch
//! grows with each change of an owner. Only the leader writes it; everybody else reads it.

use std::collections::BTreeSet;
use std::fmt;

use flotilla_proto::{Epoch, GroupKind, Key, KeyRange, Term, WorkerId};
use serde::{Deserialize, Serialize};

/// A range of keys with its owner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shard {
    /// The keys it covers.
    #[serde(flatten)]
    pub range: KeyRange,
    /// Who may write for them. None until somebody was granted them, or while nobody is there to take them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<WorkerId>,
    /// The map's epoch at the last change of owner; zero if there never was one.
    pub epoch: Epoch,
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.range, self.epoch)
    }
}

/// A sorted list of shards that covers the key space, and the kinds that have objects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Stored")]
pub struct ShardMap {
    /// The leader that wrote it.
    pub term: Term,
    /// Grows with each change of an owner.
    pub epoch: Epoch,
    shards: Vec<Shard>,
    /// Kinds that had objects when the map was written, so that a fleet that starts knows them at once.
    #[serde(default)]
    pub kinds: BTreeSet<GroupKind>,
}

/// The map as found in the store, not yet checked.
#[derive(Deserialize)]
struct Stored {
    term: Term,
    epoch: Epoch,
    shards: Vec<Shard>,
    #[serde(default)]
    kinds: BTreeSet<GroupKind>,
}

/// A stored map that breaks its rules.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Keys without a shard, or with two.
    #[error("shard map is not whole: expected a shard from {expected}, found {found}")]
    NotWhole {
        /// Where the next shard had to start.
        expected: String,
        /// What was there.
        found: String,
    },
    /// An epoch above the map's own.
    #[error("shard {shard} has an epoch above the map's {epoch}")]
    Epoch {
        /// The shard.
        shard: String,
        /// The map's epoch.
        epoch: Epoch,
    },
}

impl TryFrom<Stored> for ShardMap {
    type Error = Error;

    fn try_from(stored: Stored) -> Result<Self, Error> {
        let Stored { term, epoch, shards, kinds } = stored;
        let mut expected = Some(Key::MIN);
        for shard in &shards {
            if expected != Some(shard.range.start) || shard.range.is_empty() {
                return Err(not_whole(expected, Some(shard)));
            }
            if shard.epoch > epoch {
                return Err(Error::Epoch { shard: shard.to_string(), epoch });
            }
            expected = shard.range.end;
        }
        if expected.is_some() {
            return Err(not_whole(expected, None));
        }
        Ok(Self { term, epoch, shards, kinds })
    }
}

fn not_whole(expected: Option<Key>, found: Option<&Shard>) -> Error {
    Error::NotWhole {
        expected: expected.map_or_else(|| "the end".to_owned(), |key| key.to_string()),
        found: found.map_or_else(|| "the end".to_owned(), ToString::to_string),
    }
}

impl Default for ShardMap {
    fn default() -> Self {
        let whole = Shard { range: KeyRange::ALL, owner: None, epoch: Epoch(0) };
        Self { term: Term(0), epoch: Epoch(0), shards: vec![whole], kinds: BTreeSet::new() }
    }
}

impl ShardMap {
    /// All shards in order.
    pub fn shards(&self) -> &[Shard] {
        &self.shards
    }

    /// The shard that a key lies in.
    pub fn shard_of(&self, key: &Key) -> &Shard {
        &self.shards[self.position(key)]
    }

    /// The shards of one worker.
    pub fn owned_by<'a>(&'a self, worker: &'a WorkerId) -> impl Iterator<Item = &'a Shard> {
        self.shards.iter().filter(move |shard| shard.owner.as_ref() == Some(worker))
    }

    /// Cuts the shard that holds `at` before it; the owner stays. Says whether there was something to cut.
    pub fn split(&mut self, at: Key) -> bool {
        let position = self.position(&at);
        let shard = &mut self.shards[position];
        if shard.range.start == at {
            return false;
        }
        let mut right = shard.clone();
        shard.range.end = Some(at);
        right.range.start = at;
        self.shards.insert(position + 1, right);
        true
    }

    /// Joins the shards left and right of `at` if they have one owner. The epoch is the newer of the two.
    pub fn merge(&mut self, at: Key) -> bool {
        let position = self.position(&at);
        if position == 0 || self.shards[position].range.start != at {
            return false;
        }
        let [left, right] = &mut self.shards[position - 1..=position] else { return false };
        if left.owner != right.owner {
            return false;
        }
        left.range.end = right.range.end;
        left.epoch = left.epoch.max(right.epoch);
        self.shards.remove(position);
        true
    }

    /// Gives the shard that starts at `start` another owner, under a new epoch.
    pub fn assign(&mut self, start: Key, owner: Option<WorkerId>) -> Epoch {
        self.epoch.0 += 1;
        let position = self.position(&start);
        let shard = &mut self.shards[position];
        shard.owner = owner;
        shard.epoch = self.epoch;
        self.epoch
    }

    /// Takes over what a worker says it holds where the map itself was lost. The keys must have no owner yet.
    pub fn adopt(&mut self, range: KeyRange, owner: &WorkerId, epoch: Epoch) -> bool {
        let free = |shard: &Shard| shard.owner.is_none() || !shard.range.overlaps(&range);
        if range.is_empty() || !self.shards.iter().all(free) {
            return false;
        }
        self.split(range.start);
        if let Some(end) = range.end {
            self.split(end);
        }
        self.epoch = self.epoch.max(epoch);
        let inside = self.shards.iter().position(|shard| shard.range.start == range.start);
        let Some(first) = inside else { return false };
        let covered = self.shards[first..].iter().take_while(|shard| range.covers(&shard.range)).count();
        self.shards.drain(first + 1..first + covered);
        self.shards[first] = Shard { range, owner: Some(owner.clone()), epoch };
        true
    }

    /// The shards are sorted and whole, so the last one that starts at or before the key holds it.
    fn position(&self, key: &Key) -> usize {
        self.shards.partition_point(|shard| shard.range.start <= *key).saturating_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(namespace: u64) -> Key {
        Key { namespace, ..Key::MIN }
    }

    fn worker(name: &str) -> WorkerId {
        WorkerId::new(name, "1")
    }

    #[test]
    fn map_survives_the_store() {
        let mut map = ShardMap::default();
        map.split(key(0xffff_0000_0000_0001));
        map.assign(key(0xffff_0000_0000_0001), Some(worker("b")));
        map.kinds.insert(GroupKind::new("storage.azure.com", "StorageAccount"));
        let text = serde_json::to_string(&map).unwrap();
        assert_eq!(serde_json::from_str::<ShardMap>(&text).unwrap(), map, "{text}");
    }

    #[test]
    fn stored_map_with_a_gap_is_refused() {
        let text = r#"{"term":1,"epoch":1,"shards":[{"start":"0","end":"5","epoch":0},{"start":"6","epoch":0}]}"#;
        let error = serde_json::from_str::<ShardMap>(text).unwrap_err().to_string();
        assert!(error.contains("expected a shard from 0000000000000005"), "{error}");
    }

    #[test]
    fn stored_map_that_ends_early_is_refused() {
        let text = r#"{"term":1,"epoch":1,"shards":[{"start":"0","end":"5","epoch":0}]}"#;
        assert!(serde_json::from_str::<ShardMap>(text).is_err());
    }

    #[test]
    fn adopted_ranges_keep_their_epoch_and_never_overwrite() {
        let mut map = ShardMap::default();
        let middle = KeyRange { start: key(10), end: Some(key(20)) };
        assert!(map.adopt(middle, &worker("a"), Epoch(7)));
        assert!(!map.adopt(KeyRange { start: key(15), end: None }, &worker("b"), Epoch(9)));
        assert_eq!((map.shards().len(), map.epoch), (3, Epoch(7)));
        assert_eq!(map.shard_of(&key(12)).owner, Some(worker("a")));
        assert_eq!(map.shard_of(&key(20)).owner, None);
    }

    #[test]
    fn a_map_of_a_thousand_shards_fits_a_config_map() {
        let mut map = ShardMap::default();
        for cut in 1..1000_u64 {
            map.split(Key { namespace: cut << 54, kind: u64::MAX, uid: u64::MAX });
            map.assign(map.shards()[0].range.start, Some(WorkerId::new("flotilla-worker-6c9f7d5b8-x2x4z", "0a1b2c3d")));
        }
        let size = serde_json::to_string(&map).unwrap().len();
        assert!(size < 512 * 1024, "{size} bytes");
    }

    #[derive(Clone, Debug)]
    enum Change {
        Split(u64),
        Merge(usize),
        Assign(usize, u8),
    }

    fn change() -> impl Strategy<Value = Change> {
        prop_oneof![
            (0..64_u64).prop_map(Change::Split),
            any::<usize>().prop_map(Change::Merge),
            (any::<usize>(), any::<u8>()).prop_map(|(shard, owner)| Change::Assign(shard, owner % 3)),
        ]
    }

    proptest! {
        #[test]
        fn every_key_has_one_shard_after_any_change(changes in prop::collection::vec(change(), 0..60)) {
            let mut map = ShardMap::default();
            for change in changes {
                let before = map.clone();
                match change {
                    Change::Split(at) => { map.split(key(at)); }
                    Change::Merge(index) => { map.merge(map.shards()[index % map.shards().len()].range.start); }
                    Change::Assign(index, owner) => {
                        let start = map.shards()[index % map.shards().len()].range.start;
                        let epoch = map.assign(start, Some(worker(&owner.to_string())));
                        prop_assert!(epoch > before.epoch);
                    }
                }
                prop_assert!(map.epoch >= before.epoch);
                // Reading it back checks that it is whole.
                let text = serde_json::to_string(&map).unwrap();
                prop_assert_eq!(&serde_json::from_str::<ShardMap>(&text).unwrap(), &map);
                for probe in 0..64 {
                    prop_assert_eq!(map.shards().iter().filter(|shard| shard.range.contains(&key(probe))).count(), 1);
                    prop_assert!(map.shard_of(&key(probe)).range.contains(&key(probe)));
                    prop_assert!(map.shard_of(&key(probe)).epoch >= before.shard_of(&key(probe)).epoch);
                }
            }
        }
    }
}
