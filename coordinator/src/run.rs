//! The coordinator's life: serve, stand by, lead, step down, stop.
//!
//! Stopping reads: the door is closed, streams end, the term's work ends, the lease is vacated, the server stops. A lost
//! lease drops the term's work at once, without asking it.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

use flotilla_crds::Catalog;
use flotilla_proto::Term;
use flotilla_proto::task::{self, Kind, Process};
use kube::Client;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::budget;
use crate::config::Config;
use crate::crd_install::Installer;
use crate::election::{Campaign, Held};
use crate::installed::Installed;
use crate::kinds::Discovery;
use crate::leader::{self, Context, Inputs, Leader, Outputs};
use crate::metrics::Metrics;
use crate::server::{self, Door};
use crate::store::{Kubernetes, Store};
use crate::wake::Wanted;
use crate::watches;

/// Names of changed Secrets and ConfigMaps on their way to the loop; the watch waits for room.
const CHANGED: usize = 256;

/// What a coordinator is at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Ready to take over.
    Standby,
    /// Leads since this term.
    Leader(Term),
}

/// A coordinator could not go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No client could be made from the configuration.
    #[error("failed to build the Kubernetes client")]
    Client(#[source] kube::Error),
    /// The gRPC port can't be had.
    #[error("failed to listen on {address}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Cause.
        #[source]
        source: std::io::Error,
    },
    /// A task ended that a coordinator can't do without.
    #[error(transparent)]
    Task(#[from] task::Failed),
}

/// A coordinator that can be run.
#[derive(Debug)]
pub struct Coordinator {
    config: Config,
    role: watch::Sender<Role>,
}

impl Coordinator {
    /// Prepares one.
    pub fn new(config: Config) -> Self {
        Self { config, role: watch::Sender::new(Role::Standby) }
    }

    /// Follows what it is; both roles are ready to serve.
    pub fn role(&self) -> watch::Receiver<Role> {
        self.role.subscribe()
    }

    /// Runs until told to stop.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), Error> {
        let Self { config, role } = self;
        let failed = |source| Error::Listen { address: config.listen, source };
        let listener = TcpListener::bind(config.listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let advertised = config.advertise.clone().unwrap_or_else(|| address.to_string());
        let identity = format!("{}/{:08x}", config.pod, random());

        // Leases must not wait behind other calls, nor be sent again by the client when their time has passed.
        let mut plain = config.kube.clone();
        plain.default_retry = false;
        let plain = Client::try_from(plain).map_err(Error::Client)?;
        let client = Client::try_from(config.kube.clone()).map_err(Error::Client)?;
        let store: Arc<dyn Store> = Arc::new(Kubernetes::new(plain, &config.namespace));

        let meter = opentelemetry::global::meter("flotilla-coordinator");
        let metrics = Metrics::new(&meter);
        metrics.leading(false);
        let door = watch::Sender::new(Door::Closed { leader: None });
        let process = Process::new(&shutdown);
        let server =
            server::Server { listener, tls: config.tls.clone(), door: door.subscribe(), process: process.clone() };
        let serving = process.start(Kind::FleetServer, |stop| server.run(stop));
        tracing::info!(%address, %advertised, %identity, "Coordinator is serving");

        let campaign = Campaign::new(store.clone(), config.election, identity.clone(), advertised);
        let context = Context {
            store,
            settings: config.fleet,
            budget: config.budget,
            read_leases_every: config.read_leases_every,
            keep_leases_for: config.keep_leases_for,
            identity,
            budget_metrics: budget::Metrics::new(&meter),
            metrics,
        };
        let terms = Terms { config, context, campaign, client, door, role, process: process.clone() };
        terms.run().await;
        serving.stop().await;
        Ok(process.outcome()?)
    }
}

/// One term after another.
struct Terms {
    config: Config,
    context: Context,
    campaign: Campaign,
    client: Client,
    door: watch::Sender<Door>,
    role: watch::Sender<Role>,
    process: Process,
}

impl Terms {
    async fn run(&self) {
        let shutdown = self.process.stopping();
        loop {
            let saw = |leader| {
                self.door.send_if_modified(|door| {
                    let changed = !matches!(door, Door::Closed { leader: known } if *known == leader);
                    if changed {
                        *door = Door::Closed { leader };
                    }
                    changed
                });
            };
            let mut held = tokio::select! {
                () = shutdown.cancelled() => return,
                held = self.campaign.win(saw) => held,
            };
            tracing::info!(term = %held.term, "Became leader");
            self.role.send_replace(Role::Leader(held.term));
            self.context.metrics.leading(true);
            let kept = self.term(&mut held, shutdown).await;
            self.door.send_replace(Door::Closed { leader: None });
            self.role.send_replace(Role::Standby);
            self.context.metrics.leading(false);
            if kept {
                self.campaign.vacate(&held).await;
            } else {
                tracing::warn!(term = %held.term, "Stepped down: lost the lease");
            }
            if shutdown.is_cancelled() {
                return;
            }
            // A term that ended early should not begin again at once and keep a standby from trying.
            tokio::time::sleep(self.config.election.retry_every).await;
        }
    }

    /// One term. Says whether the lease is still ours at its end.
    async fn term(&self, held: &mut Held, shutdown: &CancellationToken) -> bool {
        let stop = shutdown.child_token();
        let (kept, ended) = {
            let leading = self.lead(held.term, &stop);
            let mut leading = std::pin::pin!(leading);
            let term = held.term;
            tokio::select! {
                // Renewing comes first: it decides whether anything else may go on.
                biased;
                kept = self.campaign.hold(held, &stop) => (kept, None),
                ended = &mut leading => (true, Some((term, ended))),
            }
            // The term's future is dropped here, and with it all of its tasks and streams.
        };
        stop.cancel();
        if let Some((term, Err(error))) = ended {
            tracing::warn!(%term, error = &error as &dyn std::error::Error, "Stepped down: the term ended");
        }
        kept
    }

    async fn lead(&self, term: Term, stop: &CancellationToken) -> Result<(), leader::Error> {
        // Dropped with this future, which ends the streams.
        let closed = stop.child_token();
        let _close = closed.clone().drop_guard();
        let (reported, reports) = watch::channel(BTreeSet::new());
        let (wanted, wants) = watch::channel(Wanted::default());
        let outputs = Outputs { reported, wanted };
        let (leader, map) = Leader::begin(self.context.clone(), term, outputs).await?;

        let known = map.as_ref().map(|map| map.kinds.clone()).unwrap_or_default();
        let (kinds, kinds_seen) = watch::channel(known);
        let (namespaces, namespaces_seen) = watch::channel(BTreeSet::new());
        let (names, changed) = mpsc::channel(CHANGED);
        let (installed, installed_seen) = watch::channel(Installed::default());
        let incoming = Door::open(&self.door, closed);
        let inputs = Inputs { incoming, kinds: kinds_seen, namespaces: namespaces_seen, changed };

        let catalog = Catalog::embedded();
        let metrics = self.context.metrics.clone();
        let discovery = Discovery {
            client: self.client.clone(),
            catalog,
            settings: self.config.kinds,
            metrics: metrics.clone(),
            installed: installed_seen,
            reported: reports,
            kinds,
        };
        let (pattern, versions) = (self.config.crd_pattern.clone(), self.config.crd_versions);
        let first_round = map.is_none();
        let crds = Installer {
            client: self.client.clone(),
            catalog,
            pattern,
            versions,
            metrics,
            installed,
            process: self.process.clone(),
        };
        let manage = self.config.manage_crds;
        // All end with this future.
        let _tasks = [
            self.process.start(Kind::KindDiscovery, |_| discovery.run(first_round)),
            self.process.start(Kind::CrdInstaller, |_| async move {
                if manage { crds.run().await } else { crds.follow().await }
            }),
            self.process.start(Kind::NamespaceWatch, |_| watches::namespaces(self.client.clone(), namespaces)),
            self.process.start(Kind::ReferenceWatch, |_| watches::references(self.client.clone(), wants, names)),
        ];
        leader.run(inputs, stop.clone()).await
    }
}

/// Tells two starts of one pod apart.
fn random() -> u32 {
    use std::hash::{BuildHasher, Hasher};
    let hash = std::collections::hash_map::RandomState::new().build_hasher().finish();
    u32::try_from(hash >> 32).unwrap_or_default()
}
