//! What counts as a difference between what was asked for and what Azure has.

use flotilla_crds::Change;
use flotilla_crds::{Catalog, Version};
use serde_json::{Value, json};

/// Calls `check` with a version of the embedded catalog.
fn with<T>(group: &str, kind: &str, version: &str, check: impl FnOnce(&Version) -> T) -> T {
    let kind = Catalog::embedded().kind(group, kind).unwrap_or_else(|| panic!("no kind {kind}"));
    check(kind.version(version).unwrap_or_else(|| panic!("no version {version}")))
}

fn app(body: &Value, live: &Value) -> Vec<(String, Change)> {
    with("app.azure.com", "ContainerApp", "v1api20250101", |v| {
        v.stated_differences(body, live).into_iter().map(|d| (d.path, d.change)).collect()
    })
}

fn account(body: &Value, live: &Value) -> Vec<(String, Change)> {
    with("storage.azure.com", "StorageAccount", "v20250601", |v| {
        v.stated_differences(body, live).into_iter().map(|d| (d.path, d.change)).collect()
    })
}

#[test]
fn what_the_service_adds_or_spells_otherwise_is_no_difference() {
    let body = json!({
        "name": "app", "location": "westus2", "tags": {},
        "identity": {"type": "UserAssigned", "userAssignedIdentities": {"/subscriptions/S/resourceGroups/g/providers/Microsoft.ManagedIdentity/userAssignedIdentities/i": {}}},
        "properties": {
            "environmentId": "/subscriptions/s/resourceGroups/g/providers/Microsoft.App/managedEnvironments/e",
            "configuration": {"activeRevisionsMode": "single", "secrets": [{"name": "a", "value": "hidden"}], "ingress": {"external": false, "targetPort": 80}},
            "template": {"containers": [{"name": "nginx", "image": "nginx", "resources": {"cpu": 1}}]},
        },
    });
    let live = json!({
        "id": "/subscriptions/s/resourceGroups/g/providers/Microsoft.App/containerapps/app", "name": "app", "type": "Microsoft.App/containerApps",
        "location": "West US 2", "systemData": {"createdBy": "me"},
        "identity": {"type": "UserAssigned", "principalId": "p", "userAssignedIdentities": {"/subscriptions/s/resourcegroups/g/providers/Microsoft.ManagedIdentity/userAssignedIdentities/i": {"clientId": "c"}}},
        "properties": {
            "provisioningState": "Succeeded", "environmentId": "/subscriptions/s/resourcegroups/g/providers/microsoft.app/managedEnvironments/e",
            "configuration": {"activeRevisionsMode": "Single", "maxInactiveRevisions": 100, "secrets": [{"name": "a"}, {"name": "b"}], "ingress": {"targetPort": 80, "fqdn": "x"}},
            "template": {"revisionSuffix": "", "containers": [{"name": "sidecar", "image": "s"}, {"name": "nginx", "image": "nginx", "resources": {"cpu": 1.0, "memory": "2Gi"}}]},
        },
    });
    assert_eq!(app(&body, &live), []);
}

#[test]
fn a_changed_or_missing_value_is_a_difference_with_its_path() {
    let body = json!({
        "location": "westus2", "tags": {"team": "a", "cost": "b"},
        "properties": {"configuration": {"ingress": {"targetPort": 80}}, "template": {"containers": [{"name": "nginx", "image": "nginx:1", "args": ["-c"]}]}},
    });
    let live = json!({
        "location": "westus2", "tags": {"team": "b", "other": "c"},
        "properties": {"configuration": {"ingress": null}, "template": {"containers": [{"name": "nginx", "image": "nginx:2", "args": ["-c", "-v"]}]}},
    });
    assert_eq!(
        app(&body, &live),
        [
            ("properties.configuration.ingress".to_owned(), Change::Missing),
            ("properties.template.containers[0].args".to_owned(), Change::Added),
            ("properties.template.containers[0].image".to_owned(), Change::Changed),
            ("tags.cost".to_owned(), Change::Missing),
            ("tags.team".to_owned(), Change::Changed),
        ]
    );
}

#[test]
fn order_matters_only_where_items_have_no_name() {
    let rules = |values: &[&str]| json!({"properties": {"networkAcls": {"ipRules": values.iter().map(|v| json!({"value": v})).collect::<Vec<_>>()}}});
    assert_eq!(account(&rules(&["1.1.1.1", "2.2.2.2"]), &rules(&["1.1.1.1", "2.2.2.2", "3.3.3.3"])), []);
    assert_eq!(
        account(&rules(&["1.1.1.1", "2.2.2.2"]), &rules(&["1.1.1.1"])),
        [("properties.networkAcls.ipRules[1]".to_owned(), Change::Missing)]
    );
    let zones = |zones: &[&str]| json!({"zones": zones});
    assert_eq!(account(&zones(&["1", "2"]), &zones(&["2", "1"])), []);
    assert_eq!(account(&zones(&["1", "2"]), &zones(&["1", "3"])), [("zones[1]".to_owned(), Change::Missing)]);
}

#[test]
fn stated_nulls_say_nothing() {
    assert_eq!(account(&json!({"tags": null, "zones": null}), &json!({"tags": {"a": "b"}})), []);
}
