//! A real etcd and kube-apiserver on free loopback ports, started in seconds and gone with the process.
//!
//! *Flow:* a temporary directory, certificates, etcd, kube-apiserver, then a kubeconfig whose user is an administrator.
//! *Guarantees:* the servers end when this process ends in whatever way, and the directory of a killed process is
//! removed by the next start. *Caveats:* no controller manager runs: nothing collects garbage, makes service accounts
//! or completes the deletion of a namespace, so tests take a fresh namespace each and leave it.

pub mod audit;
mod binaries;
mod certificates;
mod directory;
mod error;
mod options;
mod servers;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{ObjectMeta, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, ResourceExt};
use tokio::sync::{Mutex, OnceCell};
use tokio::time::{Instant, sleep};
use tracing::instrument::WithSubscriber;
use tracing::subscriber::NoSubscriber;

pub use self::binaries::{Binaries, cache_dir, etcd_version, kubernetes_version};
use self::certificates::Certificates;
use self::directory::Directory;
pub use self::error::Error;
pub use self::options::Options;
use self::servers::Layout;
use crate::port;
use crate::process::{self, Process};

const ETCD: &str = "etcd";
const API_SERVER: &str = "kube-apiserver";

/// How often a starting server is asked whether it is ready.
const READY_POLL: Duration = Duration::from_millis(100);

/// Another process may take a port between our check and the server's bind; then the start is repeated.
const STARTS: usize = 3;

/// A running etcd and kube-apiserver.
#[derive(Debug)]
pub struct ControlPlane {
    binaries: Binaries,
    options: Options,
    layout: Layout,
    certificates: Certificates,
    config: Config,
    // Dropped in this order: the API server before the store it writes to, both before the directory.
    api_server: Mutex<Option<Process>>,
    etcd: Process,
    directory: Directory,
}

impl ControlPlane {
    /// The one instance that the tests of a process share; the first caller starts it.
    ///
    /// # Panics
    /// When it cannot be started, with the reason: no test can do anything else about it.
    pub async fn shared() -> &'static Self {
        static SHARED: OnceCell<ControlPlane> = OnceCell::const_new();
        match SHARED.get_or_try_init(|| Self::start(Options::default())).await {
            Ok(control_plane) => control_plane,
            Err(error) => panic!("{:#}", anyhow::Error::from(error)),
        }
    }

    /// Starts both servers and waits until they are ready.
    pub async fn start(options: Options) -> Result<Self, Error> {
        let mut tries = 1;
        loop {
            match Self::start_once(options.clone()).await {
                Err(Error::Process(process::Error::Exited { log, .. }))
                    if tries < STARTS && log.contains("address already in use") =>
                {
                    tracing::info!(tries, "A port was taken by another process; starting again");
                    tries += 1;
                }
                other => return other,
            }
        }
    }

    async fn start_once(options: Options) -> Result<Self, Error> {
        let binaries = options.binaries.clone().map_or_else(Binaries::find, Ok)?;
        let directory = Directory::create()?;
        let certificates = Certificates::create(directory.path())?;
        let layout = Layout::new(directory.path(), port::free()?);
        for (path, text) in layout.files(&certificates) {
            fs::write(&path, text).map_err(|source| Error::File { path, source })?;
        }
        let mut config =
            Config::from_custom_kubeconfig(Kubeconfig::read_from(layout.kubeconfig())?, &KubeConfigOptions::default())
                .await?;
        // A test wants to see the first answer, and a launcher its own deadline.
        config.default_retry = false;

        let started = Instant::now();
        let etcd = Process::spawn(ETCD, command(&binaries.etcd, layout.etcd_args()), &layout.etcd_log())?;
        let mut control_plane =
            Self { binaries, options, layout, certificates, config, api_server: Mutex::new(None), etcd, directory };
        if let Err(error) = control_plane.start_api_server().await {
            // An API server without its store only says that it cannot reach it; the store's own words are the cause.
            control_plane.etcd.check_running()?;
            return Err(error);
        }
        tracing::info!(url = control_plane.url(), took = ?started.elapsed(), "Control plane is ready");
        Ok(control_plane)
    }

    /// Stops the API server, then etcd, and removes the directory.
    pub async fn stop(self) -> Result<(), Error> {
        let within = self.options.stop_within;
        if let Some(api_server) = self.api_server.into_inner() {
            api_server.stop(within).await?;
        }
        Ok(self.etcd.stop(within).await?)
    }

    /// Kills the API server, as a crash would; etcd goes on.
    pub async fn kill_api_server(&self) -> Result<(), Error> {
        match self.api_server.lock().await.take() {
            Some(mut api_server) => Ok(api_server.kill()?),
            None => Ok(()),
        }
    }

    /// Starts the API server again on its old port, with its old certificates and store. One that still runs is
    /// stopped first.
    pub async fn restart_api_server(&self) -> Result<(), Error> {
        if let Some(api_server) = self.api_server.lock().await.take() {
            api_server.stop(self.options.stop_within).await?;
        }
        self.start_api_server().await
    }

    /// A client with the administrator's rights. It does not retry, and it belongs to the current tokio runtime:
    /// each test makes its own.
    pub fn client(&self) -> Client {
        match Client::try_from(self.config.clone()) {
            Ok(client) => client,
            Err(error) => unreachable!("the same configuration made a client when the control plane started: {error}"),
        }
    }

    /// The configuration of [`Self::client`], for callers that want to change something in it.
    pub fn client_config(&self) -> &Config {
        &self.config
    }

    /// For kubectl and other programs; its user is an administrator.
    pub fn kubeconfig_path(&self) -> PathBuf {
        self.layout.kubeconfig()
    }

    /// One JSON event per line for each answered request: verb, user agent, object and result.
    fn audit_log_path(&self) -> PathBuf {
        self.layout.audit_log()
    }

    /// The audit log so far, in the order of the answers.
    pub fn audit_events(&self) -> Result<Vec<audit::Event>, Error> {
        audit::read(&self.audit_log_path())
    }

    /// Where the servers' logs lie.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The API server's address.
    pub fn url(&self) -> String {
        self.layout.api_server_url()
    }

    /// The API server's process id, while it runs.
    pub async fn api_server_id(&self) -> Option<u32> {
        self.api_server.lock().await.as_ref().map(Process::id)
    }

    /// Makes a namespace that no other test uses; its name starts with `prefix`.
    pub async fn namespace(&self, prefix: &str) -> Result<String, Error> {
        let metadata = ObjectMeta { generate_name: Some(format!("{prefix}-")), ..ObjectMeta::default() };
        let namespace = Namespace { metadata, ..Namespace::default() };
        Api::all(self.client())
            .create(&PostParams::default(), &namespace)
            .await
            .map(|made| made.name_any())
            .map_err(|source| Error::request(format!("create a namespace {prefix}-*"), source))
    }

    async fn start_api_server(&self) -> Result<(), Error> {
        let args = self.layout.api_server_args(&self.certificates, &self.options);
        let mut server =
            Process::spawn(API_SERVER, command(&self.binaries.api_server, args), &self.layout.api_server_log())?;
        self.wait_until_ready(&mut server).await?;
        *self.api_server.lock().await = Some(server);
        Ok(())
    }

    async fn wait_until_ready(&self, server: &mut Process) -> Result<(), Error> {
        let client = Client::try_from(self.config.clone()).map_err(|source| Error::request("make a client", source))?;
        let within = self.options.ready_within;
        let deadline = Instant::now() + within;
        loop {
            server.check_running()?;
            // The client would log each refused try as an error of its own.
            let probe = probe(&client).with_subscriber(NoSubscriber::new());
            let Err(error) = probe.await else { return Ok(()) };
            if Instant::now() >= deadline {
                let reason = format!("{:#}", anyhow::Error::from(error));
                return Err(Error::NotReady { name: API_SERVER, within, reason, log: server.log_tail() });
            }
            sleep(READY_POLL).await;
        }
    }
}

fn command(program: &Path, args: Vec<String>) -> Command {
    let mut command = Command::new(program);
    command.args(args);
    command
}

/// Ready is when the server says so and the namespace that every cluster has exists, which comes a moment later.
async fn probe(client: &Client) -> Result<(), kube::Error> {
    let request = http::Request::get("/readyz").body(Vec::new()).map_err(kube::Error::HttpError)?;
    client.request_text(request).await?;
    Api::<Namespace>::all(client.clone()).get("default").await.map(drop)
}
