//! What a term is given, what it gives, and why it may end early.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use flotilla_proto::{GroupKind, Term};
use tokio::sync::{mpsc, watch};

use crate::budget;
use crate::fleet::Settings;
use crate::metrics::Metrics;
use crate::server::Incoming;
use crate::store::{self, Store};
use crate::wake::{ObjectName, Wanted};

/// What a term needs from outside.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) settings: Settings,
    pub(crate) budget: budget::Options,
    /// How often the workers' leases are read.
    pub(crate) read_leases_every: Duration,
    /// How long the lease of a worker that has gone is kept.
    pub(crate) keep_leases_for: Duration,
    /// Our name in Welcome and on fenced leases.
    pub(crate) identity: String,
    pub(crate) metrics: Metrics,
    pub(crate) budget_metrics: budget::Metrics,
}

/// What comes in beside the workers' messages.
#[derive(Debug)]
pub(crate) struct Inputs {
    pub(crate) incoming: mpsc::Receiver<Incoming>,
    /// Kinds that have objects, from discovery.
    pub(crate) kinds: watch::Receiver<BTreeSet<GroupKind>>,
    /// Namespaces that exist, by hash.
    pub(crate) namespaces: watch::Receiver<BTreeSet<u64>>,
    /// Secrets and ConfigMaps that changed.
    pub(crate) changed: mpsc::Receiver<ObjectName>,
}

/// What others hear of the term.
#[derive(Debug)]
pub(crate) struct Outputs {
    /// Kinds that workers report objects of.
    pub(crate) reported: watch::Sender<BTreeSet<GroupKind>>,
    /// Which core kinds somebody waits for.
    pub(crate) wanted: watch::Sender<Wanted>,
}

/// Why a term ended early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// Another leader wrote the map.
    #[error("another leader of term {term} wrote the shard map")]
    Superseded {
        /// Its term.
        term: Term,
    },
    /// The map could not be read at the start.
    #[error("failed to begin a term")]
    Begin(#[source] store::Error),
}
