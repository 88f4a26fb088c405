use std::time::{Duration, Instant};

use flotilla_armsim::{Armsim, JournalFilter, Method as Verb, Options, Outcome, Progress};
use reqwest::Method;
use serde_json::{Value, json};

use crate::client::{Client, group};

async fn start() -> (Armsim, Client) {
    let armsim = Armsim::start(Options::default()).await.unwrap();
    let client = Client::new(&armsim).await;
    (armsim, client)
}

fn rule(armsim: &Armsim, rule: Value) {
    armsim.add_fault(serde_json::from_value(rule).unwrap()).unwrap();
}

fn url() -> String {
    format!("{}?api-version=2020-06-01", group("g"))
}

async fn put(client: &Client) -> Result<u16, reqwest::Error> {
    let body = json!({"location": "westus2"}).to_string();
    client.request(Method::PUT, &url()).body(body).send().await.map(|reply| reply.status().as_u16())
}

/// Calls until the journal has the call, and a while longer: no answer comes.
async fn hangs(armsim: &Armsim, client: &Client) {
    let before = armsim.calls().len();
    let call = put(client);
    tokio::pin!(call);
    let journalled = until_true("in the journal", || armsim.calls().len() > before);
    tokio::select! {
        answer = &mut call => panic!("answered {answer:?}"),
        () = journalled => {}
    }
    assert!(tokio::time::timeout(Duration::from_millis(300), call).await.is_err(), "it was answered");
}

async fn until_true(what: &str, holds: impl Fn() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < Duration::from_mins(1), "not {what} within a minute");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn last(armsim: &Armsim) -> (Outcome, Option<u16>, String) {
    let entry = armsim.calls().pop().unwrap();
    (entry.outcome, entry.status, entry.fault.map(|name| name.to_string()).unwrap_or_default())
}

#[tokio::test]
async fn the_second_call_is_refused_as_asked() {
    let (armsim, client) = start().await;
    let status =
        json!({"kind": "status", "status": 503, "code": "ServiceUnavailable", "message": "soon", "retryAfter": 7});
    rule(
        &armsim,
        json!({"name": "flaky", "match": {"method": "PUT", "type": "microsoft.resources/*"}, "skip": 1, "count": 1, "action": status}),
    );
    assert_eq!(put(&client).await.unwrap(), 201);
    let refused = client.put(&group("g"), "2020-06-01", json!({"location": "westus2", "tags": {"a": "b"}})).await;
    refused.refused(503, "ServiceUnavailable");
    assert_eq!(refused.header("retry-after"), Some("7"));
    assert_eq!(last(&armsim), (Outcome::Refused, Some(503), "flaky".into()));
    assert!(client.get(&group("g"), "2020-06-01").await.body["tags"].is_null(), "it had no effect");
    assert_eq!(put(&client).await.unwrap(), 200);
    assert_eq!((armsim.faults()[0].seen, armsim.faults()[0].used), (3, 1));
}

#[tokio::test]
async fn a_connection_is_cut_before_or_after_the_effect() {
    let (armsim, client) = start().await;
    rule(&armsim, json!({"match": {"method": "PUT"}, "count": 1, "action": {"kind": "drop"}}));
    assert!(put(&client).await.unwrap_err().is_request());
    assert_eq!((last(&armsim).0, armsim.counts().resources), (Outcome::Dropped, 0));
    rule(&armsim, json!({"match": {"method": "PUT"}, "count": 1, "action": {"kind": "dropAfterEffect"}}));
    assert!(put(&client).await.unwrap_err().is_request());
    assert_eq!((last(&armsim).0, last(&armsim).1, armsim.counts().resources), (Outcome::Dropped, None, 1));
    assert_eq!(put(&client).await.unwrap(), 200, "the next call has a new connection");
}

#[tokio::test]
async fn a_call_hangs_before_or_after_the_effect() {
    let (armsim, client) = start().await;
    rule(&armsim, json!({"match": {"method": "PUT"}, "count": 1, "action": {"kind": "hang"}}));
    hangs(&armsim, &client).await;
    assert_eq!((last(&armsim).0, armsim.counts().resources), (Outcome::Hung, 0));
    rule(&armsim, json!({"match": {"method": "PUT"}, "count": 1, "action": {"kind": "hangAfterEffect"}}));
    hangs(&armsim, &client).await;
    assert_eq!((last(&armsim).0, armsim.counts().resources), (Outcome::Hung, 1));
}

#[tokio::test]
async fn a_delayed_call_takes_its_time_and_is_dropped_with_its_caller() {
    let (armsim, client) = start().await;
    rule(&armsim, json!({"match": {"method": "PUT"}, "count": 1, "action": {"kind": "delay", "milliseconds": 100}}));
    let started = Instant::now();
    assert_eq!(put(&client).await.unwrap(), 201);
    assert!(started.elapsed() >= Duration::from_millis(100));
    assert!(armsim.calls().pop().unwrap().duration >= Duration::from_millis(100));
    rule(&armsim, json!({"match": {"method": "DELETE"}, "action": {"kind": "delay", "milliseconds": 60000}}));
    let delayed =
        || armsim.faults().iter().any(|fault| fault.rule.matches.method == Some(Verb::Delete) && fault.used == 1);
    tokio::select! {
        answer = client.request(Method::DELETE, &url()).send() => panic!("answered {answer:?}"),
        () = until_true("delayed", delayed) => {} // the caller goes away
    }
    until_true("abandoned", || last(&armsim).0 == Outcome::Abandoned).await;
    client.get(&group("g"), "2020-06-01").await.ok();
}

#[tokio::test]
async fn operations_fail_or_stay_by_rule() {
    let (armsim, client) = start().await;
    client.put_group("g").await;
    let id = format!("{}/providers/Microsoft.App/managedEnvironments/env", group("g"));
    rule(
        &armsim,
        json!({"match": {"type": "*/managedEnvironments", "method": "PUT"}, "count": 1,
        "action": {"kind": "failOperation", "code": "InternalServerError", "message": "sorry"}}),
    );
    let created = client.put(&id, "2025-01-01", json!({"location": "westus2", "properties": {}})).await.ok();
    armsim.advance(61.0).unwrap();
    let poll = client.send(Method::GET, created.header("azure-asyncoperation").unwrap()).await;
    assert_eq!((&poll.body["status"], poll.code()), (&json!("Failed"), "InternalServerError"));
    rule(&armsim, json!({"match": {"method": "PUT"}, "count": 1, "action": {"kind": "holdOperation"}}));
    client.put(&id, "2025-01-01", json!({"location": "westus2", "properties": {}})).await.ok();
    armsim.advance(9999.0).unwrap();
    assert_eq!(armsim.operations().pop().unwrap().progress, Progress::InProgress);
}

#[tokio::test]
async fn tokens_can_go_wrong_too_and_callers_are_told_apart() {
    let (armsim, client) = start().await;
    rule(
        &armsim,
        json!({"match": {"path": "/*/oauth2/*", "caller": "2222*"}, "count": 1,
        "action": {"kind": "respond", "status": 429, "body": {"error": "temporarily_unavailable"}, "headers": [["Retry-After", "60"]]}}),
    );
    let form = "grant_type=client_credentials&client_id=22222222-2222-4222-8222-222222222222";
    let refused = client.token("t", form).await;
    assert_eq!(
        (refused.status, refused.header("retry-after"), &refused.body["error"]),
        (429, Some("60"), &json!("temporarily_unavailable"))
    );
    rule(&armsim, json!({"match": {"caller": "*(w-2)*"}, "action": {"kind": "drop"}}));
    client.put_group("still-works-for-w-1").await;
    armsim.clear_faults();
    assert!(armsim.faults().is_empty());
    let page =
        armsim.journal(&JournalFilter { outcome: Some(Outcome::Throttled), ..JournalFilter::default() }).unwrap();
    assert_eq!(page.entries.len(), 1);
}
