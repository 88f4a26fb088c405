//! A rule never stands in the way of those who don't touch what it is about.

use serde_json::json;

use super::api::{Target, Write};
use super::installation::installation;
use super::older::BROKEN;

#[tokio::test]
async fn object_that_breaks_our_rules_can_be_labelled_mended_and_deleted() {
    let installation = installation().await;
    let (api, kind) = (installation.older(), installation.kind("StorageAccount"));
    for version in kind.versions() {
        let at = Target { kind, version: version.name(), name: BROKEN };
        let metadata =
            json!({ "metadata": { "labels": { "through": version.name() }, "finalizers": ["flotilla.dev/a"] } });
        api.merge(at, &metadata).await.unwrap();
        let mut read = api.get(at).await;
        read["metadata"]["annotations"]["through"] = json!(version.name());
        api.write(at, Write::Update, "controller", &read).await.unwrap();
        let status = json!({ "status": { "conditions": [] } });
        api.write_status(at, Write::Merge, "flotilla", &status).await.unwrap();
    }
    let at = Target { kind, version: kind.versions().last().unwrap().name(), name: BROKEN };
    assert_eq!(api.get(at).await["spec"]["accessTier"], "Lukewarm");

    // Who changes the spec must say what the rules allow; the rest of it need not be right already.
    let worse = api.merge(at, &json!({ "spec": { "accessTier": "Tepid" } })).await.unwrap_err();
    assert!(worse.message.contains("spec.accessTier"), "{worse}");
    let owner = json!({ "spec": { "owner": { "name": null, "armId": "/subscriptions/1/resourceGroups/rg" } } });
    api.merge(at, &owner).await.unwrap();
    assert_eq!(api.get(at).await["spec"]["accessTier"], "Lukewarm");

    api.delete(at).await.unwrap();
    let deleting = api.get(at).await;
    assert!(deleting["metadata"]["deletionTimestamp"].is_string());
    api.merge(at, &json!({ "metadata": { "finalizers": null } })).await.unwrap();
    assert_eq!(api.delete(at).await.unwrap_err().code, 404);
}

#[tokio::test]
async fn deleting_object_loses_its_finalizer_whatever_its_spec_became() {
    let installation = installation().await;
    let (api, kind) = (installation.api("deleting").await, installation.kind("ResourceGroup"));
    let at = Target { kind, version: kind.versions()[0].name(), name: "rg" };
    api.create(at, &json!({ "azureName": "old", "location": "westeurope" })).await.unwrap();
    let id = json!({ "serviceoperator.azure.com/resource-id": "/subscriptions/1/resourceGroups/old" });
    api.merge(at, &json!({ "metadata": { "annotations": id, "finalizers": ["flotilla.dev/a"] } })).await.unwrap();
    api.delete(at).await.unwrap();

    // GitOps tools go on writing while an object is being deleted; nobody is helped by a refusal now.
    let both = json!({ "spec": { "azureName": "new" }, "metadata": { "finalizers": null } });
    api.merge(at, &both).await.unwrap();
    assert_eq!(api.delete(at).await.unwrap_err().code, 404);
}
