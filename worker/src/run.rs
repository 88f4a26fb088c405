//! Runs a worker: what is built, what is started, and how it stops.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use flotilla_crds::Catalog;
use flotilla_proto::task::{Kind as TaskKind, Process};
use flotilla_proto::{Tls, WorkerId, timing};
use opentelemetry::global;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::arm::credentials::{self, Resolver};
use crate::arm::{Client, client};
use crate::budget::{self, Budget};
use crate::engine::azure::Azure;
use crate::engine::cluster::Cluster;
use crate::engine::context::{self, Context, Settings};
use crate::engine::events::Recorder;
use crate::engine::intake::Engine;
use crate::engine::load::Meter;
use crate::engine::object::Policy;
use crate::fleet::Shards;
use crate::fleet::leader::Finder;
use crate::fleet::lease::{Keeper, Timers};
use crate::fleet::stream::{Reports, Stream};
use crate::metrics::{self, Metrics};

/// The settings of a worker.
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
    /// A worker named `pod` of the operator in `namespace`, with the defaults of all that is not given.
    pub fn new(
        kube: kube::Config,
        namespace: &str,
        pod: &str,
        arm: client::Options,
        credentials: credentials::Settings,
    ) -> Self {
        Self {
            kube,
            pod: pod.to_owned(),
            timers: Timers::default(),
            engine: Settings {
                installation: namespace.to_owned(),
                policy: Policy::Manage,
                resync: Some(Duration::from_hours(1)),
                namespaces: Vec::new(),
            },
            budget: budget::Options { time_scale: arm.scale.factor(), ..budget::Options::default() },
            arm: client::Options { pod: pod.to_owned(), ..arm },
            tls: None,
            credentials,
            stop_within: timing::STOP_WITHIN,
            ready: watch::Sender::new(false),
        }
    }
}

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
    // The retry is the next reconcile; a write that the client repeats on its own could outlive its claim.
    let mut kube_config = config.kube;
    kube_config.default_retry = false;
    let kube = kube::Client::try_from(kube_config).context("failed to build the Kubernetes client")?;
    let arm = Client::new(&config.arm).context("failed to build the ARM client")?;
    let (outbox, outgoing) = mpsc::channel(MAILBOX);
    let meter = global::meter("flotilla_worker");
    let (budget, spender) = Budget::new(config.budget, outbox.clone(), budget::Metrics::new(&meter));
    let metrics = Arc::new(Metrics::new(&meter));
    let process = Process::new(&shutdown);
    let catalog = Catalog::embedded();
    let cluster = Cluster::new(kube.clone(), catalog, Arc::clone(&metrics));
    let ctx = Arc::new(Context::new(context::Parts {
        settings: config.engine,
        catalog,
        cluster: cluster.clone(),
        azure: Azure::new(arm.clone(), budget.clone(), Arc::clone(&metrics)),
        recorder: Recorder::new(cluster, &config.pod, process.clone(), Arc::clone(&metrics)),
        shards: shards.clone(),
        resolver: Resolver::new(kube.clone(), arm, config.credentials),
        metrics,
        process: process.clone(),
    }));
    metrics::show(&meter, Arc::clone(&ctx) as Arc<dyn metrics::Gauges>);

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
        connected: metrics::connected(&meter),
    };

    let grace = config.stop_within.saturating_sub(timing::STOP_FAREWELL);
    let engine = process.start(TaskKind::Engine, |stop| engine.run(stop, grace));
    let stream = process.start(TaskKind::LeaderStream, |stop| stream.run(stop));
    let spender = process.start(TaskKind::BudgetSpender, |stop| spender.run(stop));
    config.ready.send_replace(true);
    process.stopping().cancelled().await;

    tracing::info!(%worker, "Stopping");
    config.ready.send_replace(false);
    let stopping = async {
        shards.close();
        engine.stop().await;
        stream.stop().await;
        spender.cancel();
        lease.vacate().await;
    };
    if tokio::time::timeout(config.stop_within, stopping).await.is_err() {
        tracing::warn!(%worker, "Failed to stop in time; the lease will expire");
    }
    tracing::info!(%worker, "Stopped");
    Ok(process.outcome()?)
}

/// The load report as the stream asks for it.
fn load(ctx: &Arc<Context>) -> Arc<dyn Fn() -> flotilla_proto::v1::LoadReport + Send + Sync> {
    let (ctx, meter) = (Arc::clone(ctx), Mutex::new(Meter::new(Instant::now())));
    Arc::new(move || {
        let held = ctx.shards.held();
        meter.lock().unwrap_or_else(PoisonError::into_inner).report(&mut ctx.records(), &held, Instant::now())
    })
}
