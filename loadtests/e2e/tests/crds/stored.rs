//! Objects that ASO stored read unchanged at every version.

use serde_json::json;

use super::api::{Target, object};
use super::installation::installation;
use super::maximal;

#[tokio::test]
async fn object_in_the_storage_version_reads_unchanged_at_all_versions() {
    let installation = installation().await;
    let api = installation.api("stored").await;
    for kind in &installation.kinds {
        let storage = kind.entry().storage_version();
        let at = Target { kind, version: &storage, name: "stored" };
        let oldest = kind.versions()[0].name();
        let mut spec = maximal::spec(&kind.own_spec_schema(oldest).unwrap(), 0);
        spec["originalVersion"] = json!(oldest);
        spec["$propertyBag"] = json!({ "retired": "{\"nested\":[1,2]}" });
        let made = api.create(at, &spec).await.unwrap_or_else(|refused| panic!("{}: {refused}", kind.name()));
        assert_eq!(made["spec"], spec, "{}", kind.name());

        for version in kind.versions() {
            let at = Target { version: version.name(), ..at };
            let read = api.get(at).await;
            assert_eq!(read["spec"], spec, "{} at {}", kind.name(), version.name());
            let label = json!({ "metadata": { "labels": { "through": version.name() } } });
            let labelled = api.merge(at, &label).await.unwrap_or_else(|refused| panic!("{}: {refused}", kind.name()));
            assert_eq!((&labelled["spec"], &labelled["metadata"]["generation"]), (&spec, &json!(1)), "{}", kind.name());
        }
        // Whoever edits such an object through an API version keeps what the storage version noted.
        let at = Target { version: oldest, ..at };
        let edit = json!({ "spec": { "operatorSpec": { "configMapExpressions": null } } });
        let edited = api.merge(at, &edit).await.unwrap_or_else(|refused| panic!("{}: {refused}", kind.name()));
        assert_eq!(edited["spec"]["$propertyBag"], spec["$propertyBag"], "{}", kind.name());
        // And a manifest of the oldest version, as Git has it, applies over it.
        let manifest = object(at, json!({}), &maximal::spec(&kind.own_spec_schema(oldest).unwrap(), 1));
        let applied = api.write(at, super::api::Write::Apply, "kubectl", &manifest).await;
        assert!(applied.is_ok(), "{}: {}", kind.name(), applied.unwrap_err());
    }
}
