//! azureName and owner are free until the resource exists, and fixed after that.

use serde_json::{Value, json};

use super::api::{Api, Refused, Target, Write};
use super::installation::installation;
use super::maximal;

/// How an object shows that its resource exists.
#[derive(Clone, Copy, Debug)]
enum Sign {
    /// The annotation that is written before the first PUT.
    Annotation,
    /// The id in the status.
    Status,
}

async fn set(api: &Api, at: Target<'_>, sign: Sign, id: &str) {
    let annotation = json!({ "metadata": { "annotations": { "serviceoperator.azure.com/resource-id": id } } });
    match sign {
        Sign::Annotation => api.merge(at, &annotation).await.unwrap(),
        Sign::Status => {
            api.write_status(at, Write::Merge, "flotilla", &json!({ "status": { "id": id } })).await.unwrap()
        }
    };
}

async fn refused(api: &Api, at: Target<'_>, spec: Value, names: &str) {
    let answer = api.merge(at, &json!({ "spec": spec })).await;
    let Err(Refused { code, message }) = answer else { panic!("{} took {spec}", at.kind.name()) };
    assert!(
        code == 422 && message.contains("cannot change once the resource exists") && message.contains(names),
        "{message}"
    );
}

#[tokio::test]
async fn azure_name_and_owner_are_fixed_once_the_resource_exists() {
    let installation = installation().await;
    let api = installation.api("identity").await;
    for (i, name) in
        ["StorageAccount", "ContainerApp", "VirtualNetworksSubnet", "UserAssignedIdentity"].iter().enumerate()
    {
        for sign in [Sign::Annotation, Sign::Status] {
            let kind = installation.kind(name);
            let versions = kind.versions();
            let version = versions[i % versions.len()].name();
            let at = Target { kind, version, name: &format!("{sign:?}").to_lowercase() };
            let mut spec = maximal::spec(&kind.own_spec_schema(version).unwrap(), 0);
            spec["azureName"] = json!("firstname");
            spec["owner"] = json!({ "name": "firstowner" });
            api.create(at, &spec).await.unwrap();

            let free = json!({ "azureName": "secondname", "owner": { "name": "secondowner" } });
            api.merge(at, &json!({ "spec": free })).await.unwrap();
            set(&api, at, sign, "/subscriptions/1/resourceGroups/secondowner/providers/A.B/c/secondname").await;

            refused(&api, at, json!({ "azureName": "thirdname" }), "secondname").await;
            refused(&api, at, json!({ "azureName": null }), "secondname").await;
            refused(&api, at, json!({ "owner": { "name": "thirdowner" } }), "secondowner").await;
            let arm_id = json!({ "owner": { "name": null, "armId": "/subscriptions/1/resourceGroups/secondowner" } });
            refused(&api, at, arm_id, "secondowner").await;
            let other = json!({ "operatorSpec": { "configMapExpressions": null }, "azureName": "secondname" });
            api.merge(at, &json!({ "spec": other })).await.unwrap();
        }
    }
}

#[tokio::test]
async fn name_that_the_resource_has_already_may_be_stated() {
    let installation = installation().await;
    let (api, kind) = (installation.api("identity").await, installation.kind("ResourceGroup"));
    let at = Target { kind, version: kind.versions()[0].name(), name: "rg" };
    api.create(at, &json!({ "location": "westeurope" })).await.unwrap();
    set(&api, at, Sign::Status, "/subscriptions/1/resourceGroups/rg").await;

    refused(&api, at, json!({ "azureName": "other" }), "rg").await;
    api.merge(at, &json!({ "spec": { "azureName": "rg" } })).await.unwrap();
    api.merge(at, &json!({ "spec": { "azureName": null } })).await.unwrap();
}
