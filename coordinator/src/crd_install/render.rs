//! A CRD as it is written: with our notes, with stored versions of the past, and in place of an existing one.

use std::collections::{BTreeMap, BTreeSet};

use flotilla_crds::Kind;
use flotilla_proto::digest;
use flotilla_proto::names::{APP, APP_LABEL, GENERATION, HASH, SERVED_VERSIONS, STORED_VERSIONS};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

/// The generation of a CRD that is created.
const FIRST_GENERATION: i64 = 1;
/// The value of [`APP_LABEL`] on ASO's CRDs.
const ASO: &str = "azure-service-operator";

/// Whether an installed CRD is ours, or ASO's, and so kept up to date whatever the pattern says.
pub(super) fn is_managed(metadata: &ObjectMeta) -> bool {
    let label = metadata.labels.as_ref().and_then(|labels| labels.get(APP_LABEL));
    label.is_some_and(|value| value == ASO || value == APP)
}

/// The CRD of a kind with these versions, those that objects may be stored in, and our notes.
pub(super) fn crd(kind: &Kind, served: &BTreeSet<String>, stored: &BTreeSet<String>) -> Value {
    let names: Vec<&str> = served.iter().map(String::as_str).collect();
    let mut crd = kind.crd_with(&names);
    crd["metadata"]["annotations"][SERVED_VERSIONS] = names.join(",").into();
    hashed(with_stored_versions(crd, stored))
}

/// Puts the hash of an object on it.
pub(super) fn hashed(mut object: Value) -> Value {
    object["metadata"]["annotations"][HASH] = digest::short(object.to_string()).into();
    object
}

/// The hash that an object was given.
pub(super) fn hash(object: &Value) -> Option<&str> {
    object["metadata"]["annotations"][HASH].as_str()
}

/// The generation that writing this object leads to, in place of the existing one or as the first.
///
/// Pure, and computed beforehand because the note has to be part of the same write.
pub(super) fn leads_to(whole: &Value, existing: Option<&Value>) -> i64 {
    let Some(existing) = existing else { return FIRST_GENERATION };
    let present = existing["metadata"]["generation"].as_i64().unwrap_or_default();
    present + i64::from(whole["spec"] != existing["spec"])
}

/// Puts the generation on a CRD that its write leads to.
pub(super) fn noting_generation(mut whole: Value, generation: i64) -> Value {
    whole["metadata"]["annotations"][GENERATION] = generation.to_string().into();
    whole
}

/// The generation that we noted.
pub(super) fn noted_generation(annotations: &BTreeMap<String, String>) -> Option<i64> {
    annotations.get(GENERATION)?.parse().ok()
}

/// Adds versions that objects may still be stored in: the API server refuses a CRD that lacks one. They are not served.
fn with_stored_versions(mut rendered: Value, stored: &BTreeSet<String>) -> Value {
    let Some(versions) = rendered["spec"]["versions"].as_array_mut() else { return rendered };
    let Some(storage) = versions.iter().find(|version| version["storage"] == true).cloned() else { return rendered };
    let former: Vec<&str> = stored.iter().map(String::as_str).filter(|name| storage["name"] != *name).collect();
    for &name in &former {
        if !versions.iter().any(|version| version["name"] == name) {
            let mut version = storage.clone();
            version["name"] = name.into();
            version["storage"] = false.into();
            version["served"] = false.into();
            versions.push(version);
        }
    }
    if !former.is_empty() {
        rendered["metadata"]["annotations"][STORED_VERSIONS] = former.join(",").into();
    }
    rendered
}

/// The whole object that replaces the existing CRD, if it has not changed since it was read.
///
/// A server-side apply would not do: it can't turn a conversion webhook off, because fields that belong to it are another
/// manager's. Labels and annotations of others stay.
pub(super) fn replacement(rendered: &Value, existing: &Value) -> Value {
    let mut metadata = existing["metadata"].clone();
    if let Some(metadata) = metadata.as_object_mut() {
        metadata.remove("managedFields");
    }
    let had_webhook = existing["spec"]["conversion"]["strategy"] == "Webhook";
    if let Some(annotations) = metadata["annotations"].as_object_mut() {
        // The certificate manager would go on writing a CA for a webhook that is not there.
        annotations.retain(|name, _| name != STORED_VERSIONS && !(had_webhook && name.starts_with("cert-manager.io/")));
    }
    for part in ["labels", "annotations"] {
        for (name, value) in rendered["metadata"][part].as_object().into_iter().flatten() {
            metadata[part][name] = value.clone();
        }
    }
    let mut whole = rendered.clone();
    whole["metadata"] = metadata;
    whole
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
        let stored = BTreeSet::from(["v1api2021storage", "v1api2024storage"].map(str::to_owned));
        let kept = with_stored_versions(crd(), &stored);
        let versions = kept["spec"]["versions"].as_array().unwrap();
        let expected = json!({"name": "v1api2021storage", "served": false, "storage": false, "schema": {"s": 1}});
        assert_eq!((versions.len(), &versions[2]), (3, &expected));
        assert_eq!(kept["metadata"]["annotations"][STORED_VERSIONS], "v1api2021storage");
        assert_eq!(with_stored_versions(crd(), &BTreeSet::new()), crd());
    }

    #[test]
    fn crd_of_a_kind_notes_what_it_serves() {
        let kind = flotilla_crds::Catalog::embedded().kind("storage.azure.com", "StorageAccount").unwrap();
        let names: BTreeSet<String> = kind.versions().iter().take(2).map(|version| version.name().to_owned()).collect();
        let crd = super::crd(&kind, &names, &BTreeSet::new());
        let served = crd["metadata"]["annotations"][SERVED_VERSIONS].as_str().unwrap();
        assert_eq!(served.split(',').map(str::to_owned).collect::<BTreeSet<_>>(), names);
        assert_eq!(crd["spec"]["versions"].as_array().unwrap().len(), 3);
        assert!(hash(&crd).is_some());
    }

    #[test]
    fn crd_that_is_there_is_replaced_under_its_version() {
        let existing = json!({
            "metadata": {
                "name": "x.y.azure.com", "resourceVersion": "7", "managedFields": [],
                "labels": {"app.kubernetes.io/name": "azure-service-operator", "team": "a"},
                "annotations": {"cert-manager.io/inject-ca-from": "ns/cert", STORED_VERSIONS: "v0storage", "team": "a"},
            },
            "spec": {"conversion": {"strategy": "Webhook"}},
        });
        let rendered = hashed(crd());
        let whole = replacement(&rendered, &existing);
        assert_eq!(whole["metadata"]["resourceVersion"], "7");
        assert_eq!(whole["metadata"]["labels"], json!({"app.kubernetes.io/name": "flotilla", "team": "a"}));
        assert_eq!(whole["metadata"]["annotations"], json!({"team": "a", HASH: hash(&rendered)}));
        assert!(whole["metadata"].get("managedFields").is_none());
        assert_eq!(whole["spec"], crd()["spec"]);
    }

    #[test]
    fn generation_grows_with_the_spec() {
        let there = |generation: i64, spec: Value| json!({"metadata": {"generation": generation}, "spec": spec});
        assert_eq!(leads_to(&crd(), None), 1);
        assert_eq!(leads_to(&crd(), Some(&there(4, crd()["spec"].clone()))), 4, "only metadata change");
        let mut less = crd()["spec"].clone();
        less["versions"][0]["served"] = false.into();
        assert_eq!(leads_to(&crd(), Some(&there(4, less))), 5);
        let noted = noting_generation(hashed(crd()), 5);
        assert_eq!(hash(&noted), hash(&hashed(crd())), "the note is not part of what we render");
        let annotations = serde_json::from_value(noted["metadata"]["annotations"].clone()).unwrap();
        assert_eq!(noted_generation(&annotations), Some(5));
        assert_eq!(noted_generation(&[(GENERATION.to_owned(), "x".to_owned())].into()), None);
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
