use std::sync::Arc;

use flotilla_armsim::{App, Armsim, JournalFilter, Method as M, Options, Outcome, Rate, Throttle};
use reqwest::Method;
use serde_json::json;

use crate::client::{Client, Reply, group};

async fn many(client: &Arc<Client>, method: &Method, url: &str, calls: usize) -> Vec<Reply> {
    let tasks = (0..calls).map(|_| {
        let (client, method, url) = (Arc::clone(client), method.clone(), url.to_owned());
        tokio::spawn(async move { client.send(method, &url).await })
    });
    let mut replies = Vec::new();
    for task in tasks.collect::<Vec<_>>() {
        replies.push(task.await.unwrap());
    }
    replies
}

fn throttled(replies: &[Reply]) -> Vec<&Reply> {
    replies.iter().filter(|reply| reply.status == 429).collect()
}

/// Time stands nearly still, so that nothing is refilled.
fn slow() -> Options {
    Options { time_scale: 1e-6, ..Options::default() }
}

#[tokio::test]
async fn reads_deletes_and_writes_have_buckets_of_their_own() {
    let armsim = Armsim::start(slow()).await.unwrap();
    let client = Arc::new(Client::new(&armsim).await);
    let url = format!("{}?api-version=2020-06-01", group("g"));
    let gets = many(&client, &Method::GET, &url, 260).await;
    let refused = throttled(&gets);
    assert_eq!(refused.len(), 10);
    refused[0].refused(429, "SubscriptionRequestsThrottled");
    assert!(refused[0].header("retry-after").unwrap().parse::<u64>().unwrap() >= 1);
    assert_eq!(refused[0].header("x-ms-ratelimit-remaining-subscription-reads"), Some("0"));
    assert_eq!(refused[0].header("x-ms-ratelimit-remaining-subscription-global-reads"), Some("3500"));
    assert_eq!(throttled(&many(&client, &Method::DELETE, &url, 205).await).len(), 5);
    let register = format!(
        "/subscriptions/{}/providers/Microsoft.App/register?api-version=2021-04-01",
        flotilla_armsim::DEMO_SUBSCRIPTION
    );
    assert_eq!(throttled(&many(&client, &Method::POST, &register, 203).await).len(), 3, "actions are writes");
    let counts = armsim.summary(&JournalFilter::default()).unwrap();
    assert_eq!(counts.by_outcome[&Outcome::Throttled], 18);
}

#[tokio::test]
async fn another_principal_has_its_own_bucket() {
    let armsim = Armsim::start(slow()).await.unwrap();
    let subscriptions = vec![flotilla_armsim::DEMO_SUBSCRIPTION.to_owned()];
    armsim.register_app(App { tenant: "t2".into(), client_id: "c2".into(), client_secret: "s2".into(), subscriptions });
    let url = format!("{}?api-version=2020-06-01", group("g"));
    let first = Arc::new(Client::new(&armsim).await);
    assert_eq!(throttled(&many(&first, &Method::GET, &url, 251).await).len(), 1);
    let second = Client::of_app(&armsim, "t2", "c2", "s2").await.send(Method::GET, &url).await;
    assert_eq!(second.header("x-ms-ratelimit-remaining-subscription-reads"), Some("249"));
    assert_eq!(second.header("x-ms-ratelimit-remaining-subscription-global-reads"), Some("3499"));
}

#[tokio::test]
async fn buckets_refill_in_simulated_time() {
    let armsim = Armsim::start(slow()).await.unwrap();
    let client = Arc::new(Client::new(&armsim).await);
    let url = format!("{}?api-version=2020-06-01", group("g"));
    many(&client, &Method::GET, &url, 251).await;
    armsim.advance(4.0).unwrap();
    assert_eq!(throttled(&many(&client, &Method::GET, &url, 110).await).len(), 10, "25 a second came back");
}

#[tokio::test]
async fn every_answer_says_who_answered() {
    let armsim = Armsim::start(Options { region: "EASTUS2".into(), ..Options::default() }).await.unwrap();
    let client = Client::new(&armsim).await;
    let request = client.request(Method::GET, &format!("{}?api-version=2020-06-01", group("g")));
    let request = request.header("x-ms-client-request-id", "mine").header("x-ms-correlation-request-id", "shared");
    let reply = crate::client::reply(request.send().await.unwrap()).await;
    assert_eq!(
        (reply.header("x-ms-client-request-id"), reply.header("x-ms-correlation-request-id")),
        (Some("mine"), Some("shared"))
    );
    let routing = reply.header("x-ms-routing-request-id").unwrap();
    assert!(routing.starts_with("EASTUS2:2") && routing.ends_with(":shared"), "{routing}");
    assert_eq!(reply.header("x-ms-request-id").unwrap().len(), 36);
    let entry = armsim.calls().pop().unwrap();
    assert_eq!((entry.client_request_id.as_deref(), &*entry.correlation_id), (Some("mine"), "shared"));
    assert_eq!(Some(&*entry.request_id), reply.header("x-ms-request-id"));
}

#[tokio::test]
async fn a_service_throttles_by_rule() {
    let rule = Throttle {
        arm_type: "Microsoft.Storage/*".into(),
        methods: vec![M::Put],
        per_resource: false,
        rate: Rate::new(2.0, 0.1),
        code: "TooManyRequests".into(),
    };
    let armsim = Armsim::start(Options { throttles: vec![rule], ..slow() }).await.unwrap();
    let client = Client::new(&armsim).await;
    client.put_group("g").await;
    let mut statuses = Vec::new();
    for number in 0..3 {
        let id = format!("{}/providers/Microsoft.Storage/storageAccounts/acct{number}", group("g"));
        statuses.push(
            client
                .put(
                    &id,
                    "2023-01-01",
                    json!({"location": "westus2", "kind": "StorageV2", "sku": {"name": "Standard_LRS"}}),
                )
                .await,
        );
    }
    assert_eq!([statuses[0].status, statuses[1].status], [202, 202]);
    statuses[2].refused(429, "TooManyRequests");
    assert_eq!(statuses[2].header("retry-after"), Some("10"));
}

#[tokio::test]
async fn buckets_can_be_turned_off() {
    let armsim = Armsim::start(slow()).await.unwrap();
    let client = Arc::new(Client::new(&armsim).await);
    armsim.change(serde_json::from_value(json!({"rates": false})).unwrap()).unwrap();
    let url = format!("{}?api-version=2020-06-01", group("g"));
    assert_eq!(throttled(&many(&client, &Method::GET, &url, 300).await).len(), 0);
}
