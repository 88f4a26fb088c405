//! A real Prometheus on a free loopback port, which scrapes a fleet as one in a cluster would.
//!
//! The targets stand in a file that Prometheus watches, so they may come and go. It is gone with its handle or our process.

pub mod dashboard;

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use serde::Deserialize;
use serde_json::json;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;
use tokio::time::{Instant, sleep};

use crate::port;
use crate::process::Process;
use crate::tools;

const POLL: Duration = Duration::from_millis(100);
/// A start replays nothing here, so longer than this means that it will not come up.
const START_WITHIN: Duration = Duration::from_secs(30);
const STOP_WITHIN: Duration = Duration::from_secs(5);

/// A member of the fleet whose metrics are scraped.
#[derive(Clone, Debug)]
pub struct Target {
    /// The pod's name.
    pub pod: String,
    /// Where it serves `/metrics`.
    pub address: SocketAddr,
}

impl From<(String, SocketAddr)> for Target {
    fn from((pod, address): (String, SocketAddr)) -> Self {
        Self { pod, address }
    }
}

/// One series of an answer and its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Its labels, with `__name__` if the query kept it.
    pub labels: BTreeMap<String, String>,
    /// Its value at the time of the query.
    pub value: f64,
}

/// A running server.
#[derive(Debug)]
pub struct Prometheus {
    process: Process,
    address: SocketAddr,
    /// Its files; they go with it.
    _dir: TempDir,
    http: reqwest::Client,
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    data: serde_json::Value,
    #[serde(default)]
    error: String,
}

#[derive(Deserialize)]
struct Series {
    metric: BTreeMap<String, String>,
    value: (f64, String),
}

impl Prometheus {
    /// Starts a server that scrapes `targets` so often; `namespace` is the label that a cluster would give them.
    pub async fn start(namespace: &str, targets: &[Target], every: Duration) -> Result<Self> {
        let dir = tempfile::tempdir().context("failed to make a directory for Prometheus")?;
        let [port] = port::free()?;
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let every = format!("{}ms", every.as_millis());
        let config = json!({
            "global": {"scrape_interval": every, "scrape_timeout": every},
            "scrape_configs": [{
                "job_name": "flotilla",
                "file_sd_configs": [{"files": [dir.path().join("targets.json")], "refresh_interval": "1s"}],
            }],
        });
        // YAML is a superset of JSON.
        fs::write(dir.path().join("prometheus.yml"), config.to_string()).context("failed to configure Prometheus")?;
        write_targets(dir.path(), namespace, targets)?;
        let mut command = Command::new(tools::find("prometheus")?);
        command
            .arg(format!("--config.file={}", dir.path().join("prometheus.yml").display()))
            .arg(format!("--storage.tsdb.path={}", dir.path().join("data").display()))
            .arg(format!("--web.listen-address={address}"));
        let process = Process::spawn("prometheus", command, &dir.path().join("log"))?;
        let http = reqwest::Client::builder().timeout(Duration::from_secs(10)).build()?;
        let mut prometheus = Self { process, address, _dir: dir, http };
        prometheus.wait_until_ready().await?;
        Ok(prometheus)
    }

    async fn wait_until_ready(&mut self) -> Result<()> {
        let deadline = Instant::now() + START_WITHIN;
        let url = format!("{}/-/ready", self.url());
        loop {
            self.process.check_running()?;
            let answer = self.http.get(&url).send().await;
            if answer.is_ok_and(|answer| answer.status().is_success()) {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "Prometheus was not ready within {START_WITHIN:?}:\n{}", self.log());
            sleep(POLL).await;
        }
    }

    /// The address of its web pages.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Waits until each target was scraped so many times, the last time with success.
    pub async fn wait_for_scrapes(&self, targets: &[Target], scrapes: u32, within: Duration) -> Result<()> {
        let deadline = Instant::now() + within;
        let query = format!("count_over_time(up[1h]) >= {scrapes} and up == 1");
        loop {
            let up = self.query(&query).await?;
            let is_up = |target: &&Target| up.iter().any(|s| s.labels.get("pod").is_some_and(|pod| *pod == target.pod));
            let missing: Vec<&str> = targets.iter().filter(|t| !is_up(t)).map(|target| target.pod.as_str()).collect();
            if missing.is_empty() {
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!("within {within:?} Prometheus did not scrape {} {scrapes} times", missing.join(", "));
            }
            sleep(POLL).await;
        }
    }

    /// What a query gives now: one sample per series, or a single one without labels for a scalar.
    pub async fn query(&self, query: &str) -> Result<Vec<Sample>> {
        let data = self.get("query", &[("query", query)]).await.with_context(|| format!("failed to query {query}"))?;
        match data["resultType"].as_str() {
            Some("vector") => {
                let series: Vec<Series> = serde_json::from_value(data["result"].clone())?;
                series.into_iter().map(sample).collect()
            }
            Some("scalar") => {
                let value = serde_json::from_value(data["result"].clone())?;
                Ok(vec![sample(Series { metric: BTreeMap::new(), value })?])
            }
            other => bail!("{query} gives {other:?} and not a vector"),
        }
    }

    async fn get(&self, path: &str, parameters: &[(&str, &str)]) -> Result<serde_json::Value> {
        let mut url = reqwest::Url::parse(&format!("{}/api/v1/{path}", self.url()))?;
        url.query_pairs_mut().extend_pairs(parameters);
        let answer: Answer = self.http.get(url).send().await?.json().await?;
        ensure!(answer.error.is_empty(), "{}", answer.error);
        Ok(answer.data)
    }

    /// The end of its log.
    fn log(&self) -> String {
        self.process.log_tail()
    }

    /// Stops it.
    pub async fn stop(self) -> Result<()> {
        Ok(self.process.stop(STOP_WITHIN).await?)
    }
}

/// Asks `promtool` whether this is well-formed text of metrics that follow Prometheus' conventions.
pub async fn check_metrics(text: &str) -> Result<()> {
    let program = tools::find("promtool")?;
    let mut child = tokio::process::Command::new(program)
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("failed to start promtool")?;
    let mut input = child.stdin.take().context("promtool takes no input")?;
    input.write_all(text.as_bytes()).await?;
    drop(input);
    let output = child.wait_with_output().await?;
    let said = [output.stdout, output.stderr].concat();
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&said));
    Ok(())
}

fn sample(series: Series) -> Result<Sample> {
    let value = series.value.1.parse().with_context(|| format!("{} is not a number", series.value.1))?;
    Ok(Sample { labels: series.metric, value })
}

/// Written beside its place and moved there, since Prometheus may read at any moment.
fn write_targets(dir: &Path, namespace: &str, targets: &[Target]) -> Result<()> {
    let groups: Vec<_> = targets
        .iter()
        .map(|target| {
            let labels = json!({"namespace": namespace, "pod": target.pod});
            json!({"targets": [target.address.to_string()], "labels": labels})
        })
        .collect();
    let (new, place) = (dir.join("targets.json.new"), dir.join("targets.json"));
    fs::write(&new, json!(groups).to_string()).context("failed to write Prometheus' targets")?;
    fs::rename(new, place).context("failed to replace Prometheus' targets")
}
