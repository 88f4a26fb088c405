//! What kinds cost the API server: CPU and time of their installation, and its memory, idle and with every kind read once.
//!
//! The heap is what is live after a garbage collection, as the server's own profile tells. Reading a kind makes the server build
//! what it serves the kind with; that stays, so this is what a cluster comes to in which every kind was read once.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use flotilla_coordinator::Versions;
use flotilla_crds::{Catalog, KindEntry, Pattern};
use http::Request;
use kube::api::{Api, ApiResource, DynamicObject, ListParams};
use kube::core::GroupVersionKind;
use tokio::time::{Instant, sleep};

use super::report::Figure;
use super::usage;
use flotilla_testbed::control_plane::{ControlPlane, Options};
use flotilla_testbed::fleet::{Fleet, Role, Settings};

/// Takes two minutes where others use the machine.
const INSTALLED_WITHIN: Duration = Duration::from_mins(6);
const LEADS_WITHIN: Duration = Duration::from_mins(1);
const POLL: Duration = Duration::from_millis(100);
/// The members' namespace.
const NAMESPACE: &str = "flotilla-system";

/// What the API server should hold with ASO's kinds, each read once, in MB.
fn most_heap(versions: Versions) -> f64 {
    match versions {
        Versions::All => 1_300.0,
        Versions::Newest => 700.0,
    }
}

/// An API server with a coordinator that installs CRDs, and no workers.
struct InstallationOnly {
    control_plane: ControlPlane,
    settings: Settings,
    /// Coordinators started so far.
    starts: usize,
}

/// Figures for the kinds of a pattern, with all versions and with the newest.
pub(super) async fn measure(pattern: &str, logs: &Path, say: &impl Fn(&str)) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for versions in [Versions::All, Versions::Newest] {
        let installation = InstallationOnly::set(pattern, versions, &logs.join(versions.as_str())).await?;
        let taken = installation.run(pattern, versions, say).await;
        figures.extend(taken?);
    }
    Ok(figures)
}

impl InstallationOnly {
    async fn set(pattern: &str, versions: Versions, logs: &Path) -> Result<Self> {
        if logs.exists() {
            fs::remove_dir_all(logs).with_context(|| format!("failed to remove {}", logs.display()))?;
        }
        fs::create_dir_all(logs).with_context(|| format!("failed to make {}", logs.display()))?;
        let control_plane = ControlPlane::start(Options::default()).await?;
        let environment = [("FLOTILLA_CRD_VERSIONS", versions.as_str()), ("RUST_BACKTRACE", "0")];
        let settings = Settings {
            program: None,
            kubeconfig: control_plane.kubeconfig_path(),
            namespace: NAMESPACE.to_owned(),
            crd_pattern: pattern.to_owned(),
            sync_period: Duration::from_hours(1),
            logs: logs.to_owned(),
            log_level: "info".to_owned(),
            environment: environment.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        };
        Ok(Self { control_plane, settings, starts: 0 })
    }

    async fn run(mut self, pattern: &str, versions: Versions, say: &impl Fn(&str)) -> Result<Vec<Figure>> {
        let parsed = Pattern::parse(pattern)?;
        let kinds: Vec<&KindEntry> = Catalog::embedded().matching(&parsed).collect();
        let number = kinds.len();
        let whole = pattern == "*";
        let of = format!("{number} kinds, {} versions", versions.as_str());
        let mut figures = Vec::new();
        let heap = |what: &str, (live, resident): (f64, f64), most: Option<f64>| {
            let figure = Figure::new(format!("API server's live heap, {what}"), "MB", [live]);
            let resident = Figure::new("· RSS", "MB", [resident]);
            [most.map_or(figure.clone(), |most| figure.at_most(most)), resident]
        };

        figures.extend(heap("no kind", self.memory().await?, None));
        say(&format!("installing {of}"));
        let (seconds, cpu) = self.install(number).await?;
        let time = Figure::new(format!("installing {of}, until all are served"), "s", [seconds]);
        figures.push(if whole { time.at_most(40.0) } else { time });
        figures.push(Figure::new("· the API server's CPU", "s", [cpu]));
        say(&format!("installing {of} again, unchanged"));
        let (seconds, cpu) = self.install(number).await?;
        let time = Figure::new(format!("installing {of} again, unchanged"), "s", [seconds]);
        figures.push(if whole { time.at_most(10.0) } else { time });
        figures.push(Figure::new("· the API server's CPU", "s", [cpu]));

        figures.extend(heap(&format!("{of}, idle"), self.memory().await?, None));
        say(&format!("reading each of {of}"));
        let seconds = self.read(&kinds).await?;
        let most = whole.then(|| most_heap(versions));
        figures.extend(heap(&format!("{of}, each read once"), self.memory().await?, most));
        figures.push(Figure::new("· reading them", "s", [seconds]));
        self.control_plane.stop().await?;
        Ok(figures)
    }

    /// Lets a new leader install. Returns seconds, and seconds of the API server's CPU.
    async fn install(&mut self, kinds: usize) -> Result<(f64, f64)> {
        let name = format!("coordinator-{}", self.starts);
        self.starts += 1;
        let mut fleet = Fleet::start(self.control_plane.client(), self.settings.clone(), 0, 0).await?;
        let (before, started) = (self.cpu().await?, Instant::now());
        fleet.start_member(Role::Coordinator, &name)?;
        fleet.leader_other_than(None, LEADS_WITHIN).await?;
        let log = fleet.log_path(&name);
        loop {
            fleet.check_running()?;
            let text = fs::read_to_string(&log).with_context(|| format!("failed to read {}", log.display()))?;
            if let Some(end) = text
                .lines()
                .find(|line| ["Installed CRDs", "Failed to install some CRDs"].iter().any(|end| line.contains(end)))
            {
                anyhow::ensure!(end.contains(&format!("installed={kinds} ")), "not all are installed: {end}");
                break;
            }
            anyhow::ensure!(started.elapsed() < INSTALLED_WITHIN, "not installed: {}", log.display());
            sleep(POLL).await;
        }
        let cpu = self.cpu().await?.saturating_sub(before);
        let taken = (started.elapsed().as_secs_f64(), cpu.as_secs_f64());
        fleet.stop().await?;
        Ok(taken)
    }

    /// Lists one object of each kind, of which there are none.
    async fn read(&self, kinds: &[&KindEntry]) -> Result<f64> {
        let (client, started) = (self.control_plane.client(), Instant::now());
        for kind in kinds {
            let gvk = GroupVersionKind::gvk(&kind.group, &kind.storage_version(), &kind.kind);
            let resource = ApiResource::from_gvk_with_plural(&gvk, &kind.plural);
            let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
            let one = ListParams::default().limit(1);
            api.list(&one).await.with_context(|| format!("failed to list {}", kind.crd_name()))?;
        }
        Ok(started.elapsed().as_secs_f64())
    }

    /// What the API server's heap holds after a collection, and what is resident; in MB.
    async fn memory(&self) -> Result<(f64, f64)> {
        let client = self.control_plane.client();
        // Finalizers and pools release what they hold in the collection after.
        let mut text = String::new();
        for _ in 0..2 {
            let request = Request::get("/debug/pprof/heap?gc=1&debug=1").body(Vec::new())?;
            text = client.request_text(request).await.context("failed to read the API server's heap profile")?;
        }
        let live = live_bytes(&text).context("the heap profile does not say what is live")?;
        let pid = self.control_plane.api_server_id().await.context("no API server runs")?;
        Ok((live / 1e6, usage::memory(pid)?.resident * 1.048_576))
    }

    async fn cpu(&self) -> Result<Duration> {
        usage::cpu(self.control_plane.api_server_id().await.context("no API server runs")?)
    }
}

/// What Go's heap profile in text form says of the heap as a whole.
fn live_bytes(profile: &str) -> Option<f64> {
    profile.lines().find_map(|line| line.strip_prefix("# HeapAlloc = "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heap_profile_tells_what_is_live() {
        let text = "heap profile: 1: 2 [3: 4] @ heap/1048576\n\n# runtime.MemStats\n# Alloc = 7\n# HeapAlloc = 1234567\n# HeapSys = 9\n";
        assert_eq!(live_bytes(text), Some(1_234_567.0));
        assert_eq!(live_bytes("# HeapSys = 9"), None);
    }
}
