//! A CRD as it is written: with its hash, with stored versions of the past, and in place of one that has a webhook.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// Annotation with the hash of what we rendered, so that an unchanged CRD is known from its metadata.
pub const HASH: &str = "flotilla.dev/hash";
/// Label that ASO puts on its CRDs.
const ASO: (&str, &str) = ("app.kubernetes.io/name", "azure-service-operator");

/// Whether an installed CRD is ours, or ASO's, and so kept up to date whatever the pattern says.
pub(super) fn is_managed(metadata: &ObjectMeta) -> bool {
    let label = metadata.labels.as_ref().and_then(|labels| labels.get(ASO.0));
    label.is_some_and(|value| value == ASO.1 || value == flotilla_crds::crd::LABEL.1)
}

/// Puts the hash of an object on it.
pub(super) fn hashed(mut object: Value) -> Value {
    let digest = Sha256::digest(object.to_string());
    let first = digest.first_chunk().map_or(0, |bytes: &[u8; 8]| u64::from_be_bytes(*bytes));
    object["metadata"]["annotations"][HASH] = format!("{first:016x}").into();
    object
}

/// Adds versions that objects may still be stored in: the API server refuses a CRD that lacks one. They are not served.
pub(super) fn with_stored_versions(mut rendered: Value, existing: &Value) -> Value {
    let Some(versions) = rendered["spec"]["versions"].as_array_mut() else { return rendered };
    let known: BTreeSet<String> =
        versions.iter().filter_map(|version| version["name"].as_str()).map(str::to_owned).collect();
    let stored = existing["status"]["storedVersions"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let storage = versions.iter().find(|version| version["storage"] == true).cloned();
    for missing in stored.filter(|name| !known.contains(*name)) {
        if let Some(mut version) = storage.clone() {
            version["name"] = missing.into();
            version["storage"] = false.into();
            version["served"] = false.into();
            versions.push(version);
        }
    }
    rendered
}

/// The whole object that replaces a CRD with a conversion webhook; None if it has none.
pub(super) fn take_over(rendered: &Value, existing: &Value) -> Option<Value> {
    if existing["spec"]["conversion"]["strategy"] != "Webhook" {
        return None;
    }
    let mut whole = rendered.clone();
    let mut metadata = existing["metadata"].clone();
    if let Some(metadata) = metadata.as_object_mut() {
        metadata.remove("managedFields");
    }
    // Without this the certificate manager goes on writing a CA for a webhook that is not there.
    if let Some(annotations) = metadata["annotations"].as_object_mut() {
        annotations.retain(|name, _| !name.starts_with("cert-manager.io/"));
    }
    for part in ["labels", "annotations"] {
        for (name, value) in rendered["metadata"][part].as_object().into_iter().flatten() {
            metadata[part][name] = value.clone();
        }
    }
    whole["metadata"] = metadata;
    whole["status"] = json!({"storedVersions": existing["status"]["storedVersions"], "conditions": [], "acceptedNames": existing["status"]["acceptedNames"]});
    Some(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crd() -> Value {
        json!({
            "metadata": {"name": "x.y.azure.com", "labels": {"app.kubernetes.io/name": "flotilla"}},
            "spec": {"versions": [
                {"name": "v1api2024", "served": true, "storage": false},
                {"name": "v1api2024storage", "served": true, "storage": true, "schema": {"s": 1}},
            ]},
        })
    }

    #[test]
    fn hash_follows_the_content() {
        let one = hashed(crd());
        assert_eq!(one, hashed(crd()));
        let mut other = crd();
        other["spec"]["scope"] = "Namespaced".into();
        assert_ne!(one["metadata"]["annotations"][HASH], hashed(other)["metadata"]["annotations"][HASH]);
    }

    #[test]
    fn stored_version_of_the_past_is_kept_but_not_served() {
        let existing = json!({"status": {"storedVersions": ["v1api2021storage", "v1api2024storage"]}});
        let versions = with_stored_versions(crd(), &existing)["spec"]["versions"].clone();
        let expected = json!({"name": "v1api2021storage", "served": false, "storage": false, "schema": {"s": 1}});
        assert_eq!((versions.as_array().unwrap().len(), &versions[2]), (3, &expected));
        assert_eq!(with_stored_versions(crd(), &json!({})), crd());
    }

    #[test]
    fn crd_with_a_webhook_is_replaced_under_its_version() {
        let existing = json!({
            "metadata": {
                "name": "x.y.azure.com", "resourceVersion": "7", "managedFields": [],
                "labels": {"app.kubernetes.io/name": "azure-service-operator", "team": "a"},
                "annotations": {"cert-manager.io/inject-ca-from": "ns/cert"},
            },
            "spec": {"conversion": {"strategy": "Webhook"}},
        });
        let whole = take_over(&hashed(crd()), &existing).unwrap();
        assert_eq!(whole["metadata"]["resourceVersion"], "7");
        assert_eq!(whole["metadata"]["labels"], json!({"app.kubernetes.io/name": "flotilla", "team": "a"}));
        assert!(whole["metadata"]["annotations"].get("cert-manager.io/inject-ca-from").is_none());
        assert!(whole["metadata"].get("managedFields").is_none());
        assert_eq!(whole["spec"], crd()["spec"]);
        assert_eq!(take_over(&crd(), &json!({"spec": {"conversion": {"strategy": "None"}}})), None);
    }

    #[test]
    fn only_our_crds_and_those_of_aso_are_managed() {
        let labelled = |value: &str| ObjectMeta {
            labels: Some([("app.kubernetes.io/name".to_owned(), value.to_owned())].into()),
            ..ObjectMeta::default()
        };
        assert!(is_managed(&labelled("flotilla")) && is_managed(&labelled("azure-service-operator")));
        assert!(!is_managed(&labelled("crossplane")) && !is_managed(&ObjectMeta::default()));
    }
}
