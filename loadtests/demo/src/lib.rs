//! The demo: real ASO YAML becomes Azure resources (in armsim), and the fleet survives what the demo does to it.
//!
//! Each step says what it does, does it with the tools that users have, and proves the outcome from armsim's journal
//! and the API server's audit log; a claim that does not hold ends the demo with an error.

mod kubectl;
mod manifests;
mod progress;
mod report;
mod stage;

use std::time::Duration;

use anyhow::{Context as _, Result};
use kube::api::DynamicObject;
use serde_json::json;
use tokio::time::Instant;

use self::kubectl::Kubectl;
use self::manifests::Manifests;
use self::report::Report;
use self::stage::{Stage, headline, say};

/// How fast armsim's time runs: 15 s of Retry-After take 1.5 s.
const TIME_SCALE: f64 = 10.0;

const READY_WITHIN: Duration = Duration::from_mins(2);
const GONE_WITHIN: Duration = Duration::from_mins(2);
const TAKE_OVER_WITHIN: Duration = Duration::from_secs(30);

/// What the caller may choose.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Leave everything running after the resources are Ready and the faults are survived.
    pub keep: bool,
}

/// Runs the whole demo.
pub async fn run(options: Options) -> Result<()> {
    let manifests = Manifests::load()?;
    headline("A real etcd and kube-apiserver, an ARM simulator, one leader, one standby, three workers");
    let mut stage = Stage::set(TIME_SCALE).await?;
    let kubectl = Kubectl::new(stage.kubeconfig(), stage.directory());
    let mut report = Report::default();

    headline(&format!("kubectl apply: a container app in three objects, and {} more resources", manifests.others()));
    let applied = Instant::now();
    kubectl.apply(manifests.yaml())?;
    survive_worker_crash(&mut stage, &manifests, &mut report).await?;
    say(&format!("all {} objects are Ready after {:.1} s", manifests.objects().len(), applied.elapsed().as_secs_f64()));
    say(&format!("https://{}", fqdn(&stage, manifests.container_app()).await?));

    survive_leader_crash(&mut stage, &manifests, &mut report).await?;

    if options.keep {
        return stage.keep_running(&kubectl).await;
    }
    report.read_ready(&stage, manifests.objects()).await?;

    headline("kubectl delete: everything goes, in Kubernetes and in Azure");
    kubectl.delete(manifests.yaml())?;
    let bar = progress::deletions(manifests.objects().len());
    bar.watch(stage.cluster(), manifests.objects(), GONE_WITHIN, progress::is_gone).await?;
    stage.check_azure_is_empty()?;
    say("nothing is left in Azure");

    headline("What it took");
    report.read_logs(&stage, manifests.objects())?;
    report.print();
    stage.strike().await
}

/// Kills the worker with the most operations under way and shows that the others finish them.
async fn survive_worker_crash(stage: &mut Stage, manifests: &Manifests, report: &mut Report) -> Result<()> {
    let bar = progress::creations(manifests.objects().len());
    let victim = bar.until(stage.cluster(), manifests.objects(), READY_WITHIN, || stage.busiest_worker()).await?;
    bar.note(&format!("SIGKILL to {} while {} of its operations run", victim.worker, victim.paths.len()));
    let killed = stage.kill_now(&victim.worker)?;
    bar.watch(stage.cluster(), manifests.objects(), READY_WITHIN, progress::is_ready).await?;
    let take_over = stage.take_over_time(&victim, killed)?;
    stage.check_no_second_put(&victim)?;
    say(&format!(
        "other workers finished its operations without a second PUT; the first was polled again after {:.1} s",
        take_over.as_secs_f64()
    ));
    report.worker_take_over = Some(take_over);
    stage.start_worker(&victim.worker)
}

/// Kills the leader, changes objects while no coordinator leads, and shows that Azure gets the changes.
async fn survive_leader_crash(stage: &mut Stage, manifests: &Manifests, report: &mut Report) -> Result<()> {
    let leader = stage.leader().await?;
    headline(&format!("SIGKILL to the leader, {leader}; then a change in every namespace"));
    let killed = stage.kill_now(&leader)?;
    let groups: Vec<DynamicObject> = manifests.resource_groups().cloned().collect();
    for group in &groups {
        stage.cluster().patch(group, &json!({"spec": {"tags": {"changed-while": "nobody-leads"}}})).await?;
    }
    stage.cluster().wait_ready(&groups, READY_WITHIN).await?;
    let done = killed.elapsed();
    let successor = stage.leader_other_than(&leader, TAKE_OVER_WITHIN).await?;
    say(&format!(
        "{} changes were in Azure after {:.1} s; {successor} became leader after {:.1} s",
        groups.len(),
        done.as_secs_f64(),
        killed.elapsed().as_secs_f64()
    ));
    report.leader_take_over = Some(killed.elapsed());
    stage.start_coordinator(&leader)
}

async fn fqdn(stage: &Stage, app: &DynamicObject) -> Result<String> {
    let app = stage.cluster().get(app).await?.context("the container app is gone")?;
    let fqdn = app.data.pointer("/status/configuration/ingress/fqdn").and_then(serde_json::Value::as_str);
    Ok(fqdn.context("the container app's status has no configuration.ingress.fqdn")?.to_owned())
}
