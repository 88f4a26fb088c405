//! What is measured: a fleet of real processes; and what it needs: a control plane and armsim, which cost it nothing.
//!
//! Armsim runs in this process, beside the client that creates objects, so neither counts as the fleet's.

use std::fs;
use std::ops::Sub;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::time::{Instant, sleep};

use super::usage::{self, Memory};
use flotilla_armsim::Armsim;
use flotilla_testbed::cluster::Cluster;
use flotilla_testbed::control_plane::{self, ControlPlane};
use flotilla_testbed::fleet::{Fleet, Role, Settings};

/// How fast armsim's time runs: fast enough that neither operations nor ARM's buckets are what a fleet waits for.
const TIME_SCALE: f64 = 60.0;

const POLL: Duration = Duration::from_millis(20);
const LEADS_WITHIN: Duration = Duration::from_mins(1);

/// CPU time of the fleet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cpu {
    /// All workers.
    pub(super) workers: Duration,
    /// All coordinators.
    pub(super) coordinators: Duration,
}

impl Cpu {
    pub(super) fn total(self) -> Duration {
        self.workers + self.coordinators
    }
}

impl Sub for Cpu {
    type Output = Self;
    fn sub(self, before: Self) -> Self {
        Self {
            workers: self.workers.saturating_sub(before.workers),
            coordinators: self.coordinators.saturating_sub(before.coordinators),
        }
    }
}

/// Requests of the fleet; renewals of leases are left out.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Requests {
    /// To ARM and Entra.
    pub(super) azure: u64,
    /// To the API server, without a change.
    pub(super) reads: usize,
    /// To the API server, for a change; events too.
    pub(super) writes: usize,
}

impl Sub for Requests {
    type Output = Self;
    fn sub(self, before: Self) -> Self {
        Self { azure: self.azure - before.azure, reads: self.reads - before.reads, writes: self.writes - before.writes }
    }
}

/// The fleet whose cost is measured, with the control plane and the armsim that it runs against.
pub(super) struct MeasuredFleet {
    cluster: Cluster,
    settings: Settings,
    fleet: Option<Fleet>,
    /// Fleets started so far.
    starts: usize,
    azure: Armsim,
    control_plane: ControlPlane,
}

impl MeasuredFleet {
    /// Starts control plane and armsim, and no fleet yet. ARM's own buckets are off. The members' logs stay in `logs`
    /// until the next time.
    pub(super) async fn set(crd_pattern: &str, logs: &Path) -> Result<Self> {
        if logs.exists() {
            fs::remove_dir_all(logs).with_context(|| format!("failed to remove {}", logs.display()))?;
        }
        fs::create_dir_all(logs).with_context(|| format!("failed to make {}", logs.display()))?;
        let control_plane = ControlPlane::start(control_plane::Options::default()).await?;
        let options =
            flotilla_armsim::Options { time_scale: TIME_SCALE, rates: None, ..flotilla_armsim::Options::default() };
        let azure = Armsim::start(options).await?;
        let mut settings = Settings::local(&control_plane, &azure, logs);
        crd_pattern.clone_into(&mut settings.crd_pattern);
        // As in an image, whatever the developer has set: libraries make backtraces for errors that are none.
        settings.environment.push(("RUST_BACKTRACE".to_owned(), "0".to_owned()));
        let cluster = Cluster::new(control_plane.client());
        Ok(Self { cluster, settings, fleet: None, starts: 0, azure, control_plane })
    }

    pub(super) fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Starts one coordinator and one worker; returns once the coordinator leads. Each time they have new names, as the
    /// pods of a Deployment have.
    pub(super) async fn start_fleet(&mut self) -> Result<()> {
        let mut fleet = Fleet::start(self.cluster.client().clone(), self.settings.clone(), 0, 0).await?;
        fleet.start_member(Role::Coordinator, &format!("coordinator-{}", self.starts))?;
        fleet.start_member(Role::Worker, &format!("worker-{}", self.starts))?;
        self.starts += 1;
        fleet.leader_other_than(None, LEADS_WITHIN).await?;
        self.fleet = Some(fleet);
        Ok(())
    }

    /// Stops the fleet in order.
    pub(super) async fn stop_fleet(&mut self) -> Result<()> {
        match self.fleet.take() {
            Some(fleet) => fleet.stop().await,
            None => Ok(()),
        }
    }

    /// What the fleet has used since it was started.
    pub(super) fn cpu(&self) -> Result<Cpu> {
        let sum = |role| self.pids(role)?.into_iter().map(usage::cpu).sum::<Result<Duration>>();
        Ok(Cpu { workers: sum(Role::Worker)?, coordinators: sum(Role::Coordinator)? })
    }

    /// What the fleet has asked others so far.
    pub(super) fn requests(&self) -> Result<Requests> {
        let events = self.control_plane.audit_events()?;
        let (writes, reads): (Vec<_>, Vec<_>) = events
            .iter()
            .filter(|event| event.user_agent.starts_with("flotilla"))
            .filter(|event| event.object.as_ref().is_some_and(|object| object.resource != "leases"))
            .partition(|event| event.is_write());
        Ok(Requests { azure: self.azure.counts().calls, reads: reads.len(), writes: writes.len() })
    }

    /// Memory of the only member with this role.
    pub(super) fn memory(&self, role: Role) -> Result<Memory> {
        let pid = self.pids(role)?.into_iter().next().with_context(|| format!("no {role:?} runs"))?;
        usage::memory(pid)
    }

    /// Memory of the API server.
    pub(super) async fn api_server_memory(&self) -> Result<Memory> {
        let pid = self.control_plane.api_server_id().await.context("no API server runs")?;
        usage::memory(pid)
    }

    /// Waits until the worker says that it knows so many objects.
    pub(super) async fn wait_known(&self, objects: usize, within: Duration) -> Result<()> {
        let fleet = self.fleet.as_ref().context("no fleet runs")?;
        let workers = fleet.names(Role::Worker);
        let url = fleet.metrics().into_iter().find(|(name, _)| workers.contains(name));
        let url = format!("http://{}/metrics", url.context("no worker runs")?.1);
        let deadline = Instant::now() + within;
        loop {
            let known = match reqwest::get(&url).await {
                Ok(answer) => gauge(&answer.text().await?, "flotilla_objects"),
                // It starts.
                Err(_) => None,
            };
            if known.is_some_and(|known| known >= objects) {
                return Ok(());
            }
            anyhow::ensure!(Instant::now() < deadline, "the worker knows {known:?} of {objects} objects");
            sleep(POLL).await;
        }
    }

    /// Stops everything in order.
    pub(super) async fn strike(mut self) -> Result<()> {
        self.stop_fleet().await?;
        self.azure.stop().await;
        self.control_plane.stop().await?;
        Ok(())
    }

    fn pids(&self, role: Role) -> Result<Vec<u32>> {
        let fleet = self.fleet.as_ref().context("no fleet runs")?;
        Ok(fleet.names(role).iter().filter_map(|name| fleet.pid(name)).collect())
    }
}

/// The value of a gauge in Prometheus' text format, whatever its labels are.
fn gauge(text: &str, name: &str) -> Option<usize> {
    let line = text.lines().find_map(|line| line.strip_prefix(name).filter(|rest| rest.starts_with(['{', ' '])))?;
    line.rsplit(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gauge_is_read_by_its_whole_name() {
        let text = "# TYPE flotilla_objects gauge\nflotilla_objects_total 7\nflotilla_objects{otel=\"x y\"} 42\n";
        assert_eq!(gauge(text, "flotilla_objects"), Some(42));
        assert_eq!(gauge(text, "flotilla"), None);
    }
}
