//! Writes the map until it is in the store, or until the store shows another leader's.

use std::sync::Arc;
use std::time::Duration;

use flotilla_proto::Term;

use crate::shard_map::ShardMap;
use crate::store::{Error, Store, Version};

/// Wait after a failed write.
const AGAIN_AFTER: Duration = Duration::from_millis(300);

/// How a write ended.
#[derive(Debug)]
pub(super) enum Wrote {
    /// It is in the store under this version.
    Yes(Version),
    /// A leader of this term wrote after we had read the map: what we decided from is out of date.
    Superseded(Term),
}

/// Knows the version of the map that we wrote or read last. One write runs at a time.
#[derive(Clone, Debug)]
pub(super) struct MapWriter {
    store: Arc<dyn Store>,
    term: Term,
    version: Option<Version>,
    /// The map that we began from, until our first write is in the store.
    base: Option<ShardMap>,
    began: bool,
}

impl MapWriter {
    pub(super) fn new(store: Arc<dyn Store>, term: Term, version: Option<Version>, base: Option<ShardMap>) -> Self {
        Self { store, term, version, base, began: false }
    }

    /// The next write is guarded by this version.
    pub(super) fn written(&mut self, version: Version) {
        self.version = Some(version);
        self.base = None;
        self.began = true;
    }

    /// Writes; goes on through failures of the store, since the leader's own lease decides how long that makes sense.
    pub(super) async fn write(self, map: ShardMap) -> Wrote {
        let mut version = self.version;
        let mut attempts = 0_u32;
        loop {
            let error = match self.store.put_map(&map, version.as_ref()).await {
                Ok(version) => return Wrote::Yes(version),
                Err(error) => error,
            };
            attempts += 1;
            // A write that was not answered may have arrived; then the next one meets its version.
            if error.is_conflict() || matches!(error, Error::TimedOut { .. }) {
                match self.store.map().await {
                    Ok(None) => version = None,
                    Ok(Some(found)) => match found.record {
                        Ok(stored) if stored == map => return Wrote::Yes(found.version),
                        Ok(stored) if stored.term > self.term => return Wrote::Superseded(stored.term),
                        // The former leader's last write came after we had read the map. It may have granted by it.
                        Ok(stored) if !self.began && self.base.as_ref() != Some(&stored) => {
                            return Wrote::Superseded(stored.term);
                        }
                        // Somebody touched the object by hand.
                        Ok(_) | Err(_) => version = Some(found.version),
                    },
                    Err(_) => {}
                }
            }
            tracing::warn!(attempts, error = &error as &dyn std::error::Error, "Failed to write the shard map");
            tokio::time::sleep(AGAIN_AFTER.min(Duration::from_millis(20) * attempts)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use flotilla_proto::{Key, WorkerId};

    use super::*;
    use crate::store::memory::Memory;

    fn map(term: u64, owner: &str) -> ShardMap {
        let mut map = ShardMap::default();
        map.term = Term(term);
        map.assign(Key::MIN, Some(WorkerId::new(owner, "1")));
        map
    }

    async fn stored(store: &Memory) -> (Version, ShardMap) {
        let found = store.map().await.unwrap().unwrap();
        (found.version, found.record.unwrap())
    }

    /// A writer of term 2 that read what the leader of term 1 had left.
    async fn writer(store: &Arc<Memory>) -> MapWriter {
        store.put_map(&map(1, "a"), None).await.unwrap();
        let (version, base) = stored(store).await;
        MapWriter::new(store.clone(), Term(2), Some(version), Some(base))
    }

    #[tokio::test]
    async fn write_whose_answer_was_lost_counts_if_it_arrived() {
        let store = Arc::new(Memory::default());
        let writer = writer(&store).await;
        store.lose_answers(1);
        let Wrote::Yes(version) = writer.write(map(2, "b")).await else { panic!("superseded") };
        assert_eq!((version, map(2, "b")), stored(&store).await);
    }

    #[tokio::test]
    async fn former_leaders_late_write_ends_the_term() {
        let store = Arc::new(Memory::default());
        let writer = writer(&store).await;
        let (version, _) = stored(&store).await;
        store.put_map(&map(1, "c"), Some(&version)).await.unwrap();
        assert!(matches!(writer.write(map(2, "b")).await, Wrote::Superseded(Term(1))));
        assert_eq!(stored(&store).await.1, map(1, "c"), "what the former leader granted is still there");
    }

    #[tokio::test]
    async fn later_leader_ends_the_term() {
        let store = Arc::new(Memory::default());
        let mut writer = writer(&store).await;
        let Wrote::Yes(version) = writer.clone().write(map(2, "b")).await else { panic!("superseded") };
        writer.written(version.clone());
        store.put_map(&map(3, "d"), Some(&version)).await.unwrap();
        assert!(matches!(writer.write(map(2, "e")).await, Wrote::Superseded(Term(3))));
    }

    #[tokio::test]
    async fn map_that_was_touched_or_deleted_by_hand_is_written_again() {
        let store = Arc::new(Memory::default());
        let mut writer = writer(&store).await;
        store.touch_map();
        let Wrote::Yes(version) = writer.clone().write(map(2, "b")).await else { panic!("superseded") };
        writer.written(version);
        store.delete_map();
        assert!(matches!(writer.write(map(2, "c")).await, Wrote::Yes(_)));
        assert_eq!(stored(&store).await.1, map(2, "c"));
    }
}
