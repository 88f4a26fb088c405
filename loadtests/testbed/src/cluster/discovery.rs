//! What the API server serves, as it says itself: one small document, where the CRDs have many megabytes.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result};
use kube::Client;

/// Served versions of every resource that has a group, by names such as `storageaccounts.storage.azure.com`.
pub async fn served(client: &Client) -> Result<BTreeMap<String, BTreeSet<String>>> {
    let groups = client.list_api_groups_aggregated().await.context("failed to ask what the API server serves")?;
    let mut served: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for group in groups.items {
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
