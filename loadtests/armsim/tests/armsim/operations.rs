use std::time::Duration;

use flotilla_armsim::{Armsim, Options, Progress, ResourceFilter};
use reqwest::Method;
use serde_json::json;

use crate::client::{Client, Reply, group, until};

const APP: &str = "2025-01-01";

async fn start(options: Options) -> (Armsim, Client) {
    let armsim = Armsim::start(options).await.unwrap();
    let client = Client::new(&armsim).await;
    client.put_group("g").await;
    (armsim, client)
}

fn held() -> Options {
    Options { hold: vec!["*".into()], ..Options::default() }
}

fn environment() -> String {
    format!("{}/providers/Microsoft.App/managedEnvironments/env", group("g"))
}

fn account() -> String {
    format!("{}/providers/Microsoft.Storage/storageAccounts/acct", group("g"))
}

fn state(reply: &Reply) -> &str {
    reply.body["properties"]["provisioningState"].as_str().unwrap_or_default()
}

fn only_operation(armsim: &Armsim) -> String {
    let running: Vec<_> =
        armsim.operations().into_iter().filter(|operation| operation.progress == Progress::InProgress).collect();
    assert_eq!(running.len(), 1, "{running:?}");
    running[0].id.clone()
}

async fn put_account(client: &Client) -> Reply {
    let body = json!({"location": "westus2", "kind": "StorageV2", "sku": {"name": "Standard_LRS"}});
    client.put(&account(), "2025-06-01", body).await.ok()
}

#[tokio::test]
async fn an_environment_is_201_with_a_status_url_and_becomes_ready() {
    let (armsim, client) = start(held()).await;
    let created =
        client.put(&environment(), APP, json!({"location": "westus2", "name": "env", "properties": {}})).await;
    assert_eq!((created.status, state(&created), created.header("retry-after")), (201, "Waiting", Some("15")));
    assert_eq!((created.header("location"), &created.body["location"]), (None, &json!("West US 2")));
    let url = created.header("azure-asyncoperation").unwrap().to_owned();
    assert!(
        url.starts_with(armsim.endpoint()) && url.contains("/locations/westus2/managedEnvironmentOperationStatuses/"),
        "{url}"
    );
    let poll = client.send(Method::GET, &url).await;
    assert_eq!((poll.status, &poll.body["status"]), (200, &json!("InProgress")));
    armsim.finish_operation(&only_operation(&armsim)).unwrap();
    assert_eq!(client.send(Method::GET, &url).await.body["status"], "Succeeded");
    let ready = client.get(&environment(), APP).await.ok();
    assert_eq!(
        (state(&ready), &ready.body["properties"]["defaultDomain"]),
        ("Succeeded", &created.body["properties"]["defaultDomain"])
    );
    let updated =
        client.put(&environment(), APP, json!({"location": "westus2", "tags": {"a": "b"}, "properties": {}})).await;
    assert_eq!((updated.status, state(&updated)), (201, "Updating"));
}

#[tokio::test]
async fn an_account_is_202_with_a_result_url_and_no_body() {
    let (armsim, client) = start(held()).await;
    let accepted = put_account(&client).await;
    assert_eq!((accepted.status, &accepted.body, accepted.header("azure-asyncoperation")), (202, &json!(""), None));
    let url = accepted.header("location").unwrap().to_owned();
    let poll = client.send(Method::GET, &url).await;
    assert_eq!((poll.status, poll.header("retry-after")), (202, Some("17")));
    let keys = format!("{}/listKeys?api-version=2024-01-01", account());
    client.send(Method::POST, &keys).await.refused(409, "StorageAccountIsNotProvisioned");
    armsim.finish_operation(&only_operation(&armsim)).unwrap();
    let done = client.send(Method::GET, &url).await;
    assert_eq!(
        (done.status, &done.body["properties"]["primaryEndpoints"]["blob"]),
        (200, &json!("https://acct.blob.core.windows.net/"))
    );
}

#[tokio::test]
async fn a_type_may_announce_nothing_and_still_work_on() {
    let (armsim, client) = start(held()).await;
    let id = format!("{}/providers/Microsoft.EventHub/namespaces/n", group("g"));
    let created = client.put(&id, "2024-01-01", json!({"location": "westus2"})).await.ok();
    assert_eq!((created.header("azure-asyncoperation"), created.header("location")), (None, None));
    assert_ne!(state(&created), "Succeeded");
    armsim.finish_operation(&only_operation(&armsim)).unwrap();
    assert_eq!(state(&client.get(&id, "2024-01-01").await), "Succeeded");
}

#[tokio::test]
async fn a_network_delete_has_both_urls_and_an_end() {
    let (armsim, client) = start(Options { time_scale: 100.0, ..Options::default() }).await;
    let id = format!("{}/providers/Microsoft.Network/virtualNetworks/v", group("g"));
    let created = client.put(&id, "2025-03-01", json!({"location": "westus2", "properties": {}})).await.ok();
    assert_eq!((created.status, created.header("azure-asyncnotification")), (201, Some("Enabled")));
    until("ready", || client.get(&id, "2025-03-01"), |reply| state(reply) == "Succeeded").await;
    armsim.change(serde_json::from_value(json!({"hold": ["*"]})).unwrap()).unwrap();
    let deleted = client.delete(&id, "2025-03-01").await;
    assert_eq!(deleted.status, 202);
    let urls = ["azure-asyncoperation", "location"].map(|name| deleted.header(name).unwrap().to_owned());
    assert_eq!(client.delete(&id, "2025-03-01").await.status, 202, "a second delete is told of the first");
    assert_eq!(state(&client.get(&id, "2025-03-01").await), "Deleting");
    armsim.finish_operation(&only_operation(&armsim)).unwrap();
    assert_eq!(client.send(Method::GET, &urls[0]).await.body, json!({"status": "Succeeded"}));
    assert_eq!(client.send(Method::GET, &urls[1]).await.status, 204);
    client.get(&id, "2025-03-01").await.refused(404, "ResourceNotFound");
}

#[tokio::test]
async fn a_failed_operation_says_why_and_leaves_a_failed_resource() {
    let (armsim, client) = start(held()).await;
    let created = client.put(&environment(), APP, json!({"location": "westus2", "properties": {}})).await.ok();
    armsim.fail_operation(&only_operation(&armsim), "ManagedEnvironmentQuotaExceeded", "too many").unwrap();
    let poll = client.send(Method::GET, created.header("azure-asyncoperation").unwrap()).await;
    assert_eq!(
        (poll.status, &poll.body["status"], poll.code()),
        (200, &json!("Failed"), "ManagedEnvironmentQuotaExceeded")
    );
    assert_eq!(state(&client.get(&environment(), APP).await), "Failed");
    assert!(armsim.fail_operation("nobody", "a", "b").is_err());
}

#[tokio::test]
async fn a_group_takes_what_is_in_it_along() {
    let (armsim, client) = start(Options { time_scale: 20.0, ..Options::default() }).await;
    for number in 0..10 {
        let id = format!("{}/providers/Microsoft.ManagedIdentity/userAssignedIdentities/i{number}", group("g"));
        client.put(&id, "2023-01-31", json!({"location": "westus2"})).await.ok();
    }
    let deleted = client.delete(&group("g"), "2020-06-01").await;
    assert_eq!((deleted.status, deleted.header("retry-after")), (202, Some("15")));
    let url = deleted.header("location").unwrap().to_owned();
    assert!(url.contains("/operationresults/"), "{url}");
    let late = format!("{}/providers/Microsoft.ManagedIdentity/userAssignedIdentities/late", group("g"));
    client.put(&late, "2023-01-31", json!({"location": "westus2"})).await.refused(409, "ResourceGroupBeingDeleted");
    assert_eq!(state(&client.get(&group("g"), "2020-06-01").await), "Deleting");
    let running = client.send(Method::GET, &url).await;
    assert_eq!(running.status, 202);
    until("gone", || client.send(Method::GET, &url), |reply| reply.status == 200).await;
    assert_eq!(armsim.resources(&ResourceFilter::default()).unwrap().len(), 0);
    client.get(&late, "2023-01-31").await.refused(404, "ResourceGroupNotFound");
    client.delete(&late, "2023-01-31").await.refused(404, "ResourceGroupNotFound");
    client.delete(&group("g"), "2020-06-01").await.refused(404, "ResourceGroupNotFound");
}

#[tokio::test]
async fn time_runs_faster_and_answers_say_the_same() {
    let (armsim, client) = start(Options { time_scale: 60.0, ..Options::default() }).await;
    let started = std::time::Instant::now();
    let created = client.put(&environment(), APP, json!({"location": "westus2", "properties": {}})).await.ok();
    assert_eq!(created.header("retry-after"), Some("15"));
    let id = environment();
    until("ready", || client.get(&id, APP), |reply| state(reply) == "Succeeded").await;
    let took = started.elapsed();
    assert!(took >= Duration::from_millis(990), "60 simulated seconds took {took:?}");
    let operation = &armsim.operations()[0];
    assert!((operation.ended.unwrap() - operation.started - 60.0).abs() < 1e-6);
}

#[tokio::test]
async fn operations_are_advanced_held_and_forgotten_by_hand() {
    let (armsim, client) = start(Options::default()).await;
    let created = client.put(&environment(), APP, json!({"location": "westus2", "properties": {}})).await.ok();
    let url = created.header("azure-asyncoperation").unwrap().to_owned();
    let id = only_operation(&armsim);
    armsim.advance_operation(&id, 30.0).unwrap();
    assert_eq!(client.send(Method::GET, &url).await.body["status"], "InProgress");
    armsim.hold_operation(&id).unwrap();
    armsim.advance(1000.0).unwrap();
    assert_eq!(client.send(Method::GET, &url).await.body["status"], "InProgress");
    armsim.advance_operation(&id, 1.0).unwrap();
    assert_eq!(client.send(Method::GET, &url).await.body["status"], "Succeeded", "one that is held goes on");
    armsim.forget_operation(&id).unwrap();
    assert_eq!(client.send(Method::GET, &url).await.status, 404);
}

#[tokio::test]
async fn a_poll_needs_the_whole_url() {
    let (_armsim, client) = start(held()).await;
    let created = client.put(&environment(), APP, json!({"location": "westus2", "properties": {}})).await.ok();
    let url = created.header("azure-asyncoperation").unwrap();
    client.send(Method::GET, url.split("&t=").next().unwrap()).await.refused(400, "InvalidOperationSignature");
    client.send(Method::GET, url.split('?').next().unwrap()).await.refused(400, "MissingApiVersionParameter");
}

#[tokio::test]
async fn a_patch_that_takes_time_is_202() {
    let (armsim, client) = start(held()).await;
    put_account(&client).await;
    let id = only_operation(&armsim);
    armsim.finish_operation(&id).unwrap();
    let patched = client.with_body(Method::PATCH, &account(), "2025-06-01", json!({"tags": {"a": "b"}})).await;
    assert_eq!(
        (patched.status, &patched.body["tags"], &patched.body["kind"]),
        (200, &json!({"a": "b"}), &json!("StorageV2"))
    );
    client.put(&environment(), APP, json!({"location": "westus2", "properties": {}})).await.ok();
    armsim.finish_operation(&only_operation(&armsim)).unwrap();
    let patched = client.with_body(Method::PATCH, &environment(), APP, json!({"tags": {"a": "b"}})).await;
    assert_eq!(patched.status, 202);
    assert!(patched.header("location").is_some() && patched.header("azure-asyncoperation").is_some());
}

#[tokio::test]
async fn what_is_being_deleted_is_not_written() {
    let (armsim, client) = start(Options { time_scale: 1000.0, ..Options::default() }).await;
    let (zone, version) = (format!("{}/providers/Microsoft.Network/privateDnsZones/z.com", group("g")), "2024-06-01");
    client.put(&zone, version, json!({"location": "global"})).await.ok();
    until("ready", || client.get(&zone, version), |reply| state(reply) == "Succeeded").await;
    armsim.change(serde_json::from_value(json!({"hold": ["*"]})).unwrap()).unwrap();
    assert_eq!(client.delete(&zone, version).await.status, 202);
    client.put(&zone, version, json!({"location": "global"})).await.refused(409, "Conflict");
    armsim.finish_operation(&only_operation(&armsim)).unwrap();
    assert_eq!(client.put(&zone, version, json!({"location": "global"})).await.status, 202);
}
