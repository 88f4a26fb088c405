//! What the API server serves, as it says itself: one small document, where the CRDs have many megabytes.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result};
use kube::Client;
use serde_json::Value;

/// All groups and their resources in one answer.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Served versions of every resource that has a group, by names such as `storageaccounts.storage.azure.com`.
pub async fn served(client: &Client) -> Result<BTreeMap<String, BTreeSet<String>>> {
    let request = axum::http::Request::get("/apis").header("accept", AGGREGATED).body(Vec::new())?;
    let groups: Value = client.request(request).await.context("failed to ask what the API server serves")?;
    Ok(read(&groups))
}

fn read(groups: &Value) -> BTreeMap<String, BTreeSet<String>> {
    let items = |value: &Value, name: &str| value[name].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut served: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for group in items(groups, "items") {
        for version in items(&group, "versions") {
            for resource in items(&version, "resources") {
                let name = format!("{}.{}", text(&resource["resource"]), text(&group["metadata"]["name"]));
                served.entry(name).or_default().insert(text(&version["version"]));
            }
        }
    }
    served
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn versions_are_gathered_by_resource() {
        let version = |name: &str, resources: &[&str]| {
            let resources: Vec<Value> = resources.iter().map(|name| json!({ "resource": name })).collect();
            json!({ "version": name, "resources": resources })
        };
        let versions = [version("v2", &["apples"]), version("v1", &["apples", "pears"])];
        let groups = json!({ "items": [{ "metadata": { "name": "fruit.example" }, "versions": versions }] });
        let expected = [("apples.fruit.example", vec!["v1", "v2"]), ("pears.fruit.example", vec!["v1"])];
        let expected =
            expected.map(|(name, versions)| (name.to_owned(), versions.into_iter().map(str::to_owned).collect()));
        assert_eq!(read(&groups), BTreeMap::from(expected));
    }
}
