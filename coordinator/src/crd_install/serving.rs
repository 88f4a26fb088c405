//! Which versions of which CRDs the API server serves: what is accepted is served seconds later, when its controllers got round to it.
//!
//! Its discovery document tells, in one request for all; the CRDs themselves have tens of megabytes. It is asked only while
//! somebody waits.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use flotilla_proto::kubernetes;
use flotilla_proto::task::{Kind, Process, Task};
use kube::Client;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

/// Between two questions.
const ASK_EVERY: Duration = Duration::from_millis(500);
/// A CRD that is not served after so long has a name that another one has, or the API server is in trouble.
const SERVED_WITHIN: Duration = Duration::from_mins(2);

/// Served versions of every resource that has a group, by names such as `storageaccounts.storage.azure.com`.
type Served = BTreeMap<String, BTreeSet<String>>;

/// What is served, for as long as it is kept.
pub(super) struct Serving {
    seen: watch::Receiver<Served>,
    _asks: Task,
}

impl Serving {
    /// Asks for the first time.
    pub(super) async fn begin(client: Client, process: &Process) -> Result<Self, kube::Error> {
        let (sender, seen) = watch::channel(ask(&client).await?);
        let asks = process.start(Kind::ServedCrds, |_| ask_again(client, sender));
        Ok(Self { seen, _asks: asks })
    }

    /// Waits until all these versions of a CRD are served. Says whether they are. Those that it lost may be served for a moment
    /// longer.
    pub(super) async fn serves(&self, name: &str, versions: &BTreeSet<String>) -> bool {
        let has_all = |seen: &Served| serves(seen, name, versions);
        if has_all(&self.seen.borrow()) {
            return true;
        }
        timeout(SERVED_WITHIN, self.seen.clone().wait_for(has_all)).await.is_ok_and(|seen| seen.is_ok())
    }
}

fn serves(seen: &Served, name: &str, versions: &BTreeSet<String>) -> bool {
    seen.get(name).is_some_and(|served| served.is_superset(versions))
}

/// Asks on, while somebody waits for the answer.
async fn ask_again(client: Client, served: watch::Sender<Served>) {
    loop {
        sleep(ASK_EVERY).await;
        // One receiver is ours; each of the others waits.
        if served.receiver_count() < 2 {
            continue;
        }
        match ask(&client).await {
            Ok(seen) => drop(served.send_replace(seen)),
            Err(error) => {
                let error = kubernetes::Error::from(error);
                tracing::debug!(error = &error as &dyn std::error::Error, "Failed to read which CRDs are served");
            }
        }
    }
}

async fn ask(client: &Client) -> Result<Served, kube::Error> {
    let mut served = Served::new();
    for group in client.list_api_groups_aggregated().await?.items {
        let of = group.metadata.and_then(|metadata| metadata.name).unwrap_or_default();
        for version in group.versions {
            let name = version.version.unwrap_or_default();
            for resource in version.resources {
                let resource = format!("{}.{of}", resource.resource.unwrap_or_default());
                served.entry(resource).or_default().insert(name.clone());
            }
        }
    }
    Ok(served)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_version_must_be_served() {
        let set = |names: &[&str]| -> BTreeSet<String> { names.iter().map(|&name| name.to_owned()).collect() };
        let seen = Served::from([("x.y".to_owned(), set(&["v1", "v2storage"]))]);
        assert!(serves(&seen, "x.y", &set(&["v2storage"])) && serves(&seen, "x.y", &set(&["v1", "v2storage"])));
        assert!(!serves(&seen, "x.y", &set(&["v1", "v2", "v2storage"])), "an update added one");
        assert!(!serves(&seen, "z.y", &set(&[])));
    }
}
