//! What goes wrong between the worker and ARM, and what is made of it.

use flotilla_armsim::{FaultAction, FaultMatch, Outcome as Journalled, Rate, Rates};
use flotilla_worker::arm::{Category, Retry, Severity};
use flotilla_worker::budget::Class;

use super::*;

fn puts() -> FaultMatch {
    FaultMatch { method: Some(Method::Put), ..FaultMatch::default() }
}

#[tokio::test]
async fn journal_knows_the_caller_and_the_reconcile() {
    let azure = FakeAzure::start().await;
    let correlation = uuid::Uuid::new_v4();
    let id = format!("/subscriptions/{DEMO_SUBSCRIPTION}/resourceGroups/known");
    let body = json!({"location": "westus2"});
    let answer = azure.send(Call::put(&id, GROUPS, &body, Priority::UserChange).correlated(correlation)).await.unwrap();
    let calls = azure.sim.calls();
    let call = calls.iter().find(|call| call.method == Method::Put).unwrap();
    assert_eq!(call.user_agent.to_string(), format!("flotilla/{} worker/w-0", env!("CARGO_PKG_VERSION")));
    assert_eq!(&*call.correlation_id, correlation.to_string());
    assert!(call.client_request_id.as_deref().is_some_and(|id| uuid::Uuid::parse_str(id).is_ok()));
    assert_eq!(answer.correlation_id.as_deref(), Some(&*call.correlation_id));
    assert_eq!(answer.request_id.as_deref(), Some(&*call.request_id));
}

#[tokio::test]
async fn rate_headers_are_seen_with_their_region() {
    let azure = FakeAzure::start().await;
    let id = format!("/subscriptions/{DEMO_SUBSCRIPTION}/resourceGroups/rates");
    let answer = azure.put(&id, &json!({"location": "westus2"})).await.unwrap();
    assert_eq!(answer.rate.region.as_deref(), Some("westus2"));
    let [(Class::Write, left)] = answer.rate.remaining[..] else { panic!("{:?}", answer.rate) };
    assert!((100..200).contains(&left), "{left}");
}

#[tokio::test]
async fn full_bucket_is_said_with_its_wait() {
    let slow = Rate { capacity: 1.0, refill: 0.1 };
    let rates = Rates { writes: slow, ..Rates::default() };
    let azure = FakeAzure::with(1.0, Options { rates: Some(rates), ..Options::default() }).await;
    let group = azure.group("one").await;
    let error = azure.put(&group, &json!({"location": "westus2"})).await.unwrap_err();
    assert_eq!((error.status(), error.category()), (Some(429), Category::Throttled));
    let wait = error.rate().throttled_for.unwrap();
    assert!((Duration::from_secs(1)..=Duration::from_secs(11)).contains(&wait), "{wait:?}");
    assert_eq!(error.retry(), Retry::After(wait));
    assert!(error.rate().by_gateway && error.rate().region.is_some());
    assert!(error.message().contains("Flotilla retries in"), "{}", error.message());
}

#[tokio::test]
async fn wrong_secret_names_the_client_and_recovers_with_the_right_one() {
    let azure = FakeAzure::start().await;
    let wrong = settings(&azure.sim, "not-it").global(&azure.client).unwrap();
    let id = format!("/subscriptions/{DEMO_SUBSCRIPTION}/resourceGroups/x");
    for _ in 0..5 {
        let error = azure.client.send(&wrong, Call::get(&id, GROUPS, Priority::UserChange)).await.unwrap_err();
        assert_eq!((error.reason(), error.severity()), ("AuthenticationFailed", Severity::Warning));
        let message = error.message();
        for part in ["AADSTS7000215", DEMO_TENANT, DEMO_CLIENT_ID] {
            assert!(message.contains(part), "{message}");
        }
        assert!(!message.contains("not-it") && !message.contains("Trace ID"), "{message}");
    }
    assert_eq!(azure.token_calls(), 1, "Entra was asked once, not by each of five calls");
    assert!(azure.send(Call::get(&id, GROUPS, Priority::UserChange)).await.unwrap_err().is_gone());
}

#[tokio::test]
async fn expired_token_costs_one_more_call() {
    let azure = FakeAzure::start().await;
    let group = azure.group("expired").await;
    azure.sim.expire_tokens();
    azure.read(&group).await.unwrap();
    let outcomes: Vec<_> =
        azure.sim.calls().iter().filter(|call| call.method == Method::Get).map(|call| call.outcome).collect();
    assert_eq!(outcomes, [Journalled::Unauthorized, Journalled::Ok]);
    assert_eq!(azure.token_calls(), 2);
}

#[tokio::test]
async fn refusals_of_arm_get_their_verdicts() {
    let azure = FakeAzure::start().await;
    let group = azure.group("refusals").await;
    let orphan = format!("/subscriptions/{DEMO_SUBSCRIPTION}/resourceGroups/nowhere/providers/Microsoft.App/jobs/j");
    let body = json!({"location": "westus2", "properties": {}});
    let error = azure.put(&orphan, &body).await.unwrap_err();
    assert_eq!((error.reason(), error.category()), ("ResourceGroupNotFound", Category::MissingDependency));
    let far = "/subscriptions/99999999-0000-0000-0000-000000000000/resourceGroups/x";
    let error = azure.put(far, &json!({"location": "westus2"})).await.unwrap_err();
    assert_eq!(error.category(), Category::Authorization, "{error:?}");
    for (status, code, category, retry) in [
        (400, "InvalidRequestContent", Category::Invalid, Retry::UntilSpecChanges),
        (400, "SomethingNew", Category::Invalid, Retry::VerySlow),
        (403, "AuthorizationFailed", Category::Authorization, Retry::Slow),
        (409, "AnotherOperationInProgress", Category::Busy, Retry::Slow),
        (409, "MissingSubscriptionRegistration", Category::NotRegistered, Retry::Slow),
        (500, "InternalServerError", Category::Transient, Retry::Fast),
    ] {
        let action =
            FaultAction::Status { status, code: code.to_owned(), message: "because".to_owned(), retry_after: None };
        azure.fault(puts(), 1, action);
        let error = azure.put(&group, &json!({"location": "westus2"})).await.unwrap_err();
        assert_eq!(
            (error.status(), error.reason(), error.category(), error.retry()),
            (Some(status), code, category, retry)
        );
    }
    azure.put(&group, &json!({"location": "westus2"})).await.unwrap();
}

#[tokio::test]
async fn unknown_version_is_not_taken_for_an_unregistered_provider() {
    let azure = FakeAzure::with(SCALE, Options::default()).await;
    let group = azure.group("versions").await;
    let id = format!("{group}/providers/Microsoft.App/managedEnvironments/env-1");
    let error = azure.put(&id, &json!({"location": "westus2", "properties": {}})).await.unwrap_err();
    assert_eq!((error.reason(), error.category()), ("NoRegisteredProviderFound", Category::Invalid));
    assert!(error.message().contains("2024-03-01"), "{}", error.message());
    assert!(!azure.client.register(&azure.identity, &error).await.unwrap());
}

#[tokio::test]
async fn missing_provider_is_registered() {
    let azure = FakeAzure::start().await;
    let group = azure.group("providers").await;
    let action = FaultAction::Status {
        status: 409,
        code: "MissingSubscriptionRegistration".to_owned(),
        message: "The subscription is not registered to use namespace 'Microsoft.App'.".to_owned(),
        retry_after: None,
    };
    azure.fault(puts(), 1, action);
    let error =
        azure.put(&format!("{group}/providers/Microsoft.App/managedEnvironments/env-1"), &json!({})).await.unwrap_err();
    assert!(azure.client.register(&azure.identity, &error).await.unwrap());
    assert_eq!(azure.calls(Method::Post, "/providers/Microsoft.App/register"), 1);
}

#[tokio::test]
async fn silence_and_cut_connections_are_unreachable_not_refused() {
    let azure = FakeAzure::start().await;
    let group = azure.group("cut").await;
    azure.fault(puts(), 1, FaultAction::DropAfterEffect);
    let error = azure.put(&group, &json!({"location": "westus2", "tags": {"a": "b"}})).await.unwrap_err();
    assert_eq!(
        (error.category(), error.reason(), error.retry()),
        (Category::Unreachable, "AzureUnreachable", Retry::Fast)
    );
    assert_eq!(
        azure.read(&group).await.unwrap()["tags"]["a"],
        "b",
        "it had its effect: whoever cannot know reads first"
    );
    let url = azure.sim.endpoint().to_owned();
    let FakeAzure { sim, client, identity, .. } = azure;
    sim.stop().await;
    let error = client.send(&identity, Call::get(&group, GROUPS, Priority::UserChange)).await.unwrap_err();
    assert_eq!(error.category(), Category::Unreachable);
    let message = error.message();
    assert!(!message.contains(&url) && message.contains("Next: check the endpoint"), "{message}");
}

#[tokio::test]
async fn certificate_of_a_stranger_is_not_trusted() {
    let azure = FakeAzure::start().await;
    let stranger = Client::new(&ClientOptions::default()).unwrap();
    let identity = azure.settings.global(&stranger).unwrap();
    let error = stranger.send(&identity, Call::get("/subscriptions", GROUPS, Priority::UserChange)).await.unwrap_err();
    assert_eq!((error.category(), error.reason()), (Category::Unreachable, "EntraUnreachable"));
    assert!(error.message().to_ascii_lowercase().contains("certificate"), "{}", error.message());
}
