//! How many calls armsim answers on one core: it runs in a thread of its own, whose CPU time is measured, and clients beside
//! it call as fast as they can over TLS with keep-alive.

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use serde_json::{Value, json};

use super::{Armsim, Control, DEMO_CLIENT_ID, DEMO_CLIENT_SECRET, DEMO_SUBSCRIPTION, DEMO_TENANT, Options};

/// How much load.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// Resources that exist at the start.
    pub resources: usize,
    /// Clients, each with a connection of its own.
    pub clients: usize,
    /// How long they call.
    pub time: Duration,
}

/// What was measured.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Resources that were there before.
    pub resources: usize,
    /// Calls that were answered with success; all were.
    pub calls: u64,
    /// Calls in a second of real time, with clients on the same machine.
    pub calls_per_second: f64,
    /// CPU seconds that armsim's thread used.
    pub server_cpu_seconds: f64,
    /// Calls for a CPU second of armsim's: what one core can do.
    pub calls_per_core_second: f64,
    /// The slowest of a hundred calls, in milliseconds.
    pub p99_millis: f64,
}

/// Runs armsim under load. Of ten calls, eight read a resource, one writes one and one deletes one.
pub async fn run(load: Load) -> Result<Report> {
    let server = Server::start()?;
    let per_group = 100;
    let groups = load.resources.div_ceil(per_group + 1);
    server.control.populate(DEMO_SUBSCRIPTION, groups, per_group);
    let resources = server.control.counts().resources;
    let client = client(&server.ca)?;
    let token = token(&client, &server.endpoint).await?;
    let calls = Arc::new(AtomicU64::new(0));
    let (cpu_before, started) = (server.cpu()?, Instant::now());
    let mut tasks = Vec::new();
    for number in 0..load.clients {
        let caller = Caller {
            http: self::client(&server.ca)?,
            endpoint: server.endpoint.clone(),
            token: token.clone(),
            number,
            groups,
            per_group,
        };
        let calls = Arc::clone(&calls);
        tasks.push(tokio::spawn(async move { caller.call_until(started + load.time, &calls).await }));
    }
    let mut times = Vec::new();
    for task in tasks {
        times.extend(task.await.context("a client panicked")??);
    }
    let elapsed = started.elapsed().as_secs_f64();
    let server_cpu_seconds = server.cpu()? - cpu_before;
    times.sort_unstable();
    let p99 = times.get(times.len() * 99 / 100).copied().unwrap_or_default();
    let calls = calls.load(Ordering::Relaxed);
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52 calls")]
    let count = calls as f64;
    Ok(Report {
        resources,
        calls,
        calls_per_second: count / elapsed,
        server_cpu_seconds,
        calls_per_core_second: count / server_cpu_seconds,
        p99_millis: p99.as_secs_f64() * 1e3,
    })
}

/// Armsim in a thread of its own, with a runtime that uses no other.
struct Server {
    control: Control,
    endpoint: String,
    ca: Vec<u8>,
    /// Where the kernel counts the thread's CPU time.
    schedstat: String,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Server {
    fn start() -> Result<Self> {
        let (started, wait) = mpsc::channel();
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let thread = std::thread::Builder::new().name("armsim".into()).spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let Ok(runtime) = runtime else { return };
            runtime.block_on(async move {
                let options = Options { rates: None, ..Options::default() };
                let armsim = match Armsim::start(options).await {
                    Ok(armsim) => armsim,
                    Err(error) => {
                        let _ = started.send(Err(error.into()));
                        return;
                    }
                };
                let facts = || -> Result<_> {
                    let thread = fs::read_link("/proc/thread-self").context("failed to find the thread in /proc")?;
                    Ok((armsim.control(), armsim.endpoint().to_owned(), fs::read(armsim.ca_pem_path())?, thread))
                };
                let _ = started.send(facts());
                let _ = stopped.await;
                armsim.stop().await;
            });
        })?;
        let (control, endpoint, ca, place) = wait.recv().context("armsim's thread ended")??;
        let schedstat = format!("/proc/{}/schedstat", place.display());
        Ok(Self { control, endpoint, ca, schedstat, stop: Some(stop), thread: Some(thread) })
    }

    /// CPU seconds that the thread has used.
    fn cpu(&self) -> Result<f64> {
        let text = fs::read_to_string(&self.schedstat).context("failed to read the thread's CPU time")?;
        let nanos: u64 = text.split_whitespace().next().context("no CPU time")?.parse()?;
        Ok(Duration::from_nanos(nanos).as_secs_f64())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Caller {
    http: reqwest::Client,
    endpoint: String,
    token: String,
    number: usize,
    groups: usize,
    per_group: usize,
}

impl Caller {
    async fn call_until(&self, end: Instant, calls: &AtomicU64) -> Result<Vec<Duration>> {
        let mut times = Vec::new();
        let mut round = self.number * 7919;
        while Instant::now() < end {
            for step in 0..10 {
                round += 1;
                let started = Instant::now();
                self.call(step, round).await?;
                times.push(started.elapsed());
                calls.fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(times)
    }

    async fn call(&self, step: usize, round: usize) -> Result<()> {
        let group = format!(
            "{}/subscriptions/{DEMO_SUBSCRIPTION}/resourceGroups/load-{:04}",
            self.endpoint,
            round % self.groups
        );
        let identity = format!(
            "{group}/providers/Microsoft.ManagedIdentity/userAssignedIdentities/load-{}-{}?api-version=2023-01-31",
            self.number,
            round % 50
        );
        let vnet = round / self.groups % self.per_group;
        let vnet = format!("{group}/providers/Microsoft.Network/virtualNetworks/vnet-{vnet:04}?api-version=2025-03-01");
        let request = match step {
            0 => self.http.put(&identity).body(r#"{"location":"westus2","tags":{"load":"yes"}}"#),
            1 => self.http.delete(&identity),
            _ => self.http.get(&vnet),
        };
        let response = request.bearer_auth(&self.token).header("content-type", "application/json").send().await?;
        let status = response.status();
        ensure!(status.is_success(), "step {step} was answered with {status}");
        response.bytes().await?;
        Ok(())
    }
}

fn client(ca: &[u8]) -> Result<reqwest::Client> {
    let certificate = reqwest::Certificate::from_pem(ca)?;
    Ok(reqwest::Client::builder().tls_certs_only([certificate]).no_proxy().user_agent("armsim-load").build()?)
}

async fn token(client: &reqwest::Client, endpoint: &str) -> Result<String> {
    let form = format!(
        "grant_type=client_credentials&client_id={DEMO_CLIENT_ID}&client_secret={DEMO_CLIENT_SECRET}&scope=https%3A%2F%2Fmanagement.azure.com%2F.default"
    );
    let request = client.post(format!("{endpoint}/{DEMO_TENANT}/oauth2/v2.0/token")).body(form);
    let response = request.header("content-type", "application/x-www-form-urlencoded").send().await?;
    let body: Value = serde_json::from_slice(&response.bytes().await?).unwrap_or_else(|_| json!({}));
    body["access_token"].as_str().map(str::to_owned).context("no token was issued")
}
