//! CRDs of somebody else under a name that a kind of ours has.
//!
//! Kept true here: a CRD that is not ours, nor ASO's, nor like them in any version, is never replaced. Its objects have another
//! schema, and what ours does not have would be pruned from them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use super::render::is_managed;

/// The versions of a CRD that is somebody else's; None if it is ours to replace. `knows` says which versions the kind has.
///
/// Pure.
pub(super) fn versions(crd: &Value, knows: impl Fn(&str) -> bool) -> Option<String> {
    let metadata = serde_json::from_value::<ObjectMeta>(crd["metadata"].clone()).unwrap_or_default();
    let versions = crd["spec"]["versions"].as_array().into_iter().flatten();
    let names: Vec<&str> = versions.filter_map(|version| version["name"].as_str()).collect();
    (!is_managed(&metadata) && !names.iter().any(|name| knows(name))).then(|| names.join(", "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn crd_without_our_label_and_versions_is_somebody_elses() {
        let kind = flotilla_crds::Catalog::embedded().kind("storage.azure.com", "StorageAccount").unwrap();
        let (newest, storage) = (kind.hub().unwrap().name().to_owned(), kind.entry().storage_version());
        let of = |label: &str, names: &[&str]| {
            let names: Vec<Value> = names.iter().map(|name| json!({ "name": name })).collect();
            let labels = json!({ "app.kubernetes.io/name": label });
            let crd = json!({ "metadata": { "labels": labels }, "spec": { "versions": names } });
            versions(&crd, |name| kind.version(name).is_some())
        };
        assert_eq!(of("crossplane", &["v1", "v1beta1"]).as_deref(), Some("v1, v1beta1"));
        assert_eq!(of("crossplane", &["v1", &newest]), None, "printed by us, or ASO's without its label");
        assert_eq!(of("crossplane", &[&storage]), None);
        assert_eq!(of("azure-service-operator", &["v1"]), None);
        assert_eq!(of("flotilla", &["v1"]), None);
    }
}
