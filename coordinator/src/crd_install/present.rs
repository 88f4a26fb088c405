//! What a CRD has that is in the cluster already.
//!
//! We note on each CRD what it serves, so that a list of metadata tells whether it is as it should be; a whole CRD can have a
//! megabyte. A CRD without our notes, changed since them, or with objects in a former storage version, is read whole.

use std::collections::BTreeSet;

use flotilla_proto::names::{HASH, SERVED_VERSIONS, STORED_VERSIONS};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use super::render::{is_managed, noted_generation};

/// A CRD in the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Present {
    /// The hash that we noted on it; None if it is not ours.
    pub(super) hash: Option<String>,
    /// Whether nobody changed its spec since our last write.
    pub(super) unchanged: bool,
    /// Versions that it serves by its spec, and those that we noted: what somebody turned off may be in use.
    pub(super) served: BTreeSet<String>,
    /// Versions that objects may be stored in, by its status; empty if that is its storage version alone.
    pub(super) stored: BTreeSet<String>,
    /// A version through which its objects can be listed; None if that takes a conversion webhook, which may be down.
    pub(super) through: Option<String>,
    /// All of it, if it was read.
    pub(super) whole: Option<Value>,
}

impl Present {
    /// What our notes say; None if there are none, or if they do not say all, or no longer hold. `storage` is the storage version that we give the
    /// kind: what is noted is served for certain, while a CRD of an earlier release may have another storage version.
    pub(super) fn noted(metadata: &ObjectMeta, storage: &str) -> Option<Self> {
        let notes = metadata.annotations.as_ref().filter(|_| is_managed(metadata))?;
        let (hash, served) = (notes.get(HASH)?, notes.get(SERVED_VERSIONS)?);
        if notes.contains_key(STORED_VERSIONS) || !as_we_left_it(metadata) {
            return None;
        }
        let served: BTreeSet<String> = split(served);
        let through = served.last().map_or(storage, String::as_str).to_owned();
        Some(Self { hash: Some(hash.clone()), unchanged: true, served, through: Some(through), ..Self::default() })
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
        let metadata = serde_json::from_value::<ObjectMeta>(crd["metadata"].clone()).unwrap_or_default();
        let ours = is_managed(&metadata);
        let noted =
            crd["metadata"]["annotations"][SERVED_VERSIONS].as_str().filter(|_| ours).map(split).unwrap_or_default();
        Self {
            hash: text(&crd["metadata"]["annotations"][HASH]).filter(|_| ours),
            unchanged: ours && as_we_left_it(&metadata),
            through: through.filter(|_| !webhook),
            served: &served | &noted,
            stored,
            whole: Some(crd),
        }
    }
}

/// Whether a CRD has the generation that our last write led to.
fn as_we_left_it(metadata: &ObjectMeta) -> bool {
    let noted = metadata.annotations.as_ref().and_then(noted_generation);
    noted.is_some() && noted == metadata.generation
}

fn split(names: &str) -> BTreeSet<String> {
    names.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use flotilla_proto::names::GENERATION;
    use serde_json::json;

    use super::*;

    fn metadata(annotations: &Value) -> ObjectMeta {
        let labels = json!({ "app.kubernetes.io/name": "flotilla" });
        serde_json::from_value(json!({ "generation": 3, "labels": labels, "annotations": annotations })).unwrap()
    }

    #[test]
    fn notes_are_enough_unless_versions_are_kept_for_what_is_stored() {
        let noted = |annotations: Value| Present::noted(&metadata(&annotations), "v9storage");
        let present = noted(json!({ HASH: "1", SERVED_VERSIONS: "v1,v2", GENERATION: "3" })).unwrap();
        assert_eq!((present.hash.as_deref(), present.through.as_deref()), (Some("1"), Some("v2")));
        assert_eq!(present.served, BTreeSet::from(["v1".to_owned(), "v2".to_owned()]));
        assert_eq!(
            noted(json!({ HASH: "1", SERVED_VERSIONS: "v1", GENERATION: "3", STORED_VERSIONS: "v0storage" })),
            None
        );
        assert_eq!(noted(json!({ HASH: "1", GENERATION: "3" })), None);
        assert_eq!(Present::noted(&ObjectMeta::default(), "v9storage"), None);
        let only_storage = noted(json!({ HASH: "1", SERVED_VERSIONS: "", GENERATION: "3" })).unwrap();
        assert_eq!((only_storage.through.as_deref(), only_storage.served.len()), (Some("v9storage"), 0));
    }

    #[test]
    fn notes_of_another_generation_do_not_hold() {
        let noted = |annotations: Value| Present::noted(&metadata(&annotations), "v9storage");
        assert_eq!(noted(json!({ HASH: "1", SERVED_VERSIONS: "v1", GENERATION: "2" })), None, "somebody changed it");
        assert_eq!(noted(json!({ HASH: "1", SERVED_VERSIONS: "v1" })), None, "an older Flotilla wrote it");
        let read = |noted: &str| {
            let annotations = json!({ HASH: "1", SERVED_VERSIONS: "v1,v2", GENERATION: noted });
            let versions = json!([{ "name": "v1", "served": false }, { "name": "v2", "served": true }]);
            Present::read(json!({ "metadata": metadata(&annotations), "spec": { "versions": versions } }))
        };
        let changed = read("2");
        assert!(!changed.unchanged && read("3").unchanged);
        assert_eq!(changed.served, BTreeSet::from(["v1".to_owned(), "v2".to_owned()]), "v1 may be in use");
        assert_eq!(changed.through.as_deref(), Some("v2"), "objects are listed through what is served");
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
