//! What every store must do, run against the real ones.

use std::sync::Arc;
use std::time::Duration;

use flotilla_coordinator::{KubernetesStore, LeaderLease, ShardMap, Store, StoreVersion};
use flotilla_proto::{Key, Term, WorkerId};
use flotilla_testbed::control_plane::ControlPlane;

use crate::members::{Worker, begin, eventually};

/// Long beside what the tests wait for: only one that fails waits so long.
const SOON: Duration = Duration::from_mins(2);

fn lease(holder: Option<&str>, term: u64) -> LeaderLease {
    LeaderLease {
        holder: holder.map(str::to_owned),
        address: "10.0.0.1:7000".into(),
        term,
        duration: Duration::from_secs(8),
        acquired: None,
        renewal: String::new(),
    }
}

/// Versions guard the leader's lease, and each renewal can be told from the one before.
async fn leader_lease_is_guarded(store: &dyn Store) {
    assert!(store.leader().await.unwrap().is_none());
    let first = store.put_leader(&lease(Some("a/1"), 1), None).await.unwrap();
    assert!(store.put_leader(&lease(Some("b/1"), 1), None).await.unwrap_err().is_conflict(), "it is there already");
    let found = store.leader().await.unwrap().unwrap();
    assert_eq!((found.version.clone(), found.record.holder.as_deref()), (first.clone(), Some("a/1")));
    assert_eq!((found.record.term, found.record.address.as_str()), (1, "10.0.0.1:7000"));

    let second = store.put_leader(&lease(Some("a/1"), 1), Some(&first)).await.unwrap();
    let renewed = store.leader().await.unwrap().unwrap();
    assert_ne!(renewed.record.renewal, found.record.renewal);
    assert!(store.put_leader(&lease(Some("b/1"), 2), Some(&first)).await.unwrap_err().is_conflict(), "an old version");

    store.put_leader(&lease(None, 1), Some(&second)).await.unwrap();
    assert_eq!(store.leader().await.unwrap().unwrap().record.holder, None);
}

/// Versions guard the map, and it comes back as it was written.
async fn map_is_guarded(store: &dyn Store) {
    assert!(store.map().await.unwrap().is_none());
    let mut map = ShardMap::default();
    map.term = Term(3);
    map.split(Key { namespace: u64::MAX, kind: 1, uid: 2 });
    map.assign(Key::MIN, Some(WorkerId::new("w", "1")));
    let first = store.put_map(&map, None).await.unwrap();
    assert!(store.put_map(&map, None).await.unwrap_err().is_conflict());
    let found = store.map().await.unwrap().unwrap();
    assert_eq!((found.version, found.record.unwrap()), (first.clone(), map.clone()));
    map.assign(Key::MIN, Some(WorkerId::new("x", "1")));
    store.put_map(&map, Some(&first)).await.unwrap();
    assert!(store.put_map(&map, Some(&first)).await.unwrap_err().is_conflict());
}

/// A worker's lease can be taken away under the version that was seen, and only then; the worker then holds nothing.
async fn worker_lease_is_fenced(store: &dyn Store, worker: &Worker, pod: &str) {
    let seen = async || {
        let leases = store.workers().await.unwrap();
        leases.into_iter().find(|lease| lease.pod == pod && lease.holder.is_some())
    };
    let lease = eventually("worker has its lease", SOON, async || seen().await).await;
    assert!(!lease.fenced);
    let old = StoreVersion(lease.version.clone());
    eventually("worker renews", SOON, async || seen().await.filter(|next| next.renewal != lease.renewal).map(|_| ()))
        .await;
    assert!(store.fence(pod, &old, "test").await.unwrap_err().is_conflict(), "it was renewed since");
    // Its shards must go with the lease.
    worker.shards.grant(
        Term(1),
        flotilla_proto::KeyRange::ALL,
        flotilla_proto::Epoch(1),
        flotilla_worker::fleet::Handover::Clean,
    );
    let now = StoreVersion(seen().await.unwrap().version);
    store.fence(pod, &now, "test").await.unwrap();
    eventually("worker gave everything up", SOON, async || worker.shards.held().is_empty().then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kubernetes_keeps_the_contract() {
    begin();
    let cluster = ControlPlane::shared().await;
    let namespace = cluster.namespace("store").await.unwrap();
    let store: Arc<dyn Store> = Arc::new(KubernetesStore::new(cluster.client(), &namespace));
    leader_lease_is_guarded(&*store).await;
    map_is_guarded(&*store).await;
    let worker = Worker::start(cluster, &namespace, "w", Arc::default());
    worker_lease_is_fenced(&*store, &worker, "w").await;
    eventually("worker has a lease again", SOON, async || {
        store.workers().await.unwrap().into_iter().find(|lease| lease.holder.is_some() && !lease.fenced)
    })
    .await;
    worker.stop().await;
    let left = eventually("worker vacated its lease", SOON, async || {
        store.workers().await.unwrap().into_iter().find(|lease| lease.holder.is_none())
    })
    .await;
    assert!(!left.fenced, "let go by itself");
    store.forget("w", &StoreVersion(left.version)).await.unwrap();
    assert!(store.workers().await.unwrap().is_empty());
}
