use flotilla_armsim::{Armsim, Options};
use reqwest::Method;
use serde_json::{Value, json};

use crate::client::{Client, Reply, group, reply};

struct Admin {
    http: reqwest::Client,
    base: String,
}

impl Admin {
    async fn send(&self, method: Method, path: &str, body: Value) -> Reply {
        let request = self.http.request(method, format!("{}/_sim/{path}", self.base));
        let request = if body.is_null() { request } else { request.body(body.to_string()) };
        reply(request.send().await.unwrap()).await
    }

    async fn get(&self, path: &str) -> Value {
        self.send(Method::GET, path, Value::Null).await.ok().body
    }
}

async fn start() -> (Armsim, Client, Admin) {
    let armsim = Armsim::start(Options::default()).await.unwrap();
    let client = Client::new(&armsim).await;
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let admin = Admin { http, base: armsim.admin_url().to_owned() };
    (armsim, client, admin)
}

fn environment() -> String {
    format!("{}/providers/Microsoft.App/managedEnvironments/env", group("g"))
}

#[tokio::test]
async fn faults_settings_and_operations_are_driven_over_http() {
    let (_armsim, client, admin) = start().await;
    client.put_group("g").await;
    let rule =
        json!({"match": {"method": "GET"}, "action": {"kind": "status", "status": 500, "code": "InternalServerError"}});
    let id = admin.send(Method::POST, "faults", rule).await.ok().body["id"].clone();
    client.get(&group("g"), "2020-06-01").await.refused(500, "InternalServerError");
    assert_eq!(admin.get("faults").await["faults"][0]["used"], 1);
    admin.send(Method::DELETE, &format!("faults/{id}"), Value::Null).await.ok();
    client.get(&group("g"), "2020-06-01").await.ok();

    let changed =
        admin.send(Method::PATCH, "settings", json!({"timeScale": 2, "hold": ["Microsoft.App/*"]})).await.ok();
    assert_eq!(
        (&changed.body["timeScale"], &changed.body["rates"]["writes"]["capacity"]),
        (&json!(2.0), &json!(200.0))
    );
    let created = client.put(&environment(), "2025-01-01", json!({"location": "westus2", "properties": {}})).await.ok();
    let operation = admin.get("operations").await["operations"][0].clone();
    assert_eq!(
        (&operation["progress"]["status"], &operation["due"], &operation["work"]),
        (&json!("inProgress"), &Value::Null, &json!("create"))
    );
    let path = format!("operations/{}", operation["id"].as_str().unwrap());
    admin.send(Method::POST, &format!("{path}/advance"), json!({"seconds": 5})).await.ok();
    let poll = client.send(Method::GET, created.header("azure-asyncoperation").unwrap()).await;
    assert_eq!(poll.body["status"], "Succeeded");
    assert_eq!(admin.send(Method::POST, &format!("{path}/finish"), Value::Null).await.status, 404, "it is over");
    let before = admin.get("health").await["simSeconds"].as_f64().unwrap();
    let after = admin.send(Method::POST, "clock/advance", json!({"seconds": 100})).await.ok().body["simSeconds"]
        .as_f64()
        .unwrap();
    assert!(after >= before + 100.0);
}

#[tokio::test]
async fn resources_change_and_go_behind_everybodys_back() {
    let (_armsim, client, admin) = start().await;
    client.put_group("g").await;
    client
        .put(&environment(), "2025-01-01", json!({"location": "westus2", "properties": {"zoneRedundant": false}}))
        .await
        .ok();
    let change = json!({"id": environment().to_uppercase().replace("/PROVIDERS/", "/providers/"), "merge": {"properties": {"zoneRedundant": true}}, "provisioningState": "Failed"});
    admin.send(Method::PATCH, "resources", change).await.ok();
    let shown = client.get(&environment(), "2025-01-01").await.ok();
    assert_eq!(
        (&shown.body["properties"]["zoneRedundant"], &shown.body["properties"]["provisioningState"]),
        (&json!(true), &json!("Failed"))
    );
    let listed = admin.get(&format!("resources?type=microsoft.app/*&within={}", group("g"))).await;
    assert_eq!(
        (listed["resources"].as_array().unwrap().len(), &listed["resources"][0]["id"]),
        (1, &json!(environment()))
    );
    let calls = admin.get("health").await["calls"].clone();
    admin.send(Method::DELETE, &format!("resources?id={}", environment()), Value::Null).await.ok();
    assert_eq!(admin.get("health").await["calls"], calls, "none of it is in the journal");
    client.get(&environment(), "2025-01-01").await.refused(404, "ResourceNotFound");
    assert_eq!(admin.send(Method::DELETE, &format!("resources?id={}", environment()), Value::Null).await.status, 404);
}

#[tokio::test]
async fn the_journal_has_every_call_and_its_cursor_loses_none() {
    let (_armsim, client, admin) = start().await;
    client.put_group("g").await;
    let first = admin.get("journal").await;
    let entry = &first["entries"][1];
    assert_eq!((&entry["method"], &entry["path"], &entry["status"]), (&json!("PUT"), &json!(group("g")), &json!(201)));
    assert_eq!(
        (&entry["apiVersion"], &entry["userAgent"], &entry["outcome"]),
        (&json!("2020-06-01"), &json!("test/1 (w-1)"), &json!("ok"))
    );
    assert_eq!(
        (entry["bodyHash"].as_str().unwrap().len(), &entry["armType"]),
        (16, &json!("Microsoft.Resources/resourceGroups"))
    );
    assert!(
        entry["durationMicros"].as_u64().is_some()
            && entry["simSeconds"].as_f64().is_some()
            && entry["time"].as_str().is_some()
    );
    assert!(first["entries"][0]["bodyHash"].is_null(), "the body of a token request holds a secret");
    client.get(&group("g"), "2020-06-01").await.ok();
    let next = admin.get(&format!("journal?since={}", first["next"])).await;
    assert_eq!((next["entries"].as_array().unwrap().len(), &next["entries"][0]["seq"]), (1, &json!(3)));
    let gets =
        admin.get("journal?method=GET&type=microsoft.resources/*&path=*/g&caller=*w-1*&status=200&outcome=ok").await;
    assert_eq!(gets["entries"].as_array().unwrap().len(), 1);
    let summary = admin.get("journal/summary").await;
    assert_eq!(
        (&summary["calls"], &summary["byMethod"]["PUT"], &summary["byStatus"]["200"]),
        (&json!(3), &json!(1), &json!(2))
    );
    assert_eq!(summary["byType"]["Microsoft.Resources/resourceGroups"]["GET"], 1);
}

#[tokio::test]
async fn applications_are_registered_and_tokens_expire() {
    let (armsim, client, admin) = start().await;
    let app = json!({"tenant": "t", "clientId": "c", "clientSecret": "s", "subscriptions": ["sub"]});
    admin.send(Method::POST, "apps", app).await.ok();
    let other = Client::of_app(&armsim, "t", "c", "s").await;
    other.get("/subscriptions/sub/resourceGroups/g", "2020-06-01").await.refused(404, "ResourceGroupNotFound");
    assert_eq!(admin.send(Method::POST, "tokens/expire", Value::Null).await.ok().body["expired"], 2);
    client.get(&group("g"), "2020-06-01").await.refused(401, "ExpiredAuthenticationToken");
}

#[tokio::test]
async fn wrong_input_is_answered_with_what_is_wrong() {
    let (_armsim, _client, admin) = start().await;
    for (method, path, body, says) in [
        (
            Method::POST,
            "faults",
            json!({"match": {"methods": "GET"}, "action": {"kind": "drop"}}),
            "unknown field `methods`",
        ),
        (Method::POST, "faults", json!({"action": {"kind": "explode"}}), "unknown variant `explode`"),
        (
            Method::POST,
            "faults",
            json!({"match": {"path": "["}, "action": {"kind": "drop"}}),
            "failed to read the glob",
        ),
        (Method::DELETE, "faults/x", Value::Null, "is not the number of a fault"),
        (Method::PATCH, "settings", json!({"timeScale": 0}), "timeScale is 0"),
        (Method::PATCH, "settings", json!({"speed": 1}), "unknown field `speed`"),
        (Method::POST, "clock/advance", json!({"seconds": -1}), "is not a number of seconds"),
        (Method::POST, "clock/advance", json!("x"), "failed to read the body"),
        (Method::POST, "operations/x/explode", Value::Null, "hold, advance, finish, fail or forget"),
        (Method::GET, "journal?sinse=1", Value::Null, "unknown field `sinse`"),
        (Method::PATCH, "resources", json!({"id": "x"}), "is not an ARM id"),
        (Method::POST, "apps", json!({"tenant": "t"}), "missing field"),
    ] {
        let answer = admin.send(method, path, body).await;
        assert_eq!(answer.status, 400, "{path}: {answer:?}");
        assert!(answer.body["error"].as_str().unwrap().contains(says), "{path}: {}", answer.body);
    }
    assert_eq!(admin.send(Method::GET, "nothing", Value::Null).await.status, 404);
    assert_eq!(admin.send(Method::POST, "operations/x/finish", Value::Null).await.status, 404);
}

#[tokio::test]
async fn armsim_stops_when_it_is_told_to() {
    let (armsim, _client, admin) = start().await;
    let control = armsim.control();
    armsim.stop().await;
    assert!(admin.http.get(format!("{}/_sim/health", admin.base)).send().await.is_err());
    assert_eq!(control.counts().calls, 1, "its journal can still be read");
}
