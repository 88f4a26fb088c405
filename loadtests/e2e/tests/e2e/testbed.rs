//! The one testbed of this process: a control plane, armsim and a fleet with a standby.
//!
//! Tests that leave the fleet alone share it; a test that kills or stops something has it to itself and finds it whole.
//! Everything lives on one runtime, so that what one test starts outlives the test.

use std::fs;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use flotilla_armsim::Armsim;
use flotilla_testbed::cluster::Cluster;
use flotilla_testbed::control_plane::{ControlPlane, Options};
use flotilla_testbed::fleet::{Fleet, Role, Settings};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Mutex, MutexGuard, OnceCell, RwLock};

/// How fast armsim's time runs: a resource group is deleted in 1 s.
pub(crate) const TIME_SCALE: f64 = 30.0;
/// Unchanged objects are reconciled this often, a quarter more or less.
pub(crate) const SYNC_PERIOD: Duration = Duration::from_secs(4);

const COORDINATORS: [&str; 2] = ["coordinator-0", "coordinator-1"];
const WORKERS: [&str; 3] = ["worker-0", "worker-1", "worker-2"];

/// The pace of the testbed in which ARM's buckets are small beside what a fleet can do.
const SLOW_TIME_SCALE: f64 = 2.0;

/// The kinds that the tests use.
const CRD_PATTERN: &str = "resources.azure.com/*;app.azure.com/*;managedidentity.azure.com/*;\
    storage.azure.com/StorageAccount*;dbforpostgresql.azure.com/FlexibleServer;\
    dbforpostgresql.azure.com/FlexibleServersAdministrator;network.azure.com/VirtualNetwork*;entra.azure.com/*;\
    Microsoft.Automation/automationAccounts@2023-11-01;automation.azure.com/AutomationAccountsVariable";

const INSTALLED_WITHIN: Duration = Duration::from_mins(5);
const LED_WITHIN: Duration = Duration::from_mins(2);
/// Enough to see what a member was at; the whole log stays on disk while the tests run.
const LOG_LINES: usize = 25;

static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| Builder::new_multi_thread().enable_all().build().expect("a runtime can be built"));
static TESTBED: OnceCell<Testbed> = OnceCell::const_new();
static SLOW_TESTBED: OnceCell<Testbed> = OnceCell::const_new();

/// A real API server, armsim, and a fleet of two coordinators and three workers: what all tests of this program share.
pub(crate) struct Testbed {
    pub(crate) control_plane: &'static ControlPlane,
    pub(crate) azure: Armsim,
    pub(crate) cluster: Cluster,
    fleet: Mutex<Fleet>,
    logs: PathBuf,
    /// Held for reading by those who leave the fleet alone.
    gate: RwLock<()>,
}

/// Runs a test that leaves the fleet alone.
pub(crate) fn share<F: Future<Output = Result<()>>>(test: impl FnOnce(&'static Testbed) -> F) -> ExitCode {
    RUNTIME.block_on(async {
        let testbed = testbed().await;
        let _gate = testbed.gate.read().await;
        testbed.judge(test(testbed).await)
    })
}

/// Runs a test in a second testbed, where time runs slowly and there are resource groups only.
pub(crate) fn share_slow<F: Future<Output = Result<()>>>(test: impl FnOnce(&'static Testbed) -> F) -> ExitCode {
    RUNTIME.block_on(async {
        let started = SLOW_TESTBED.get_or_try_init(async || {
            // Ends with the process, as the shared one does.
            let control_plane = Box::leak(Box::new(ControlPlane::start(Options::default()).await?));
            Testbed::start(control_plane, SLOW_TIME_SCALE, "resources.azure.com/*", Duration::from_hours(1)).await
        });
        match started.await {
            Ok(testbed) => testbed.judge(test(testbed).await),
            Err(error) => panic!("the slow testbed did not start: {error:#}"),
        }
    })
}

/// Runs a test that kills or stops something, alone; afterwards everybody is started again.
pub(crate) fn alone<F: Future<Output = Result<()>>>(test: impl FnOnce(&'static Testbed) -> F) -> ExitCode {
    RUNTIME.block_on(async {
        let testbed = testbed().await;
        let _gate = testbed.gate.write().await;
        let result = testbed.mend().await.context("the fleet was not whole before the test");
        let result = match result {
            Ok(()) => test(testbed).await,
            Err(error) => Err(error),
        };
        let mended = testbed.mend().await;
        testbed.judge(result.and(mended))
    })
}

async fn testbed() -> &'static Testbed {
    let start = async || Testbed::start(ControlPlane::shared().await, TIME_SCALE, CRD_PATTERN, SYNC_PERIOD).await;
    match TESTBED.get_or_try_init(start).await {
        Ok(testbed) => testbed,
        Err(error) => panic!("the testbed did not start: {error:#}"),
    }
}

impl Testbed {
    async fn start(
        control_plane: &'static ControlPlane,
        time_scale: f64,
        crd_pattern: &str,
        sync_period: Duration,
    ) -> Result<Self> {
        let started = Instant::now();
        let options =
            flotilla_armsim::Options { time_scale, record_bodies: true, ..flotilla_armsim::Options::default() };
        let azure = Armsim::start(options).await?;
        let logs = log_folder(control_plane, time_scale);
        fs::create_dir_all(&logs)?;
        let mut settings = Settings::local(control_plane, &azure, &logs);
        crd_pattern.clone_into(&mut settings.crd_pattern);
        settings.sync_period = sync_period;
        "info,flotilla_worker::engine=debug".clone_into(&mut settings.log_level);
        settings.environment.push(("NO_COLOR".to_owned(), "1".to_owned()));
        let cluster = Cluster::new(control_plane.client());
        let fleet = match Fleet::start(control_plane.client(), settings, COORDINATORS.len(), WORKERS.len()).await {
            Ok(fleet) => fleet,
            Err(error) => {
                print_logs(&logs);
                return Err(error);
            }
        };
        let testbed = Self { control_plane, azure, cluster, fleet: Mutex::new(fleet), logs, gate: RwLock::new(()) };
        let kinds = testbed.cluster.wait_kinds(crd_pattern, INSTALLED_WITHIN).await;
        if kinds.is_err() {
            print_logs(&testbed.logs);
        }
        println!("{} kinds are served {:.1} s after the start", kinds?, started.elapsed().as_secs_f64());
        Ok(testbed)
    }

    /// The fleet, for a test that is alone.
    pub(crate) async fn fleet(&self) -> MutexGuard<'_, Fleet> {
        self.fleet.lock().await
    }

    /// Starts every member that is missing.
    async fn mend(&self) -> Result<()> {
        let mut fleet = self.fleet.lock().await;
        for (role, names) in [(Role::Coordinator, &COORDINATORS[..]), (Role::Worker, &WORKERS[..])] {
            let running = fleet.names(role);
            for name in names.iter().filter(|name| !running.iter().any(|other| other == *name)) {
                fleet.start_member(role, name)?;
            }
        }
        fleet.leader_other_than(None, LED_WITHIN).await?;
        fleet.check_running()
    }

    fn judge(&self, result: Result<()>) -> ExitCode {
        match result {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                print_logs(&self.logs);
                eprintln!("\n{error:#}");
                ExitCode::FAILURE
            }
        }
    }

    /// The logs of all members, one after another.
    pub(crate) fn logs(&self) -> Result<Vec<(String, String)>> {
        let mut logs = Vec::new();
        for file in fs::read_dir(&self.logs)? {
            let file = file?;
            logs.push((file.file_name().to_string_lossy().into_owned(), fs::read_to_string(file.path())?));
        }
        logs.sort();
        Ok(logs)
    }
}

/// A folder that goes with the control plane, or one that stays, below the folder that `FLOTILLA_E2E_LOGS` names.
fn log_folder(control_plane: &ControlPlane, time_scale: f64) -> PathBuf {
    match std::env::var_os("FLOTILLA_E2E_LOGS") {
        Some(folder) => PathBuf::from(folder).join(format!("scale-{time_scale}-{}", std::process::id())),
        None => control_plane.directory().join("fleet"),
    }
}

/// Prints the end of each log.
fn print_logs(directory: &Path) {
    let Ok(files) = fs::read_dir(directory) else { return };
    let mut paths: Vec<_> = files.flatten().map(|file| file.path()).collect();
    paths.sort();
    for path in paths {
        let text = fs::read_to_string(&path).unwrap_or_default();
        let lines: Vec<_> = text.lines().collect();
        let tail = &lines[lines.len().saturating_sub(LOG_LINES)..];
        eprintln!("\n--- the end of {}\n{}", path.display(), tail.join("\n"));
    }
}
