//! Coordinators and workers' fleet side against a real API server: election, shards, hand-off, take-over, wake-ups.
#![expect(clippy::unwrap_used, reason = "what fails in a test's helper fails the test")]

#[path = "coordinator_fleet/crds.rs"]
mod crds;
#[path = "coordinator_fleet/crds_changed.rs"]
mod crds_changed;
#[path = "coordinator_fleet/members.rs"]
mod members;
#[path = "coordinator_fleet/outage.rs"]
mod outage;
#[path = "coordinator_fleet/store.rs"]
mod store;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use flotilla_coordinator::{KubernetesStore, Store as _};
use flotilla_proto::v1;
use flotilla_proto::v1::fleet_client::FleetClient;
use flotilla_testbed::control_plane::ControlPlane;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{ObjectMeta, PostParams};
use members::{Member, Worker, begin, eventually, objects, stored_map};

/// Long beside what the tests wait for: only one that fails waits so long.
const SOON: Duration = Duration::from_mins(2);

#[tokio::test(flavor = "multi_thread")]
async fn standby_takes_over_from_a_killed_leader_and_moves_nothing() {
    begin();
    let cluster = ControlPlane::shared().await;
    let namespace = cluster.namespace("takeover").await.unwrap();
    let mut first = Member::start(cluster, &namespace, "first", |_| ());
    let term = first.leads(SOON).await;
    let mut second = Member::start(cluster, &namespace, "second", |_| ());
    let worker = Worker::start(cluster, &namespace, "w", Arc::default());
    eventually("worker owns all keys", SOON, async || worker.owns_everything().then_some(())).await;
    let before = stored_map(cluster, &namespace).await.unwrap();

    let killed = Instant::now();
    first.crash().await;
    let next = second.leads(SOON).await;
    eprintln!("take-over of leadership after a kill: {:?}", killed.elapsed());
    assert!(next > term);
    eventually("new leader wrote the map", SOON, async || {
        (stored_map(cluster, &namespace).await?.term == next).then_some(())
    })
    .await;
    // Long enough for a second thought of the new leader.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let after = stored_map(cluster, &namespace).await.unwrap();
    assert_eq!((before.shards(), before.epoch), (after.shards(), after.epoch));
    assert!(worker.owns_everything(), "the worker went on with what it had");
    worker.stop().await;
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stopped_leader_is_followed_at_once() {
    begin();
    let cluster = ControlPlane::shared().await;
    let namespace = cluster.namespace("vacate").await.unwrap();
    let mut first = Member::start(cluster, &namespace, "first", |_| ());
    first.leads(SOON).await;
    let mut second = Member::start(cluster, &namespace, "second", |_| ());
    tokio::time::sleep(Duration::from_millis(500)).await;
    let stopped = Instant::now();
    first.stop().await;
    // The lease has no holder any more, or already the next one: nobody has to wait until it expires.
    let lease = KubernetesStore::new(cluster.client(), &namespace).leader().await.unwrap().unwrap();
    assert!(lease.record.holder.as_deref().is_none_or(|holder| holder.starts_with("second")), "{:?}", lease.record);
    second.leads(SOON).await;
    eprintln!("take-over of leadership after a stop: {:?}", stopped.elapsed());
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn burst_of_objects_is_shared_and_a_stopping_worker_hands_over() {
    begin();
    let cluster = ControlPlane::shared().await;
    let namespace = cluster.namespace("burst").await.unwrap();
    let mut leader = Member::start(cluster, &namespace, "c", |_| ());
    leader.leads(SOON).await;
    let population = Arc::new(Mutex::new(Vec::new()));
    let mut workers: Vec<_> =
        (0..3).map(|index| Worker::start(cluster, &namespace, &format!("w{index}"), population.clone())).collect();
    eventually("all keys have an owner", SOON, async || {
        let map = stored_map(cluster, &namespace).await?;
        map.shards().iter().all(|shard| shard.owner.is_some()).then_some(())
    })
    .await;

    let burst = Instant::now();
    *population.lock().unwrap() = objects(12, 5);
    let even = |workers: &[Worker]| workers.iter().all(|worker| (15..=25).contains(&worker.owns()));
    eventually("sixty objects are shared by three workers", SOON, async || even(&workers).then_some(())).await;
    eprintln!("a burst of 60 objects was shared after {:?}", burst.elapsed());
    assert_eq!(workers.iter().map(Worker::owns).sum::<usize>(), 60);

    let leaving = workers.remove(0);
    let stopped = Instant::now();
    let stop = tokio::spawn(leaving.stop());
    eventually("the others have all objects", SOON, async || {
        (workers.iter().map(Worker::owns).sum::<usize>() == 60).then_some(())
    })
    .await;
    eprintln!("planned hand-off of a worker's shards: {:?}", stopped.elapsed());
    stop.await.unwrap();
    // Handed off by the worker that stops, not taken over from one that is silent.
    for worker in &workers {
        let gained = worker.told.lock().unwrap().gained.clone();
        assert!(gained.iter().all(|(_, unclean)| !unclean), "{gained:?}");
    }
    for worker in workers {
        worker.stop().await;
    }
    leader.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn crashed_workers_shards_are_taken_over_uncleanly() {
    begin();
    let cluster = ControlPlane::shared().await;
    let namespace = cluster.namespace("crash").await.unwrap();
    let mut leader = Member::start(cluster, &namespace, "c", |_| ());
    leader.leads(SOON).await;
    let population = Arc::new(Mutex::new(objects(12, 5)));
    let workers: Vec<_> = (0..2)
        .map(|index| Worker::start_mortal(cluster, &namespace, &format!("w{index}"), population.clone()))
        .collect();
    let even = |workers: &[Worker]| workers.iter().all(|worker| (25..=35).contains(&worker.owns()));
    eventually("sixty objects are shared by two workers", SOON, async || even(&workers).then_some(())).await;
    let [crashing, staying] = workers.try_into().unwrap_or_else(|_| panic!("two workers"));
    let crashed = crashing.crash();
    eventually("the other has all objects", SOON, async || (staying.owns() == 60).then_some(())).await;
    // That ten seconds suffice is proved on the fleet's own clock, in the simulation of the coordinator.
    eprintln!("take-over of a crashed worker's shards: {:?}", crashed.elapsed());
    assert!(staying.told.lock().unwrap().gained.iter().any(|(_, unclean)| *unclean));
    staying.crash();
    leader.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn standby_refuses_and_names_the_leader() {
    begin();
    let cluster = ControlPlane::shared().await;
    let namespace = cluster.namespace("refuse").await.unwrap();
    let mut leader = Member::start(cluster, &namespace, "c", |config| config.advertise = Some("10.0.0.1:7000".into()));
    leader.leads(SOON).await;
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let standby = Member::start(cluster, &namespace, "s", |config| config.listen = port);
    let status = eventually("standby says who leads", SOON, async || {
        let mut client = FleetClient::connect(format!("http://{port}")).await.ok()?;
        let hello = v1::WorkerMessage { message: None };
        let status = client.join(tokio_stream::once(hello)).await.err()?;
        status.message().contains("10.0.0.1:7000").then_some(status)
    })
    .await;
    assert_eq!(status.code(), tonic::Code::Unavailable);
    assert_eq!(status.metadata().get("flotilla-leader").unwrap(), "10.0.0.1:7000");
    standby.stop().await;
    leader.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn secret_wakes_the_worker_that_waits_for_it() {
    begin();
    let cluster = ControlPlane::shared().await;
    let namespace = cluster.namespace("wake").await.unwrap();
    let mut leader = Member::start(cluster, &namespace, "c", |_| ());
    leader.leads(SOON).await;
    let worker = Worker::start(cluster, &namespace, "w", Arc::default());
    eventually("worker joined", SOON, async || worker.owns_everything().then_some(())).await;
    let waited_for = v1::ObjectName {
        group: String::new(),
        kind: "Secret".into(),
        namespace: namespace.clone(),
        name: "password".into(),
    };
    worker.interest.send(vec![waited_for]).unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    let secrets: Api<Secret> = Api::namespaced(cluster.client(), &namespace);
    for name in ["other", "password"] {
        let metadata = ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() };
        secrets.create(&PostParams::default(), &Secret { metadata, ..Secret::default() }).await.unwrap();
    }
    eventually("worker was woken", SOON, async || (!worker.told.lock().unwrap().woken.is_empty()).then_some(())).await;
    let woken = worker.told.lock().unwrap().woken.clone();
    assert!(woken.iter().all(|name| name.contains("password")), "{woken:?}");
    worker.stop().await;
    leader.stop().await;
}
