//! The settings of a coordinator.

use std::net::SocketAddr;
use std::time::Duration;

use flotilla_crds::Pattern;
use flotilla_proto::{Tls, timing};

use crate::crd_install::Versions;
use crate::{budget, election, fleet, kinds};

/// Everything a coordinator needs to know. The defaults give a crash take-over in under 10 s.
#[derive(Clone, Debug)]
pub struct Config {
    /// How to reach the API server.
    pub kube: kube::Config,
    /// The operator's namespace: leases and shard map.
    pub namespace: String,
    /// Our pod's name.
    pub pod: String,
    /// Where the gRPC server listens; port 0 takes any.
    pub listen: SocketAddr,
    /// The address that we announce to workers; the listening address if not given.
    pub advertise: Option<String>,
    /// Mutual TLS with the workers.
    pub tls: Option<Tls>,
    /// Whether the leader writes CRDs. Otherwise it only follows which exist.
    pub manage_crds: bool,
    /// The kinds to install.
    pub crd_pattern: Pattern,
    /// How many versions of each.
    pub crd_versions: Versions,
    /// Times of the election.
    pub election: election::Timers,
    /// Times of membership, hand-off and placement.
    pub fleet: fleet::Settings,
    /// Times and rates of the budget.
    pub budget: budget::Options,
    /// How discovery finds kinds with objects.
    pub kinds: kinds::Settings,
    /// How often the workers' leases are read.
    pub read_leases_every: Duration,
    /// How long the lease of a worker that has gone is kept.
    pub keep_leases_for: Duration,
}

impl Config {
    /// A coordinator with default times that installs no kind.
    pub fn new(kube: kube::Config, namespace: &str, pod: &str, listen: SocketAddr) -> Self {
        Self {
            kube,
            namespace: namespace.to_owned(),
            pod: pod.to_owned(),
            listen,
            advertise: None,
            tls: None,
            manage_crds: true,
            crd_pattern: Pattern::default(),
            crd_versions: Versions::default(),
            election: election::Timers::default(),
            fleet: fleet::Settings::default(),
            budget: budget::Options::default(),
            kinds: kinds::Settings::default(),
            read_leases_every: timing::LEASES_READ_EVERY,
            keep_leases_for: timing::LEASES_KEPT_FOR,
        }
    }
}
