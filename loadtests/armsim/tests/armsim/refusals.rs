use std::sync::Arc;

use flotilla_armsim::{Armsim, Options, TypeData, Violation};
use reqwest::Method;
use serde_json::{Value, json};

use crate::client::{Client, Reply, group, until};

const APP: &str = "2025-01-01";

/// Type data of one type, to see what becomes of what it says.
struct OneType;

impl TypeData for OneType {
    fn validate(&self, arm_type: &str, _: &str, body: &Value) -> Result<(), Vec<Violation>> {
        if arm_type != "Microsoft.App/jobs" {
            return Ok(());
        }
        let missing = |path: &str| Violation { path: path.into(), message: "is required".into() };
        let mut violations = Vec::new();
        if body["location"].is_null() {
            violations.push(missing("location"));
        }
        if body["properties"]["template"].is_null() {
            violations.push(missing("properties.template"));
        }
        if violations.is_empty() { Ok(()) } else { Err(violations) }
    }

    fn api_versions(&self, arm_type: &str) -> Option<Vec<String>> {
        let known = ["microsoft.app/jobs", "microsoft.resources/resourcegroups"];
        known.contains(&arm_type.to_ascii_lowercase().as_str()).then(|| vec!["2020-06-01".into(), APP.into()])
    }
}

async fn start() -> (Armsim, Client) {
    let options = Options { time_scale: 200.0, type_data: Some(Arc::new(OneType)), ..Options::default() };
    let armsim = Armsim::start(options).await.unwrap();
    let client = Client::new(&armsim).await;
    client.put_group("g").await;
    (armsim, client)
}

fn in_group(rest: &str) -> String {
    format!("{}/providers/{rest}", group("g"))
}

fn message(reply: &Reply) -> &str {
    reply.body["error"]["message"].as_str().unwrap()
}

#[tokio::test]
async fn api_versions_are_checked() {
    let (_armsim, client) = start().await;
    client.send(Method::GET, &group("g")).await.refused(400, "MissingApiVersionParameter");
    client.get(&group("g"), "yesterday").await.refused(400, "InvalidApiVersionParameter");
    client.get(&group("g"), "2019-01-01").await.refused(400, "InvalidApiVersionParameter");
    let unknown = client.get(&in_group("Microsoft.App/jobs/job"), "2001-01-01").await;
    unknown.refused(400, "NoRegisteredProviderFound");
    assert!(
        message(&unknown).contains("The supported api-versions are '2020-06-01, 2025-01-01'"),
        "{}",
        message(&unknown)
    );
    client.get(&in_group("Microsoft.App/jobs/job"), APP).await.refused(404, "ResourceNotFound");
    client.get(&in_group("Microsoft.Nobody/knows/n"), "2001-01-01").await.refused(404, "ResourceNotFound");
}

#[tokio::test]
async fn bodies_are_checked_by_the_type_data() {
    let (_armsim, client) = start().await;
    let job = in_group("Microsoft.App/jobs/job");
    let wrong = client.put(&job, APP, json!({"location": "westus2", "properties": {}})).await;
    wrong.refused(400, "InvalidRequestContent");
    assert!(message(&wrong).contains("properties.template is required"));
    assert_eq!(wrong.body["error"]["details"][0]["target"], "properties.template");
    client.put(&job, APP, json!({"properties": {"template": {}}})).await.refused(400, "LocationRequired");
    client.put(&job, APP, json!([])).await.refused(400, "InvalidRequestContent");
    assert_eq!(client.put(&job, APP, json!({"location": "westus2", "properties": {"template": {}}})).await.status, 201);
}

#[tokio::test]
async fn what_a_resource_is_in_has_to_be_there() {
    let (_armsim, client) = start().await;
    let body = json!({"location": "westus2"});
    let elsewhere = format!("{}/providers/Microsoft.App/jobs/job", group("nobody"));
    client.put(&elsewhere, APP, body.clone()).await.refused(404, "ResourceGroupNotFound");
    let child = in_group("Microsoft.Storage/storageAccounts/nobody/blobServices/default");
    let refused = client.put(&child, "2023-01-01", json!({})).await;
    refused.refused(404, "ParentResourceNotFound");
    assert_eq!(refused.header("x-ms-failure-cause"), Some("gateway"));
    client.get("/nothing/here", APP).await.refused(404, "NotFound");
}

#[tokio::test]
async fn locations_are_checked_and_never_change() {
    let (_armsim, client) = start().await;
    let refused = client.put(&group("h"), "2020-06-01", json!({"location": "BadLocation"})).await;
    refused.refused(400, "LocationNotAvailableForResourceGroup");
    assert!(message(&refused).contains("'BadLocation'") && message(&refused).contains("westus2"));
    client
        .put(&group("g"), "2020-06-01", json!({"location": "eastus"}))
        .await
        .refused(409, "InvalidResourceGroupLocation");
    let identity = in_group("Microsoft.ManagedIdentity/userAssignedIdentities/i");
    let put = |location: &str| {
        let body = json!({"location": location});
        let (client, identity) = (&client, &identity);
        async move { client.put(identity, "2023-01-31", body).await }
    };
    put("nowhere").await.refused(400, "LocationNotAvailableForResourceType");
    put("westus2").await.ok();
    put("West US 2").await.ok();
    put("eastus").await.refused(409, "InvalidResourceLocation");
    let zone = in_group("Microsoft.Network/dnsZones/example.com");
    client
        .put(&zone, "2018-05-01", json!({"location": "westus2"}))
        .await
        .refused(400, "LocationNotAvailableForResourceType");
    client.put(&zone, "2018-05-01", json!({"location": "global"})).await.ok();
}

#[tokio::test]
async fn names_are_checked_and_some_are_unique() {
    let (_armsim, client) = start().await;
    client
        .put(&group("ends."), "2020-06-01", json!({"location": "westus2"}))
        .await
        .refused(400, "InvalidResourceGroupName");
    let long = "x".repeat(91);
    client
        .put(&group(&long), "2020-06-01", json!({"location": "westus2"}))
        .await
        .refused(400, "InvalidResourceGroupName");
    let account = |group_name: &str, name: &str| {
        format!("{}/providers/Microsoft.Storage/storageAccounts/{name}", group(group_name))
    };
    let body = json!({"location": "westus2", "sku": {"name": "Standard_LRS"}});
    client.put(&account("g", "Has-Dash"), "2023-01-01", body.clone()).await.refused(400, "AccountNameInvalid");
    client.put(&account("g", "mine"), "2023-01-01", body.clone()).await.ok();
    client.put_group("other").await;
    client.put(&account("other", "mine"), "2023-01-01", body.clone()).await.refused(409, "StorageAccountAlreadyTaken");
}

#[tokio::test]
async fn a_container_app_needs_an_environment_that_is_provisioned() {
    let (armsim, client) = start().await;
    let (app, environment) =
        (in_group("Microsoft.App/containerApps/app"), in_group("Microsoft.App/managedEnvironments/env"));
    let body = json!({"location": "westus2", "properties": {"environmentId": environment.to_uppercase().replace("/SUBSCRIPTIONS/", "/subscriptions/"),
        "configuration": {"ingress": {"external": true, "targetPort": 80}}, "template": {"containers": [{"name": "c", "image": "i"}]}}});
    client.put(&app, APP, body.clone()).await.refused(404, "ManagedEnvironmentNotFound");
    armsim.change(serde_json::from_value(json!({"hold": ["*"]})).unwrap()).unwrap();
    client.put(&environment, APP, json!({"location": "westus2", "properties": {}})).await.ok();
    client.put(&app, APP, body.clone()).await.refused(400, "ManagedEnvironmentNotProvisioned");
    armsim.finish_operation(&armsim.operations()[0].id).unwrap();
    armsim.change(serde_json::from_value(json!({"hold": []})).unwrap()).unwrap();
    let domain = client.get(&environment, APP).await.body["properties"]["defaultDomain"].as_str().unwrap().to_owned();
    client.put(&app, APP, body.clone()).await.ok();
    let ready =
        until("ready", || client.get(&app, APP), |reply| reply.body["properties"]["provisioningState"] == "Succeeded")
            .await;
    assert_eq!(ready.body["properties"]["configuration"]["ingress"]["fqdn"], format!("app.{domain}"));
    client.put(&format!("{app}/authConfigs/current"), APP, json!({"properties": {}})).await.ok();
}

#[tokio::test]
async fn writes_collide_with_a_running_operation_where_the_type_minds() {
    let (armsim, client) = start().await;
    armsim.change(serde_json::from_value(json!({"hold": ["*"]})).unwrap()).unwrap();
    let environment = in_group("Microsoft.App/managedEnvironments/env");
    let body = json!({"location": "westus2", "properties": {}});
    client.put(&environment, APP, body.clone()).await.ok();
    client.put(&environment, APP, body.clone()).await.refused(409, "ManagedEnvironmentOperationInProgress");
    let vnet = in_group("Microsoft.Network/virtualNetworks/v");
    client.put(&vnet, "2025-03-01", body.clone()).await.ok();
    let busy = client.put(&format!("{vnet}/subnets/s"), "2025-03-01", json!({"properties": {}})).await;
    busy.refused(409, "AnotherOperationInProgress");
    assert!(message(&busy).contains("/locations/westus2/operations/"));
    client.delete(&vnet, "2025-03-01").await.refused(409, "AnotherOperationInProgress");
    // Types that do not mind start over.
    let job = in_group("Microsoft.App/jobs/job");
    let job_body = json!({"location": "westus2", "properties": {"template": {}}});
    client.put(&job, APP, job_body.clone()).await.ok();
    client.put(&job, APP, job_body).await.ok();
}

#[tokio::test]
async fn methods_and_sizes_have_limits() {
    let (_armsim, client) = start().await;
    let delete_list =
        client.send(Method::DELETE, &format!("{}?api-version={APP}", in_group("Microsoft.App/jobs"))).await;
    delete_list.refused(405, "MethodNotAllowed");
    let huge = json!({"location": "westus2", "tags": {"a": "x".repeat(4 * 1024 * 1024)}});
    client.put(&group("g"), "2020-06-01", huge).await.refused(413, "RequestContentTooLarge");
}

#[tokio::test]
async fn by_default_the_catalog_checks_versions_and_bodies() {
    let armsim = Armsim::start(Options::default()).await.unwrap();
    let client = Client::new(&armsim).await;
    client.put_group("g").await;
    let id = in_group("Microsoft.App/managedEnvironments/env");
    client
        .put(&id, APP, json!({"location": "westus2", "properties": {"zoneRedundant": "yes"}}))
        .await
        .refused(400, "InvalidRequestContent");
    client
        .put(&id, APP, json!({"location": "westus2", "properties": {"zoneRedundnat": true}}))
        .await
        .refused(400, "InvalidRequestContent");
    client.put(&id, APP, json!({"properties": {}})).await.refused(400, "LocationRequired");
    client.put(&id, "2012-01-01", json!({"location": "westus2"})).await.refused(400, "NoRegisteredProviderFound");
    client.put(&id, APP, json!({"location": "westus2", "properties": {"zoneRedundant": true}})).await.ok();
}
