//! A CRD that the API server accepts and does not serve: its users learn why from the log.

use std::time::Duration;

use flotilla_coordinator::Versions;
use flotilla_testbed::control_plane::{ControlPlane, Options};
use serde_json::json;

use super::api::Api;
use super::leader::Leader;
use super::leader_log;

/// Until a leader gives up waiting, and a while longer.
const WITHIN: Duration = Duration::from_mins(4);

#[tokio::test]
async fn kind_that_another_crd_has_is_told_with_its_condition() {
    let control_plane = ControlPlane::start(Options::default()).await.unwrap();
    let api = Api::new(&control_plane, control_plane.namespace("unserved").await.unwrap());
    let schema = json!({ "openAPIV3Schema": { "type": "object" } });
    let theirs = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "things.app.azure.com" },
        "spec": {
            "group": "app.azure.com", "scope": "Namespaced",
            "names": { "kind": "ManagedEnvironment", "listKind": "ThingList", "plural": "things" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": schema }],
        },
    });
    api.install(&theirs).await.unwrap();

    let leader = Leader {
        control_plane: &control_plane,
        namespace: &api.namespace,
        pattern: "app.azure.com/ManagedEnvironment",
        versions: Versions::All,
    };
    let end = leader.lead(leader_log::next("Failed to install some CRDs", 1, 0, WITHIN)).await;

    assert_eq!((end.number("installed"), end.number("failed")), (0, 1));
    let line = leader_log::line_with("accepted managedenvironments.app.azure.com but does not serve it: ").unwrap();
    println!("{line}");
    assert!(line.contains("does not serve it: NamesAccepted=False ") && line.contains("is already in use"), "{line}");
    assert!(!line.contains("Status {"));
}
