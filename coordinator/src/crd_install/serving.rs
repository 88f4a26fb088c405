//! Which CRDs the API server serves: what is accepted is served seconds later, when its controllers got round to it.
//!
//! Its discovery document tells, in one request for all; the CRDs themselves have tens of megabytes. It is asked only while
//! somebody waits.

use std::collections::BTreeSet;
use std::time::Duration;

use kube::Client;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::task::AbortOnDropHandle;

/// Between two questions.
const ASK_EVERY: Duration = Duration::from_millis(500);
/// A CRD that is not served after so long has a name that another one has, or the API server is in trouble.
const SERVED_WITHIN: Duration = Duration::from_mins(2);

/// What is served, for as long as it is kept.
pub(super) struct Serving {
    names: watch::Receiver<BTreeSet<String>>,
    _asks: AbortOnDropHandle<()>,
}

impl Serving {
    /// Asks for the first time.
    pub(super) async fn begin(client: Client) -> Result<Self, kube::Error> {
        let (seen, names) = watch::channel(ask(&client).await?);
        let asks = tokio::spawn(async move {
            loop {
                sleep(ASK_EVERY).await;
                // One is ours; each of the others waits.
                if seen.receiver_count() < 2 {
                    continue;
                }
                match ask(&client).await {
                    Ok(names) => drop(seen.send_replace(names)),
                    Err(error) => {
                        tracing::debug!(error = &error as &dyn std::error::Error, "Did not learn what is served");
                    }
                }
            }
        });
        Ok(Self { names, _asks: AbortOnDropHandle::new(asks) })
    }

    /// Waits until a CRD is served. Says whether it is.
    pub(super) async fn serves(&self, name: &str) -> bool {
        if self.names.borrow().contains(name) {
            return true;
        }
        let mut names = self.names.clone();
        timeout(SERVED_WITHIN, names.wait_for(|names| names.contains(name))).await.is_ok_and(|seen| seen.is_ok())
    }
}

/// Names of all served resources that have a group, such as `storageaccounts.storage.azure.com`.
async fn ask(client: &Client) -> Result<BTreeSet<String>, kube::Error> {
    let mut names = BTreeSet::new();
    for group in client.list_api_groups_aggregated().await?.items {
        let of = group.metadata.and_then(|metadata| metadata.name).unwrap_or_default();
        for resource in group.versions.into_iter().flat_map(|version| version.resources) {
            names.insert(format!("{}.{of}", resource.resource.unwrap_or_default()));
        }
    }
    Ok(names)
}
