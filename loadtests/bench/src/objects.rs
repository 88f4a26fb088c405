//! What is created: ten namespaces with a resource group each, and in them identities and storage accounts.

use anyhow::{Context as _, Result};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, DynamicObject, ObjectMeta, PostParams};
use serde_json::{Value, json};

use flotilla_testbed::cluster::Cluster;

const NAMESPACES: usize = 10;

/// Requests at once: enough that the API server never waits for us.
const AT_ONCE: usize = 16;

/// Kinds that Azure makes at once (groups, identities), and one with a long-running operation (storage accounts).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Group,
    Identity,
    StorageAccount,
}

impl Kind {
    /// The pattern that installs them all.
    pub(super) const PATTERN: &'static str =
        "resources.azure.com/ResourceGroup;managedidentity.azure.com/*;storage.azure.com/StorageAccount";

    /// An object of this kind; `number` is its own among those of its kind.
    pub(super) fn object(self, number: usize) -> Result<DynamicObject> {
        let namespace = namespace(number % NAMESPACES);
        let owner = json!({ "name": group(number % NAMESPACES) });
        let (api_version, kind, name, spec) = match self {
            Self::Group => {
                let spec = json!({ "location": "westus2", "tags": { "bench": "yes" } });
                ("resources.azure.com/v1api20200601", "ResourceGroup", group(number), spec)
            }
            Self::Identity => {
                let spec = json!({ "location": "westus2", "owner": owner, "tags": { "bench": "yes" } });
                let name = format!("id-bench-{number:05}");
                ("managedidentity.azure.com/v1api20230131", "UserAssignedIdentity", name, spec)
            }
            Self::StorageAccount => {
                let spec = json!({
                    "location": "westus2", "owner": owner, "kind": "StorageV2", "sku": { "name": "Standard_LRS" },
                    "accessTier": "Hot",
                });
                ("storage.azure.com/v1api20230101", "StorageAccount", format!("stbench{number:05}"), spec)
            }
        };
        let object: Value = json!({
            "apiVersion": api_version, "kind": kind,
            "metadata": { "name": name, "namespace": namespace },
            "spec": spec,
        });
        serde_json::from_value(object).context("failed to make an object")
    }
}

fn namespace(number: usize) -> String {
    format!("bench-{number}")
}

fn group(number: usize) -> String {
    format!("rg-bench-{number}")
}

/// Makes the namespaces.
pub(super) async fn make_namespaces(cluster: &Cluster) -> Result<()> {
    for number in 0..NAMESPACES {
        let metadata = ObjectMeta { name: Some(namespace(number)), ..ObjectMeta::default() };
        let made = Namespace { metadata, ..Namespace::default() };
        Api::all(cluster.client().clone()).create(&PostParams::default(), &made).await?;
    }
    Ok(())
}

/// One resource group for each namespace: what all else is in.
pub(super) fn owners() -> Result<Vec<DynamicObject>> {
    (0..NAMESPACES).map(|number| Kind::Group.object(number)).collect()
}

/// Applies as `kubectl apply --server-side` does.
pub(super) async fn apply(cluster: &Cluster, objects: &[DynamicObject]) -> Result<()> {
    let applied = stream::iter(objects).map(|object| cluster.apply(object)).buffer_unordered(AT_ONCE);
    applied.try_for_each(|_| async { Ok(()) }).await
}

#[cfg(test)]
mod tests {
    use flotilla_crds::{Catalog, Pattern};
    use kube::ResourceExt as _;

    use super::*;

    #[test]
    fn the_pattern_has_every_kind_that_is_created() {
        let pattern = Pattern::parse(Kind::PATTERN).unwrap();
        let matching: Vec<&str> = Catalog::embedded().matching(&pattern).map(|entry| entry.kind.as_str()).collect();
        for kind in [Kind::Group, Kind::Identity, Kind::StorageAccount] {
            let object = kind.object(12).unwrap();
            assert!(matching.contains(&object.types.unwrap().kind.as_str()), "{kind:?}");
        }
    }

    #[test]
    fn an_object_is_in_the_namespace_of_its_owner() {
        let (owner, object) = (&owners().unwrap()[3], Kind::Identity.object(23).unwrap());
        assert_eq!(object.namespace(), owner.namespace());
        assert_eq!(object.data["spec"]["owner"]["name"], owner.name_any());
    }
}
