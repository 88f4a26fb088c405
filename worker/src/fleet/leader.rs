//! Where the leading coordinator is.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client};

/// The leader's lease.
pub const LEASE: &str = "flotilla-coordinator";
/// Annotation of that lease with the leader's gRPC address.
pub const ADDRESS: &str = "flotilla.dev/address";

/// The leader can't be found.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server did not show the lease.
    #[error("failed to read lease {LEASE}")]
    Read(#[source] kube::Error),
    /// The API server did not answer in time.
    #[error("no answer to reading lease {LEASE}")]
    TimedOut,
    /// No coordinator has ever led, or the leader has just left.
    #[error("lease {LEASE} names no leader")]
    Nobody,
}

/// Finds the leader by the annotation on its lease.
#[derive(Clone, Debug)]
pub struct Finder {
    api: Api<Lease>,
}

impl Finder {
    /// Looks in the operator's namespace.
    pub fn new(client: Client, namespace: &str) -> Self {
        Self { api: Api::namespaced(client, namespace) }
    }

    /// The leader's address, host and port, as it stands in the lease. It may be out of date: then connecting fails.
    pub async fn find(&self) -> Result<String, Error> {
        let answer = tokio::time::timeout(Duration::from_secs(5), self.api.get_opt(LEASE)).await;
        let lease = answer.map_err(|_| Error::TimedOut)?.map_err(Error::Read)?.ok_or(Error::Nobody)?;
        let led =
            lease.spec.as_ref().is_some_and(|spec| spec.holder_identity.as_deref().is_some_and(|h| !h.is_empty()));
        let address = lease.metadata.annotations.and_then(|mut annotations| annotations.remove(ADDRESS));
        address.filter(|address| led && !address.is_empty()).ok_or(Error::Nobody)
    }
}
