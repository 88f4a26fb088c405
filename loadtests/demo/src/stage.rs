//! What the demo plays on: a control plane, armsim and a fleet.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, ObjectMeta, PostParams};
use tempfile::TempDir;
use tokio::time::Instant;

use super::kubectl::Kubectl;
use super::manifests::Manifests;
use flotilla_armsim::{Armsim, JournalFilter, Method, Outcome, Progress, ResourceFilter};
use flotilla_testbed::cluster::Cluster;
use flotilla_testbed::control_plane::{self, ControlPlane};
use flotilla_testbed::fleet::{Fleet, Role, Settings};
use flotilla_testbed::prometheus::{Prometheus, Target};

/// Kinds of the demo: installing fewer CRDs costs the API server less.
const CRD_PATTERN: &str = "resources.azure.com/*;app.azure.com/*;managedidentity.azure.com/*;\
    storage.azure.com/StorageAccount*;network.azure.com/VirtualNetwork*";

/// The dashboard's throughput, as a query that fits into a URL.
const RECONCILES: &str = "sum%20by%20(result)%20(rate(flotilla_reconciles_total[1m]))&g0.tab=0";

/// So few operations under way make the crash of their worker worth watching.
const OPERATIONS_WORTH_A_CRASH: usize = 3;

pub(super) fn headline(text: &str) {
    anstream::println!("\n\u{1b}[1m▶ {text}\u{1b}[0m");
}

pub(super) fn say(text: &str) {
    anstream::println!("  {text}");
}

/// The worker that is about to be killed, and what it had under way.
#[derive(Debug, Default)]
pub(super) struct Victim {
    pub(super) worker: String,
    /// ARM paths of the resources with an operation under way that this worker followed last.
    pub(super) paths: BTreeSet<String>,
    operations: BTreeSet<String>,
}

/// When a member was killed, on both clocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Killed {
    at: Instant,
    time: Timestamp,
}

impl Killed {
    pub(super) fn elapsed(&self) -> Duration {
        self.at.elapsed()
    }
}

/// What the demo runs: a control plane, armsim, two coordinators and three workers.
pub(super) struct Stage {
    cluster: Cluster,
    fleet: Fleet,
    azure: Armsim,
    control_plane: ControlPlane,
    directory: TempDir,
}

impl Stage {
    pub(super) async fn set(time_scale: f64) -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("flotilla-demo-").tempdir()?;
        let control_plane = ControlPlane::start(control_plane::Options::default()).await?;
        let azure =
            Armsim::start(flotilla_armsim::Options { time_scale, ..flotilla_armsim::Options::default() }).await?;
        let client = control_plane.client();
        for name in Manifests::namespaces() {
            let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
            let namespace = Namespace { metadata, ..Namespace::default() };
            Api::all(client.clone()).create(&PostParams::default(), &namespace).await?;
        }
        let mut settings = Settings::local(&control_plane, &azure, directory.path());
        CRD_PATTERN.clone_into(&mut settings.crd_pattern);
        let started = Instant::now();
        let fleet = Fleet::start(client.clone(), settings, 2, 3).await?;
        let stage = Self { cluster: Cluster::new(client), fleet, azure, control_plane, directory };
        let kinds = stage.cluster.wait_kinds(CRD_PATTERN, Duration::from_mins(2)).await?;
        say(&format!("{kinds} kinds installed by the leader after {:.1} s", started.elapsed().as_secs_f64()));
        Ok(stage)
    }

    pub(super) fn kubeconfig(&self) -> PathBuf {
        self.control_plane.kubeconfig_path()
    }

    pub(super) fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub(super) fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    pub(super) fn azure(&self) -> &Armsim {
        &self.azure
    }

    pub(super) fn audit(&self) -> Result<Vec<control_plane::audit::Event>> {
        Ok(self.control_plane.audit_events()?)
    }

    pub(super) async fn leader(&self) -> Result<String> {
        self.fleet.leader().await?.context("no coordinator leads")
    }

    pub(super) async fn leader_other_than(&mut self, former: &str, within: Duration) -> Result<String> {
        self.fleet.leader_other_than(Some(former), within).await
    }

    pub(super) fn kill_now(&mut self, name: &str) -> Result<Killed> {
        self.fleet.kill(name)?;
        Ok(Killed { at: Instant::now(), time: Timestamp::now() })
    }

    pub(super) fn start_worker(&mut self, name: &str) -> Result<()> {
        self.fleet.start_member(Role::Worker, name)
    }

    pub(super) fn start_coordinator(&mut self, name: &str) -> Result<()> {
        self.fleet.start_member(Role::Coordinator, name)
    }

    /// The worker with the most operations under way, once one has enough of them.
    pub(super) fn busiest_worker(&self) -> Option<Victim> {
        let running: BTreeMap<String, String> = self
            .azure
            .operations()
            .into_iter()
            .filter(|operation| operation.progress == Progress::InProgress)
            .map(|operation| (operation.id, operation.target))
            .collect();
        // The worker that called last about an operation follows it: shards move while the fleet finds its balance.
        let mut owners: BTreeMap<String, String> = BTreeMap::new();
        for call in self.azure.calls() {
            let Some(operation) = call.operation.as_deref().filter(|id| running.contains_key(*id)) else { continue };
            if let Some(worker) = worker_of(&call.user_agent) {
                owners.insert(operation.to_owned(), worker.to_owned());
            }
        }
        let mut victims: BTreeMap<String, Victim> = BTreeMap::new();
        for (operation, worker) in owners {
            let victim = victims.entry(worker.clone()).or_insert_with(|| Victim { worker, ..Victim::default() });
            victim.paths.insert(running[&operation].to_lowercase());
            victim.operations.insert(operation);
        }
        victims
            .into_values()
            .max_by_key(|victim| victim.paths.len())
            .filter(|victim| victim.paths.len() >= OPERATIONS_WORTH_A_CRASH)
    }

    /// From the kill until another worker first polled one of the victim's operations.
    pub(super) fn take_over_time(&self, victim: &Victim, killed: Killed) -> Result<Duration> {
        let first = self.azure.calls().into_iter().find(|call| {
            call.time > killed.time
                && call.operation.as_deref().is_some_and(|operation| victim.operations.contains(operation))
                && worker_of(&call.user_agent).is_some_and(|worker| worker != victim.worker)
        });
        let first = first.context("no other worker ever polled an operation of the killed worker")?;
        Ok(Duration::try_from(first.time.duration_since(killed.time))?)
    }

    /// Each resource that had an operation under way was PUT once in all.
    pub(super) fn check_no_second_put(&self, victim: &Victim) -> Result<()> {
        for path in &victim.paths {
            let puts = self
                .azure
                .calls()
                .iter()
                .filter(|call| {
                    call.method == Method::Put && call.outcome == Outcome::Ok && call.path.eq_ignore_ascii_case(path)
                })
                .count();
            ensure!(puts == 1, "{path} was PUT {puts} times");
        }
        Ok(())
    }

    pub(super) fn check_azure_is_empty(&self) -> Result<()> {
        let left = self.azure.resources(&ResourceFilter::default())?;
        if let Some(first) = left.first() {
            bail!("{} resources are left in Azure, {} among them", left.len(), first.id);
        }
        let summary = self.azure.summary(&JournalFilter::default())?;
        ensure!(summary.calls > 0, "no call ever reached Azure");
        Ok(())
    }

    /// Leaves everything running until Ctrl-C.
    pub(super) async fn keep_running(self, kubectl: &Kubectl) -> Result<()> {
        headline("Everything keeps running until Ctrl-C");
        say(&format!("{} get azure --all-namespaces", kubectl.command()));
        say(&format!("{} describe containerapp hello --namespace starter-kit", kubectl.command()));
        let targets: Vec<Target> = self.fleet.metrics().into_iter().map(Target::from).collect();
        let prometheus = Prometheus::start("flotilla-system", &targets, Duration::from_secs(1)).await?;
        say(&format!("the dashboard's data, in Prometheus: {}/graph?g0.expr={RECONCILES}", prometheus.url()));
        for (name, address) in self.fleet.metrics() {
            say(&format!("metrics of {name}: http://{address}/metrics"));
        }
        say(&format!("calls to Azure: {}/_sim/journal", self.azure.admin_url()));
        say(&format!("logs: {}", self.directory.path().display()));
        tokio::signal::ctrl_c().await?;
        prometheus.stop().await?;
        self.strike().await
    }

    /// Stops everything in order.
    pub(super) async fn strike(self) -> Result<()> {
        self.fleet.stop().await?;
        self.azure.stop().await;
        self.control_plane.stop().await?;
        Ok(())
    }
}

/// The User-Agent says `flotilla/<version> worker/<pod>`.
pub(super) fn worker_of(user_agent: &str) -> Option<&str> {
    user_agent.split(' ').find_map(|part| part.strip_prefix("worker/"))
}
