//! Which versions of a kind objects and managers use.
//!
//! A manager that wrote an object through a version writes it again through that version; Helm, Argo and kubectl can't do so
//! once it is no longer served. Who wrote through what is in `managedFields`, and for `kubectl apply` in its annotation, so
//! metadata are enough. The API server forgets an entry at a version that is no longer served when anybody next writes the
//! object; the api-version that a worker notes on its objects is a trace that stays.

use std::collections::BTreeSet;

use flotilla_crds::KindEntry;
use flotilla_proto::kubernetes;
use flotilla_proto::names::APPLIED;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::DynamicObject;
use kube::{Api, Client};
use serde_json::Value;

use super::pages;

/// Where kubectl keeps the manifest that it applied last.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// What the objects of a kind name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Usage {
    /// Versions, also such as objects are only stored in.
    pub(super) versions: BTreeSet<String>,
    /// ARM api-versions.
    pub(super) api_versions: BTreeSet<String>,
}

/// What any object of a kind names, listed through a version that is served.
pub(super) async fn usage(client: &Client, entry: &KindEntry, through: &str) -> Result<Usage, kube::Error> {
    let resource = kubernetes::resource(&entry.group, through, &entry.kind, &entry.plural);
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let mut usage = Usage::default();
    pages::each(&api, |object| usage.note(&entry.group, &object.metadata)).await?;
    Ok(usage)
}

impl Usage {
    /// Adds what an object of a group names.
    fn note(&mut self, group: &str, metadata: &ObjectMeta) {
        let mut add = |api_version: &str| {
            if let Some((_, version)) = api_version.split_once('/').filter(|(of, _)| *of == group) {
                self.versions.insert(version.to_owned());
            }
        };
        for entry in metadata.managed_fields.iter().flatten() {
            entry.api_version.as_deref().map(&mut add);
        }
        let annotation = |name| metadata.annotations.as_ref().and_then(|annotations| annotations.get(name));
        let manifest = annotation(LAST_APPLIED).and_then(|text| serde_json::from_str::<Value>(text).ok());
        manifest.as_ref().and_then(|manifest| manifest["apiVersion"].as_str()).map(add);
        let sent = annotation(APPLIED).and_then(|text| text.split(':').nth(1));
        self.api_versions.extend(sent.map(str::to_owned));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_manager_and_the_last_manifest_and_body_count() {
        let metadata = json!({
            "annotations": {
                LAST_APPLIED: json!({ "apiVersion": "storage.azure.com/v1api20210401" }).to_string(),
                APPLIED: "3:2022-09-01:0123456789abcdef",
            },
            "managedFields": [
                { "manager": "helm", "apiVersion": "storage.azure.com/v1api20230101" },
                { "manager": "flotilla", "apiVersion": "storage.azure.com/v20250601storage" },
                { "manager": "x", "apiVersion": "v1" },
                { "manager": "y", "apiVersion": "other.azure.com/v1api20200101" },
            ],
        });
        let mut usage = Usage::default();
        usage.note("storage.azure.com", &serde_json::from_value(metadata).unwrap());
        let versions = ["v1api20210401", "v1api20230101", "v20250601storage"].map(str::to_owned);
        assert_eq!(usage.versions, BTreeSet::from(versions));
        assert_eq!(usage.api_versions, BTreeSet::from(["2022-09-01".to_owned()]));

        let before = usage.clone();
        let broken = json!({ "annotations": { LAST_APPLIED: "{", APPLIED: "" } });
        usage.note("storage.azure.com", &serde_json::from_value(broken).unwrap());
        usage.note("storage.azure.com", &ObjectMeta::default());
        assert_eq!(usage, before);
    }
}
