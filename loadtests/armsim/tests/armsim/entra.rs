use std::sync::Arc;
use std::time::{Duration, Instant};

use azure_core::cloud::{CloudConfiguration, CustomConfiguration};
use azure_core::credentials::TokenCredential as _;
use azure_core::http::{ClientOptions, Transport};
use azure_identity::{ClientSecretCredential, ClientSecretCredentialOptions};
use flotilla_armsim::{App, Armsim, DEMO_CLIENT_ID, DEMO_CLIENT_SECRET, DEMO_SUBSCRIPTION, DEMO_TENANT, Options};
use reqwest::Method;

use crate::client::{Client, group, http, reply, until};

#[tokio::test]
async fn the_azure_library_gets_a_token_that_arm_accepts() {
    let armsim = Armsim::start(Options::default()).await.unwrap();
    let mut cloud = CustomConfiguration::default();
    cloud.authority_host = armsim.endpoint().to_owned();
    let client_options = ClientOptions {
        transport: Some(Transport::new(Arc::new(http(&armsim, "azure")))),
        cloud: Some(Arc::new(CloudConfiguration::Custom(cloud))),
        ..ClientOptions::default()
    };
    let options = ClientSecretCredentialOptions { client_options };
    let credential = |secret: &str| {
        let options = ClientSecretCredentialOptions { client_options: options.client_options.clone() };
        ClientSecretCredential::new(DEMO_TENANT, DEMO_CLIENT_ID.into(), secret.to_owned().into(), Some(options))
            .unwrap()
    };
    let scope = format!("{}/.default", armsim.endpoint());
    let token = credential(DEMO_CLIENT_SECRET).get_token(&[&scope], None).await.unwrap();
    let url = format!("{}{}?api-version=2020-06-01", armsim.endpoint(), group("g"));
    let get = http(&armsim, "t").get(url).bearer_auth(token.token.secret());
    reply(get.send().await.unwrap()).await.refused(404, "ResourceGroupNotFound");
    let error = credential("wrong").get_token(&[&scope], None).await.unwrap_err();
    assert!(format!("{error:?}").contains("AADSTS7000215"), "{error:?}");
}

#[tokio::test]
async fn tokens_are_checked() {
    let armsim = Armsim::start(Options::default()).await.unwrap();
    let client = Client::new(&armsim).await;
    let url = format!("{}{}?api-version=2020-06-01", armsim.endpoint(), group("g"));
    let without = reply(client.http.get(&url).send().await.unwrap()).await;
    without.refused(401, "AuthenticationFailed");
    assert!(without.header("www-authenticate").unwrap().starts_with("Bearer authorization_uri="));
    let wrong = reply(client.http.get(&url).bearer_auth("made-up").send().await.unwrap()).await;
    wrong.refused(401, "InvalidAuthenticationToken");
    assert_eq!(armsim.expire_tokens(), 1);
    client.get(&group("g"), "2020-06-01").await.refused(401, "ExpiredAuthenticationToken");
}

#[tokio::test]
async fn a_token_expires_in_real_time() {
    let lifetime = Duration::from_secs(1);
    let options = Options { token_lifetime: lifetime, time_scale: 1.0, ..Options::default() };
    let armsim = Armsim::start(options).await.unwrap();
    let started = Instant::now();
    let client = Client::new(&armsim).await;
    let id = group("g");
    let refused = until("expired", || client.get(&id, "2020-06-01"), |reply| reply.status != 404).await;
    refused.refused(401, "ExpiredAuthenticationToken");
    assert!(started.elapsed() >= lifetime, "expired after {:?}", started.elapsed());
}

#[tokio::test]
async fn an_application_sees_only_its_subscriptions() {
    let armsim = Armsim::start(Options::default()).await.unwrap();
    let other = App {
        tenant: "t2".into(),
        client_id: "c2".into(),
        client_secret: "s2".into(),
        subscriptions: vec!["sub-2".into()],
    };
    armsim.register_app(other);
    let client = Client::of_app(&armsim, "t2", "c2", "s2").await;
    let foreign = client.get(&group("g"), "2020-06-01").await;
    foreign.refused(403, "AuthorizationFailed");
    let message = foreign.body["error"]["message"].as_str().unwrap();
    assert!(message.contains("'c2'") && message.contains("Microsoft.Resources/resourceGroups/read"), "{message}");
    client.get("/subscriptions/nobody/resourceGroups/g", "2020-06-01").await.refused(404, "SubscriptionNotFound");
    client.get("/subscriptions/SUB-2/resourceGroups/g", "2020-06-01").await.refused(404, "ResourceGroupNotFound");
    let list = client.get("/subscriptions", "2020-01-01").await.ok();
    assert_eq!(list.body["value"].as_array().unwrap().len(), 1);
    assert_eq!(list.body["value"][0]["subscriptionId"], "sub-2");
    let demo = Client::new(&armsim).await;
    let list = demo.send(Method::GET, "/subscriptions?api-version=2020-01-01").await.ok();
    assert_eq!(list.body["value"][0]["subscriptionId"], DEMO_SUBSCRIPTION);
}

#[tokio::test]
async fn a_form_without_its_content_type_is_no_form() {
    let armsim = Armsim::start(Options::default()).await.unwrap();
    let post = http(&armsim, "t").post(format!("{}/{DEMO_TENANT}/oauth2/v2.0/token", armsim.endpoint()));
    let answer = reply(post.body("grant_type=client_credentials").send().await.unwrap()).await;
    assert_eq!((answer.status, &answer.body["error_codes"][0]), (400, &serde_json::json!(900_144)));
}
