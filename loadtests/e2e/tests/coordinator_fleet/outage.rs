//! The fleet when the API server is away, and when everything on the wire is encrypted.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use flotilla_coordinator::Role;
use flotilla_proto::Tls;
use flotilla_testbed::control_plane::{ControlPlane, Options};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use crate::members::{Member, Worker, begin, eventually, objects, stored_map};

/// Long beside what the tests wait for: only one that fails waits so long.
const SOON: Duration = Duration::from_mins(2);

#[tokio::test(flavor = "multi_thread")]
async fn api_server_outage_stops_writes_in_time_and_moves_nothing() {
    begin();
    let cluster = ControlPlane::start(Options::default()).await.unwrap();
    let namespace = cluster.namespace("outage").await.unwrap();
    let mut leader = Member::start(&cluster, &namespace, "c", |_| ());
    let term = leader.leads(SOON).await;
    let population = Arc::new(Mutex::new(objects(12, 5)));
    let workers: Vec<_> =
        (0..2).map(|index| Worker::start(&cluster, &namespace, &format!("w{index}"), population.clone())).collect();
    let owned = |workers: &[Worker]| workers.iter().map(Worker::owns).sum::<usize>();
    eventually("two workers share the objects", SOON, async || {
        workers.iter().all(|worker| (25..=35).contains(&worker.owns())).then_some(())
    })
    .await;
    let before = stored_map(&cluster, &namespace).await.unwrap();

    cluster.kill_api_server().await.unwrap();
    // The last renewal is at most two seconds old, and claims hold for six.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(owned(&workers), 60, "a short outage changes nothing");
    eventually("nobody writes without a lease", SOON, async || (owned(&workers) == 0).then_some(())).await;
    eventually("a leader that cannot renew is none", SOON, async || {
        (*leader.role.borrow() == Role::Standby).then_some(())
    })
    .await;

    cluster.restart_api_server().await.unwrap();
    let next = leader.leads(SOON).await;
    assert!(next > term);
    eventually("all objects have a writer again", SOON, async || (owned(&workers) == 60).then_some(())).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let after = stored_map(&cluster, &namespace).await.unwrap();
    assert_eq!((before.shards(), before.epoch), (after.shards(), after.epoch), "everybody goes on with what it had");
    for worker in workers {
        worker.stop().await;
    }
    leader.stop().await;
}

/// A CA with one certificate that serves both sides.
fn certificates() -> (String, String, String) {
    let mut ca = CertificateParams::default();
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = CertifiedIssuer::self_signed(ca, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(["flotilla-coordinator".to_owned()]).unwrap().signed_by(&key, &ca).unwrap();
    (leaf.pem(), key.serialize_pem(), ca.pem())
}

#[tokio::test(flavor = "multi_thread")]
async fn only_workers_with_a_certificate_may_join() {
    begin();
    let cluster = ControlPlane::shared().await;
    let namespace = cluster.namespace("mtls").await.unwrap();
    let (certificate, key, ca) = certificates();
    let tls = Tls { certificate, key, ca };
    let theirs = tls.clone();
    let mut leader = Member::start(cluster, &namespace, "c", |config| {
        config.tls = Some(tls);
        // The stranger has a lease and is never heard, which a fleet without a map waits for.
        config.fleet.gather_within = Duration::from_secs(1);
    });
    leader.leads(SOON).await;

    let stranger = Worker::start(cluster, &namespace, "stranger", Arc::default());
    let member = Worker::start_with_tls(cluster, &namespace, "member", theirs);
    eventually("the worker with a certificate owns all keys", SOON, async || member.owns_everything().then_some(()))
        .await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(stranger.shards.held().is_empty());
    member.stop().await;
    stranger.stop().await;
    leader.stop().await;
}
