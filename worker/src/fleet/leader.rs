//! Where the leading coordinator is.

use std::time::Duration;

use flotilla_proto::kubernetes;
use flotilla_proto::names::{LEADER_ADDRESS, LEADER_LEASE};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client};

/// A call that takes longer has failed; the next one asks again.
const CALL_WITHIN: Duration = Duration::from_secs(5);

/// The leader can't be found.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server did not return the lease.
    #[error("failed to read lease {LEADER_LEASE}")]
    Read(#[source] kubernetes::Error),
    /// The API server did not answer in time.
    #[error("the API server did not return lease {LEADER_LEASE} in time")]
    TimedOut,
    /// No coordinator has ever led, or the leader has just left.
    #[error("lease {LEADER_LEASE} names no leader")]
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
        let answer = tokio::time::timeout(CALL_WITHIN, self.api.get_opt(LEADER_LEASE)).await;
        let lease =
            answer.map_err(|_| Error::TimedOut)?.map_err(|source| Error::Read(source.into()))?.ok_or(Error::Nobody)?;
        let led =
            lease.spec.as_ref().is_some_and(|spec| spec.holder_identity.as_deref().is_some_and(|h| !h.is_empty()));
        let address = lease.metadata.annotations.and_then(|mut annotations| annotations.remove(LEADER_ADDRESS));
        address.filter(|address| led && !address.is_empty()).ok_or(Error::Nobody)
    }
}
