//! The worker's lease on a real API server: it gives the right to write, and losing it takes that right away at once.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use flotilla_proto::{Epoch, Key, KeyRange, Term, WorkerId};
use flotilla_testbed::control_plane::{ControlPlane, Options};
use flotilla_worker::fleet::lease::{Keeper, Running, Timers};
use flotilla_worker::fleet::{Handover, Shards};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tokio::time::sleep;

const TIMERS: Timers = Timers { renew_every: Duration::from_millis(200), fence_after: Duration::from_secs(4) };
/// Long beside what the tests wait for: only one that fails waits so long.
const SOON: Duration = Duration::from_mins(1);

struct Worker {
    leases: Api<Lease>,
    shards: Shards,
    lease: Running,
}

impl Worker {
    async fn start(control_plane: &ControlPlane, namespace: &str) -> Result<Self> {
        let shards = Shards::new();
        let worker = WorkerId::new("worker-0", "a1b2");
        let config = control_plane.client_config().clone();
        let lease = Keeper::start(config, namespace, worker, TIMERS, shards.clone())?;
        let worker = Self { leases: Api::namespaced(control_plane.client(), namespace), shards, lease };
        worker.until("a lease", |worker| worker.shards.leased(Instant::now())).await?;
        worker.shards.grant(Term(1), KeyRange::ALL, Epoch(1), Handover::Clean);
        Ok(worker)
    }

    async fn until(&self, what: &str, done: impl Fn(&Self) -> bool) -> Result<()> {
        let started = Instant::now();
        while !done(self) {
            ensure!(started.elapsed() < SOON, "no {what} within {SOON:?}");
            sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }

    async fn merge(&self, patch: &serde_json::Value) -> Result<()> {
        let params = PatchParams::default();
        self.leases.patch("flotilla-worker-worker-0", &params, &Patch::Merge(patch)).await?;
        Ok(())
    }
}

async fn holder(leases: &Api<Lease>) -> Result<Option<String>> {
    let lease = leases.get("flotilla-worker-worker-0").await?;
    Ok(lease.spec.context("no spec")?.holder_identity.filter(|holder| !holder.is_empty()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_was_taken_away_takes_all_shards_with_it_and_is_then_taken_anew() -> Result<()> {
    let control_plane = ControlPlane::shared().await;
    let worker = Worker::start(control_plane, &control_plane.namespace("lease").await?).await?;
    ensure!(holder(&worker.leases).await?.as_deref() == Some("worker-0/a1b2"));
    let claim = worker.shards.claim(&Key::MIN).context("no claim")?;
    sleep(TIMERS.fence_after * 2).await;
    ensure!(claim.valid(Instant::now()), "renewals do not keep the claim");

    worker.merge(&json!({ "spec": { "holderIdentity": null } })).await?;
    worker.until("loss", |worker| worker.shards.held().is_empty()).await?;
    ensure!(!claim.valid(Instant::now()) && *worker.lease.losses().borrow() == 1);
    worker.until("new lease", |worker| worker.shards.leased(Instant::now())).await?;
    ensure!(worker.shards.claim(&Key::MIN).is_none(), "shards came back by themselves");
    ensure!(
        worker.shards.grant(Term(1), KeyRange::ALL, Epoch(1), Handover::Clean).is_empty(),
        "an old grant was taken"
    );
    ensure!(!worker.shards.grant(Term(1), KeyRange::ALL, Epoch(2), Handover::Unclean).is_empty());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_by_somebody_who_leaves_the_holder_alone_costs_nothing() -> Result<()> {
    let control_plane = ControlPlane::shared().await;
    let worker = Worker::start(control_plane, &control_plane.namespace("lease").await?).await?;
    let claim = worker.shards.claim(&Key::MIN).context("no claim")?;
    for turn in 0..3 {
        worker.merge(&json!({ "metadata": { "labels": { "turn": turn.to_string() } } })).await?;
        sleep(TIMERS.renew_every * 2).await;
    }
    ensure!(claim.valid(Instant::now()) && *worker.lease.losses().borrow() == 0);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_worker_lets_its_lease_go() -> Result<()> {
    let control_plane = ControlPlane::shared().await;
    let Worker { leases, shards, lease } =
        Worker::start(control_plane, &control_plane.namespace("lease").await?).await?;
    let claim = shards.claim(&Key::MIN).context("no claim")?;
    lease.vacate().await;
    ensure!(!claim.valid(Instant::now()) && !shards.leased(Instant::now()));
    ensure!(holder(&leases).await?.is_none());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_api_server_a_worker_stops_in_time_and_goes_on_if_nobody_took_over() -> Result<()> {
    let control_plane = ControlPlane::start(Options::default()).await?;
    let worker = Worker::start(&control_plane, "default").await?;
    let claim = worker.shards.claim(&Key::MIN).context("no claim")?;
    control_plane.kill_api_server().await?;
    // Whatever was renewed was renewed before this moment, so from then on no later moment can become valid.
    let fenced = Instant::now() + TIMERS.fence_after;
    worker.until("end of the claim", |_| !claim.valid(Instant::now())).await?;
    ensure!(!claim.valid(fenced), "the claim holds longer than {:?} without a lease", TIMERS.fence_after);
    ensure!(!worker.shards.held().is_empty(), "nobody took the shards");
    control_plane.restart_api_server().await?;
    worker.until("renewal", |_| claim.valid(Instant::now())).await?;
    ensure!(*worker.lease.losses().borrow() == 0);
    control_plane.stop().await?;
    Ok(())
}
