//! What a CRD has that is in the cluster already.
//!
//! We note on each CRD what it serves, so that a list of metadata tells whether it is as it should be; a whole CRD can have a
//! megabyte. A CRD without our notes, or with objects in a former storage version, is read whole.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use super::render::{HASH, SERVED, STORED, is_managed};

/// A CRD in the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Present {
    /// The hash that we noted on it; None if it is not ours.
    pub(super) hash: Option<String>,
    /// Versions that it serves, by what we noted or by its spec.
    pub(super) served: BTreeSet<String>,
    /// Versions that objects may be stored in, by its status; empty if that is its storage version alone.
    pub(super) stored: BTreeSet<String>,
    /// A version through which its objects can be listed; None if that takes a conversion webhook, which may be down.
    pub(super) through: Option<String>,
    /// All of it, if it was read.
    pub(super) whole: Option<Value>,
}

impl Present {
    /// What our notes say; None if there are none, or if they do not say all. `storage` is the storage version that we give the
    /// kind: what is noted is served for certain, while a CRD of an earlier release may have another storage version.
    pub(super) fn noted(metadata: &ObjectMeta, storage: &str) -> Option<Self> {
        let notes = metadata.annotations.as_ref().filter(|_| is_managed(metadata))?;
        let (hash, served) = (notes.get(HASH)?, notes.get(SERVED)?);
        if notes.contains_key(STORED) {
            return None;
        }
        let served: BTreeSet<String> = split(served);
        let through = served.last().map_or(storage, String::as_str).to_owned();
        Some(Self { hash: Some(hash.clone()), served, through: Some(through), ..Self::default() })
    }

    /// What a whole CRD says.
    pub(super) fn read(crd: Value) -> Self {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let versions = || crd["spec"]["versions"].as_array().into_iter().flatten();
        let names = |wanted: fn(&Value) -> bool| {
            versions().filter(move |version| wanted(version)).filter_map(move |version| text(&version["name"]))
        };
        let storage = names(|version| version["storage"] == true).next();
        let served: BTreeSet<String> = names(|version| version["served"] == true).collect();
        let stored = crd["status"]["storedVersions"].as_array().into_iter().flatten();
        let stored = stored.filter_map(text).collect();
        let webhook = crd["spec"]["conversion"]["strategy"] == "Webhook";
        let through = storage.filter(|name| served.contains(name)).or_else(|| served.last().cloned());
        let ours = serde_json::from_value::<ObjectMeta>(crd["metadata"].clone()).is_ok_and(|meta| is_managed(&meta));
        Self {
            hash: text(&crd["metadata"]["annotations"][HASH]).filter(|_| ours),
            through: through.filter(|_| !webhook),
            served,
            stored,
            whole: Some(crd),
        }
    }
}

fn split(names: &str) -> BTreeSet<String> {
    names.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn metadata(annotations: &Value) -> ObjectMeta {
        let labels = json!({ "app.kubernetes.io/name": "flotilla" });
        serde_json::from_value(json!({ "labels": labels, "annotations": annotations })).unwrap()
    }

    #[test]
    fn notes_are_enough_unless_versions_are_kept_for_what_is_stored() {
        let noted = |annotations: Value| Present::noted(&metadata(&annotations), "v9storage");
        let present = noted(json!({ HASH: "1", SERVED: "v1,v2" })).unwrap();
        assert_eq!((present.hash.as_deref(), present.through.as_deref()), (Some("1"), Some("v2")));
        assert_eq!(present.served, BTreeSet::from(["v1".to_owned(), "v2".to_owned()]));
        assert_eq!(noted(json!({ HASH: "1", SERVED: "v1", STORED: "v0storage" })), None);
        assert_eq!(noted(json!({ HASH: "1" })), None);
        assert_eq!(Present::noted(&ObjectMeta::default(), "v9storage"), None);
        let only_storage = noted(json!({ HASH: "1", SERVED: "" })).unwrap();
        assert_eq!((only_storage.through.as_deref(), only_storage.served.len()), (Some("v9storage"), 0));
    }

    #[test]
    fn whole_crd_tells_what_may_be_stored_and_how_to_list() {
        let version =
            |name: &str, served: bool, storage: bool| json!({ "name": name, "served": served, "storage": storage });
        let crd = |strategy: &str| {
            json!({
                "metadata": { "annotations": { HASH: "1" } },
                "spec": {
                    "conversion": { "strategy": strategy },
                    "versions": [version("v1", true, false), version("v2storage", true, true), version("v0", false, false)],
                },
                "status": { "storedVersions": ["v0", "v2storage"] },
            })
        };
        let present = Present::read(crd("None"));
        assert_eq!(present.served, BTreeSet::from(["v1".to_owned(), "v2storage".to_owned()]));
        assert_eq!(present.stored, BTreeSet::from(["v0".to_owned(), "v2storage".to_owned()]));
        assert_eq!(present.through.as_deref(), Some("v2storage"));
        assert_eq!(present.hash, None, "it has not our label");
        assert_eq!(Present::read(crd("Webhook")).through, None);
    }
}
