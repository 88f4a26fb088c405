//! Runs a worker: what is built, what is started, and how it stops.

use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use flotilla_crds::Catalog;
use flotilla_proto::{Tls, WorkerId, timing};
use opentelemetry::global;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::arm::credentials::{self, Resolver};
use crate::arm::{Client, client};
use crate::budget::{self, Budget};
use crate::engine::azure::Azure;
use crate::engine::cluster::Cluster;
use crate::engine::context::{Context, Settings};
use crate::engine::events::Recorder;
use crate::engine::intake::Engine;
use crate::engine::load::Meter;
use crate::engine::object::Policy;
use crate::fleet::Shards;
use crate::fleet::leader::Finder;
use crate::fleet::lease::{Keeper, Timers};
use crate::fleet::stream::{Reports, Stream};
use crate::metrics;

/// Everything that a worker is told.
pub struct Config {
    /// How to reach the API server.
    pub kube: kube::Config,
    /// The pod's name, which is also the worker's.
    pub pod: String,
    /// The lease's times.
    pub timers: Timers,
    /// The engine's settings.
    pub engine: Settings,
    /// The ARM edge's settings.
    pub arm: client::Options,
    /// Mutual TLS with the coordinators, if the fleet uses it.
    pub tls: Option<Tls>,
    /// Where credentials are.
    pub credentials: credentials::Settings,
    /// The spender's times.
    pub budget: budget::Options,
    /// Stopping takes no longer; shorter than the pod's grace period.
    pub stop_within: Duration,
    /// Set while the worker takes part.
    pub ready: watch::Sender<bool>,
}

impl std::fmt::Debug for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Config")
            .field("pod", &self.pod)
            .field("timers", &self.timers)
            .field("engine", &self.engine)
            .field("stop_within", &self.stop_within)
            .finish_non_exhaustive()
    }
}

impl Config {
    /// Reads the environment variables of the operator's settings.
    pub fn from_env(
        kube: kube::Config,
        namespace: &str,
        pod: &str,
        variable: impl Fn(&str) -> Option<String>,
    ) -> anyhow::Result<Self> {
        let set = |key: &str| variable(key).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
        let resync = match set("AZURE_SYNC_PERIOD") {
            None => SyncPeriod(Some(Duration::from_hours(1))),
            Some(text) => text.parse().context("AZURE_SYNC_PERIOD can't be used")?,
        };
        let policy = match set("DEFAULT_RECONCILE_POLICY") {
            None => Policy::Manage,
            Some(text) => text.parse().context("DEFAULT_RECONCILE_POLICY can't be used")?,
        };
        let namespaces = set("AZURE_TARGET_NAMESPACES").unwrap_or_default();
        let namespaces = namespaces.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned);
        let arm = client::Options { pod: pod.to_owned(), ..client::Options::from_env(&variable)? };
        Ok(Self {
            kube,
            pod: pod.to_owned(),
            timers: Timers::default(),
            engine: Settings {
                installation: namespace.to_owned(),
                policy,
                resync: resync.0,
                namespaces: namespaces.collect(),
            },
            budget: budget::Options { time_scale: arm.scale.factor(), ..budget::Options::default() },
            arm,
            tls: None,
            credentials: credentials::Settings::from_env(&variable)?,
            stop_within: timing::STOP_WITHIN,
            ready: watch::Sender::new(false),
        })
    }
}

/// How often an unchanged object is looked at; never if empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SyncPeriod(Option<Duration>);

impl FromStr for SyncPeriod {
    type Err = BadPeriod;

    /// As Go writes durations, `1h30m` or `500ms`, or `never`.
    fn from_str(text: &str) -> Result<Self, BadPeriod> {
        let bad = || BadPeriod(text.to_owned());
        if text.eq_ignore_ascii_case("never") {
            return Ok(Self(None));
        }
        let (mut rest, mut total) = (text, 0.0);
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(bad)?;
            let (number, tail) = rest.split_at(digits);
            let unit_length = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
            let (unit, tail) = tail.split_at(unit_length);
            let seconds = match unit {
                "ms" => 0.001,
                "s" => 1.0,
                "m" => 60.0,
                "h" => 3600.0,
                _ => return Err(bad()),
            };
            total += number.parse::<f64>().map_err(|_| bad())? * seconds;
            rest = tail;
        }
        let period = Duration::try_from_secs_f64(total).map_err(|_| bad())?;
        if period.is_zero() { Err(bad()) } else { Ok(Self(Some(period))) }
    }
}

/// The text is no period.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0:?} is neither a duration like 1h30m nor never")]
struct BadPeriod(String);

/// Messages to the engine and to the leader that may wait. Each is a list or a batch, and both sides take them at once.
const MAILBOX: usize = 256;

/// Runs a worker until `shutdown`, then stops it in order.
pub async fn run(config: Config, shutdown: CancellationToken) -> anyhow::Result<()> {
    let incarnation = uuid::Uuid::new_v4().simple().to_string();
    let worker = WorkerId::new(&config.pod, &incarnation[..8]);
    let namespace = config.engine.installation.clone();
    tracing::info!(%worker, incarnation = worker.incarnation(), %namespace, "Starting a worker");

    let shards = Shards::new();
    let lease = Keeper::start(config.kube.clone(), &namespace, worker.clone(), config.timers, shards.clone())?;
    // Whoever looks again is the retry; a write that is repeated behind our back could outlive its claim.
    let mut kube_config = config.kube;
    kube_config.default_retry = false;
    let kube = kube::Client::try_from(kube_config).context("failed to build the Kubernetes client")?;
    let arm = Client::new(&config.arm).context("failed to build the ARM client")?;
    let (outbox, outgoing) = mpsc::channel(MAILBOX);
    let budget_metrics = budget::Metrics::new(&global::meter("flotilla_worker"));
    let (budget, spender) = Budget::new(config.budget, outbox.clone(), budget_metrics);
    let catalog = Catalog::embedded();
    let cluster = Cluster::new(kube.clone(), catalog);
    let ctx = Arc::new(Context::new(
        config.engine,
        catalog,
        cluster.clone(),
        Azure::new(arm.clone(), budget.clone()),
        Recorder::new(cluster, &config.pod),
        shards.clone(),
        Resolver::new(kube.clone(), arm, config.credentials),
    ));
    metrics::show(Arc::clone(&ctx) as Arc<dyn metrics::Gauges>);

    let (events, inbox) = mpsc::channel(MAILBOX);
    let (interest, interest_list) = watch::channel(Vec::new());
    let engine = Engine::new(Arc::clone(&ctx), inbox, interest, outbox);
    let stream = Stream {
        worker: worker.clone(),
        shards: shards.clone(),
        finder: Finder::new(kube, &namespace),
        tls: config.tls,
        losses: lease.losses(),
        events,
        reports: Reports { interest: interest_list, outgoing, load: load(&ctx) },
        budget: Arc::new(move |message| budget.receive(&message)),
        connected: metrics::connected(),
    };

    // Each of these runs as long as the worker: whichever ends first takes the worker down in order, and its shards go to
    // workers that are whole.
    let [stop_engine, stop_stream, stop_spender] = [(); 3].map(|()| CancellationToken::new());
    let grace = config.stop_within.saturating_sub(timing::STOP_FAREWELL);
    let mut engine = tokio::spawn(engine.run(stop_engine.clone(), grace));
    let mut stream = tokio::spawn(stream.run(stop_stream.clone()));
    let mut spender = tokio::spawn(spender.run(stop_spender.clone()));
    config.ready.send_replace(true);
    let ended = tokio::select! {
        () = shutdown.cancelled() => None,
        ended = &mut engine => Some(("engine", ended)),
        ended = &mut stream => Some(("stream", ended)),
        ended = &mut spender => Some(("spender", ended)),
    };
    let failed = ended.map(|(task, ended)| anyhow::anyhow!("the {task} ended by itself: {ended:?}"));

    tracing::info!(%worker, "Stopping");
    config.ready.send_replace(false);
    let stopping = async {
        shards.close();
        stop_engine.cancel();
        if !engine.is_finished() {
            let _ = engine.await;
        }
        stop_stream.cancel();
        if !stream.is_finished() {
            let _ = stream.await;
        }
        stop_spender.cancel();
        lease.vacate().await;
    };
    if tokio::time::timeout(config.stop_within, stopping).await.is_err() {
        tracing::warn!(%worker, "Did not stop in time; the lease runs out by itself");
    }
    tracing::info!(%worker, "Stopped");
    failed.map_or(Ok(()), Err)
}

/// The load report as the stream asks for it.
fn load(ctx: &Arc<Context>) -> Arc<dyn Fn() -> flotilla_proto::v1::LoadReport + Send + Sync> {
    let (ctx, meter) = (Arc::clone(ctx), Mutex::new(Meter::default()));
    Arc::new(move || {
        let held = ctx.shards.held();
        meter.lock().unwrap_or_else(PoisonError::into_inner).report(&mut ctx.records(), &held)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sync_periods_are_go_durations_or_never() {
        let period = |text: &str| text.parse::<SyncPeriod>();
        assert_eq!(period("1h"), Ok(SyncPeriod(Some(Duration::from_hours(1)))));
        assert_eq!(period("1h30m"), Ok(SyncPeriod(Some(Duration::from_mins(90)))));
        assert_eq!(period("3600000ms"), Ok(SyncPeriod(Some(Duration::from_hours(1)))));
        assert_eq!(period("1.5s"), Ok(SyncPeriod(Some(Duration::from_millis(1500)))));
        assert_eq!(period("never"), Ok(SyncPeriod(None)));
        for bad in ["", "0s", "1", "h", "1d", "-1h"] {
            assert!(period(bad).is_err(), "{bad}");
        }
    }
}
