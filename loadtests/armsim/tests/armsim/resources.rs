use flotilla_armsim::{Armsim, DEMO_SUBSCRIPTION, DEMO_TENANT, Options, ResourceFilter};
use reqwest::Method;
use serde_json::json;

use crate::client::{Client, group, reply};

const GROUPS: &str = "2020-06-01";

async fn start() -> (Armsim, Client) {
    let armsim = Armsim::start(Options { time_scale: 1000.0, ..Options::default() }).await.unwrap();
    let client = Client::new(&armsim).await;
    (armsim, client)
}

fn identity(group_name: &str, name: &str) -> String {
    format!("{}/providers/Microsoft.ManagedIdentity/userAssignedIdentities/{name}", group(group_name))
}

#[tokio::test]
async fn a_group_is_created_replaced_changed_and_found() {
    let (_armsim, client) = start().await;
    let id = group("Group-1");
    assert_eq!(client.send(Method::HEAD, &format!("{id}?api-version={GROUPS}")).await.status, 404);
    let created =
        client.put(&id, GROUPS, json!({"location": "westus2", "name": "Group-1", "tags": {"a": "1", "b": "2"}})).await;
    let body = json!({"id": id, "name": "Group-1", "type": "Microsoft.Resources/resourceGroups", "location": "westus2",
        "tags": {"a": "1", "b": "2"}, "properties": {"provisioningState": "Succeeded"}});
    assert_eq!((created.status, &created.body), (201, &body));
    let replaced = client
        .put(&id.replace("Group-1", "GROUP-1"), GROUPS, json!({"location": "West US 2", "tags": {"a": "1"}}))
        .await;
    assert_eq!(
        (replaced.status, &replaced.body["name"], &replaced.body["tags"]),
        (200, &json!("Group-1"), &json!({"a": "1"}))
    );
    let patched = client.with_body(Method::PATCH, &id, GROUPS, json!({"tags": {"a": null, "c": "3"}})).await;
    assert_eq!((patched.status, &patched.body["tags"]), (200, &json!({"c": "3"})));
    assert_eq!(client.get(&id.to_lowercase(), GROUPS).await.ok().body, patched.body);
    assert_eq!(client.send(Method::HEAD, &format!("{id}?api-version={GROUPS}")).await.status, 204);
}

#[tokio::test]
async fn an_identity_gets_ids_that_stay_until_it_is_deleted() {
    let (_armsim, client) = start().await;
    client.put_group("g").await;
    let (id, version) = (identity("g", "me"), "2023-01-31");
    let created = client.put(&id, version, json!({"location": "westus2", "name": "me"})).await;
    assert_eq!(created.status, 201);
    let shown = id.replace("/resourceGroups/", "/resourcegroups/");
    assert_eq!((created.header("location"), created.body["id"].as_str()), (Some(shown.as_str()), Some(shown.as_str())));
    assert_eq!((&created.body["properties"]["tenantId"], &created.body["tags"]), (&json!(DEMO_TENANT), &json!({})));
    let again = client.put(&id, version, json!({"location": "westus2", "tags": {"x": "y"}})).await;
    assert_eq!((again.status, &again.body["properties"]), (200, &created.body["properties"]));
    let credential = format!("{id}/federatedIdentityCredentials/f");
    let body = json!({"properties": {"issuer": "https://i", "subject": "s", "audiences": ["a"]}});
    assert_eq!(client.put(&credential, version, body).await.status, 201);
    assert_eq!(client.delete(&id, version).await.status, 200);
    client.get(&id, version).await.refused(404, "ResourceNotFound");
    client.get(&credential, version).await.refused(404, "ParentResourceNotFound");
    assert_eq!(client.delete(&id, version).await.status, 204, "deleting what is gone is no error");
    let recreated = client.put(&id, version, json!({"location": "westus2"})).await;
    assert_ne!(recreated.body["properties"]["clientId"], created.body["properties"]["clientId"]);
}

#[tokio::test]
async fn extensions_live_on_any_scope_and_go_with_it() {
    let (armsim, client) = start().await;
    client.put_group("g").await;
    let identity = identity("g", "me");
    client.put(&identity, "2023-01-31", json!({"location": "westus2"})).await.ok();
    let role = "providers/Microsoft.Authorization/roleAssignments/11111111-1111-1111-1111-111111111111";
    let body = json!({"properties": {"principalId": "p", "roleDefinitionId": "r"}});
    for scope in [identity.clone(), group("g"), format!("/subscriptions/{DEMO_SUBSCRIPTION}")] {
        let id = format!("{scope}/{role}");
        assert_eq!(client.put(&id, "2022-04-01", body.clone()).await.status, 201);
        assert_eq!(client.get(&id, "2022-04-01").await.ok().body["type"], "Microsoft.Authorization/roleAssignments");
        let list =
            client.get(&format!("{scope}/providers/Microsoft.Authorization/roleAssignments"), "2022-04-01").await.ok();
        assert!(!list.body["value"].as_array().unwrap().is_empty(), "{scope}");
    }
    let absent = format!("{}/{role}", identity.replace("/me", "/nobody"));
    client.put(&absent, "2022-04-01", body.clone()).await.refused(404, "ResourceNotFound");
    assert_eq!(
        client.put("/providers/Microsoft.Management/managementGroups/m", "2021-04-01", json!({})).await.status,
        201
    );
    client.delete(&identity, "2023-01-31").await.ok();
    let left = armsim.resources(&ResourceFilter { arm_type: Some("*/roleAssignments".into()), within: None }).unwrap();
    assert_eq!(left.len(), 2);
}

#[tokio::test]
async fn lists_come_in_pages_at_every_scope() {
    let (armsim, client) = start().await;
    for name in ["a", "b"] {
        client.put_group(name).await;
        for number in 0..5 {
            client
                .put(&identity(name, &format!("i ({number})")), "2023-01-31", json!({"location": "westus2"}))
                .await
                .ok();
        }
    }
    armsim.change(serde_json::from_value(json!({"pageSize": 2})).unwrap()).unwrap();
    for (scope, all) in [(group("a"), 5), (format!("/subscriptions/{DEMO_SUBSCRIPTION}"), 10)] {
        let mut url =
            format!("{scope}/providers/Microsoft.ManagedIdentity/userAssignedIdentities?api-version=2023-01-31");
        let mut names = Vec::new();
        loop {
            let page = client.send(Method::GET, &url).await.ok();
            let value = page.body["value"].as_array().unwrap().clone();
            assert!(value.len() <= 2);
            names.extend(value.iter().map(|item| item["id"].as_str().unwrap().to_owned()));
            let Some(next) = page.body["nextLink"].as_str() else { break };
            url = next.to_owned();
        }
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all, "{scope}");
    }
    let groups = client.get(&format!("/subscriptions/{DEMO_SUBSCRIPTION}/resourceGroups"), GROUPS).await.ok();
    assert_eq!(groups.body["value"].as_array().unwrap().len(), 2);
    let top = format!("{}/resources?api-version={GROUPS}&$top=3", group("a"));
    assert_eq!(client.send(Method::GET, &top).await.ok().body["value"].as_array().unwrap().len(), 3);
    client
        .get(&format!("{}/providers/Microsoft.X/y", group("nobody")), GROUPS)
        .await
        .refused(404, "ResourceGroupNotFound");
}

#[tokio::test]
async fn children_that_belong_to_the_body_are_shown_in_it_and_go_when_they_are_left_out() {
    let (_armsim, client) = start().await;
    client.put_group("g").await;
    let (vnet, version) = (format!("{}/providers/Microsoft.Network/virtualNetworks/v", group("g")), "2025-03-01");
    let body = |subnets: serde_json::Value| json!({"location": "westus2", "properties": {"addressSpace": {"addressPrefixes": ["10.0.0.0/8"]}, "subnets": subnets}});
    let settle = || async {
        let ready = |r: &crate::client::Reply| r.body["properties"]["provisioningState"] == "Succeeded";
        crate::client::until("ready", || client.get(&vnet, version), ready).await;
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    };
    client
        .put(&vnet, version, body(json!([{"name": "one", "properties": {"addressPrefix": "10.0.0.0/24"}}])))
        .await
        .ok();
    settle().await;
    client
        .put(&format!("{vnet}/subnets/two"), version, json!({"properties": {"addressPrefix": "10.0.1.0/24"}}))
        .await
        .ok();
    settle().await;
    let shown = client.get(&vnet, version).await.ok();
    let names: Vec<_> =
        shown.body["properties"]["subnets"].as_array().unwrap().iter().map(|subnet| subnet["name"].clone()).collect();
    assert_eq!(names, ["one", "two"]);
    client
        .put(&vnet, version, body(json!([{"name": "two", "properties": {"addressPrefix": "10.0.1.0/24"}}])))
        .await
        .ok();
    settle().await;
    client.get(&format!("{vnet}/subnets/one"), version).await.refused(404, "ResourceNotFound");
    client.get(&format!("{vnet}/subnets/two"), version).await.ok();
}

#[tokio::test]
async fn etags_guard_against_other_writers_where_the_type_has_them() {
    let (_armsim, client) = start().await;
    client.put_group("g").await;
    let id = format!("{}/providers/Microsoft.Network/privateDnsZones/z", group("g"));
    let put = |header: &'static str, value: String| {
        let request = client.request(Method::PUT, &format!("{id}?api-version=2024-06-01"));
        let request = request.header(header, value).body(json!({"location": "global"}).to_string());
        async { reply(request.send().await.unwrap()).await }
    };
    put("if-match", "*".into()).await.refused(412, "PreconditionFailed");
    put("if-none-match", "*".into()).await.ok();
    put("if-none-match", "*".into()).await.refused(412, "PreconditionFailed");
    let tag = client.get(&id, "2024-06-01").await.ok().header("etag").unwrap().to_owned();
    put("if-match", tag.clone()).await.ok();
    put("if-match", tag).await.refused(412, "PreconditionFailed");
}

#[tokio::test]
async fn actions_answer_the_same_keys_and_unknown_ones_nothing() {
    let (_armsim, client) = start().await;
    client.put_group("g").await;
    let id = format!("{}/providers/Microsoft.Storage/storageAccounts/acct1", group("g"));
    let body = json!({"location": "westus2", "kind": "StorageV2", "sku": {"name": "Standard_LRS"}});
    client.put(&id, "2023-01-01", body).await.ok();
    let list = format!("{id}/listKeys?api-version=2024-01-01");
    let first =
        crate::client::until("provisioned", || client.send(Method::POST, &list), |reply| reply.status == 200).await;
    let again = client.send(Method::POST, &list.replace("listKeys", "LISTKEYS")).await.ok();
    assert_eq!(first.body, again.body);
    assert_eq!(first.body["keys"][0]["value"].as_str().unwrap().len(), 88);
    assert_ne!(first.body["keys"][0]["value"], first.body["keys"][1]["value"]);
    client.send(Method::POST, &list.replace("listKeys", "dance")).await.refused(404, "NotFound");
    let register =
        format!("/subscriptions/{DEMO_SUBSCRIPTION}/providers/Microsoft.App/register?api-version=2021-04-01");
    assert_eq!(client.send(Method::POST, &register).await.ok().body["registrationState"], "Registered");
}
