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
            tracing::warn!(attempts, error = &error as &dyn std::error::Error, "Did not write the shard map");
            tokio::time::sleep(AGAIN_AFTER.min(Duration::from_millis(20) * attempts)).await;
        }
    }
}
