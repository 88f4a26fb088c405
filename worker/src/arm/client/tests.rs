use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

use azure_core::error::ErrorKind;
use azure_core::http::{AsyncRawResponse, StatusCode};
use uuid::Uuid;

use super::*;
use crate::arm::cloud::Cloud;
use crate::arm::error::{Retry, Severity};
use crate::arm::identity::Origin;
use crate::arm::token::{Proof, Tokens};

type Script<T> = Box<dyn Fn(&T) -> (u16, String) + Send + Sync>;

/// Plays Entra and ARM: each path of Entra gives a new token, and ARM answers what the test says.
struct Azure {
    entra: Script<usize>,
    arm: Script<Request>,
    /// Entra answers only while this has a permit.
    open: tokio::sync::Semaphore,
    tokens: AtomicUsize,
    calls: AtomicUsize,
}

impl fmt::Debug for Azure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Azure")
    }
}

#[async_trait::async_trait]
impl HttpClient for Azure {
    async fn execute_request(&self, request: &Request) -> azure_core::Result<AsyncRawResponse> {
        tokio::task::yield_now().await;
        let (status, body) = if request.url().host_str() == Some("entra.example") {
            let _answering = self.open.acquire().await.unwrap();
            (self.entra)(&(self.tokens.fetch_add(1, Ordering::SeqCst) + 1))
        } else {
            self.calls.fetch_add(1, Ordering::SeqCst);
            (self.arm)(request)
        };
        if status == 0 {
            return Err(azure_core::Error::with_message(ErrorKind::Connection, "connection refused"));
        }
        let mut headers = Headers::new();
        headers.insert("x-ms-request-id", "r-1");
        Ok(AsyncRawResponse::from_bytes(StatusCode::from(status), headers, body))
    }
}

fn token(number: usize, seconds: u64) -> (u16, String) {
    (
        200,
        format!(
            r#"{{"token_type":"Bearer","expires_in":{seconds},"ext_expires_in":{seconds},"access_token":"token-{number}"}}"#
        ),
    )
}

fn bearer(request: &Request) -> &str {
    request.headers().get_optional_str(&"authorization".into()).unwrap_or_default()
}

fn world(
    entra: impl Fn(usize) -> (u16, String) + Send + Sync + 'static,
    arm: impl Fn(&Request) -> (u16, String) + Send + Sync + 'static,
) -> (Arc<Azure>, Client, Arc<Identity>) {
    let azure = Arc::new(Azure {
        entra: Box::new(move |number| entra(*number)),
        arm: Box::new(arm),
        open: tokio::sync::Semaphore::new(1),
        tokens: AtomicUsize::new(0),
        calls: AtomicUsize::new(0),
    });
    let client = Client::over(azure.clone(), &Options { pod: "pod-7".to_owned(), ..Options::default() });
    let cloud = Arc::new(Cloud::new("https://arm.example", "https://arm.example", "https://entra.example").unwrap());
    let proof = Proof::ClientSecret("s3cret".to_owned().into());
    let tokens = Arc::new(Tokens::new("contoso", "client-1", proof, cloud.clone(), client.http(), client.scale()));
    let identity = Identity {
        subscription: "sub-1".to_owned(),
        tenant: "contoso".to_owned(),
        client_id: "client-1".to_owned(),
        cloud,
        origin: Origin::Global,
        tokens,
    };
    (azure, client, Arc::new(identity))
}

const RG: &str = "/subscriptions/sub-1/resourceGroups/rg";

fn get() -> Call<'static> {
    Call::get(RG, "2020-06-01", Priority::UserChange)
}

#[tokio::test]
async fn a_read_that_somebody_else_answered_shows_nothing() {
    for body in ["<html>Please log in</html>", r#"{"id": "tru"#, "[1]", "42", "null", ""] {
        let (_, client, identity) = world(|number| token(number, 3600), move |_| (200, body.to_owned()));
        let error = client.send(&identity, get()).await.unwrap_err();
        assert_eq!((error.category(), error.status()), (Category::Unreachable, None), "{body}");
    }
    let url = Url::parse("https://arm.example/operations/1").unwrap();
    let (_, client, identity) = world(|number| token(number, 3600), |_| (200, "<html>".to_owned()));
    assert!(client.send(&identity, Call::poll(&url)).await.is_err());
    let (_, client, identity) = world(|number| token(number, 3600), |_| (200, String::new()));
    assert!(client.send(&identity, Call::poll(&url)).await.is_ok());
}

#[tokio::test]
async fn hundred_calls_share_one_token_and_say_who_they_are() {
    let (azure, client, identity) = world(
        |number| token(number, 3600),
        |request| {
            let header = |name: &'static str| request.headers().get_optional_str(&name.into()).unwrap_or_default();
            assert_eq!(header("user-agent"), concat!("flotilla/", env!("CARGO_PKG_VERSION"), " worker/pod-7"));
            assert_eq!(header("x-ms-correlation-request-id"), Uuid::nil().to_string());
            assert!(Uuid::parse_str(header("x-ms-client-request-id")).is_ok());
            assert_eq!(bearer(request), "Bearer token-1");
            (200, r#"{"ok":true}"#.to_owned())
        },
    );
    let calls = (0..100).map(|_| client.send(&identity, get().correlated(Uuid::nil())));
    for answer in futures::future::join_all(calls).await {
        let answer = answer.unwrap();
        assert_eq!((answer.status, answer.body), (200, serde_json::json!({"ok": true})));
        assert_eq!(answer.request_id.as_deref(), Some("r-1"));
    }
    assert_eq!(azure.tokens.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn rejected_token_is_replaced_once_for_all() {
    let (azure, client, identity) = world(
        |number| token(number, 3600),
        |request| match bearer(request) {
            "Bearer token-1" => {
                (401, r#"{"error":{"code":"ExpiredAuthenticationToken","message":"expired"}}"#.to_owned())
            }
            _ => (200, "{}".to_owned()),
        },
    );
    let answers = futures::future::join_all((0..20).map(|_| client.send(&identity, get()))).await;
    assert!(answers.iter().all(Result::is_ok));
    assert_eq!(azure.tokens.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn token_that_is_always_rejected_does_not_storm_entra() {
    let (azure, client, identity) = world(
        |number| token(number, 3600),
        |_| (401, r#"{"error":{"code":"InvalidAuthenticationTokenTenant","message":"wrong tenant"}}"#.to_owned()),
    );
    for _ in 0..20 {
        let error = client.send(&identity, get()).await.unwrap_err();
        assert_eq!((error.category(), error.retry()), (Category::Authentication, Retry::Fast));
    }
    assert_eq!(azure.tokens.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn wrong_secret_names_tenant_client_and_origin_and_asks_entra_once() {
    let refusal = r#"{"error":"invalid_client","error_description":"AADSTS7000215: Invalid client secret provided.","error_codes":[7000215]}"#;
    let (azure, client, identity) = world(move |_| (401, refusal.to_owned()), |_| unreachable!());
    for _ in 0..20 {
        let error = client.send(&identity, get()).await.unwrap_err();
        assert_eq!((error.reason(), error.severity()), ("AuthenticationFailed", Severity::Warning));
        assert!(matches!(error.retry(), Retry::After(wait) if wait <= Duration::from_secs(1)), "{:?}", error.retry());
        let message = error.message();
        for part in ["AADSTS7000215", "contoso", "client-1", "from the operator's settings"] {
            assert!(message.contains(part), "{message}");
        }
        assert!(!format!("{message}{error:?}{error}").contains("s3cret"));
    }
    assert_eq!(azure.tokens.load(Ordering::SeqCst), 1);
    assert_eq!(azure.calls.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn entra_that_is_away_is_no_wrong_secret() {
    for answer in [(0, ""), (503, "<html><h1>Service Unavailable</h1></html>"), (429, "{}")] {
        let (_, client, identity) = world(move |_| (answer.0, answer.1.to_owned()), |_| unreachable!());
        let error = client.send(&identity, get()).await.unwrap_err();
        assert_eq!(
            (error.category(), error.reason()),
            (Category::Unreachable, "EntraUnreachable"),
            "{}",
            error.message()
        );
    }
}

#[tokio::test]
async fn token_near_its_end_is_used_while_entra_is_away() {
    let (azure, client, identity) =
        world(|number| if number == 1 { token(1, 3600) } else { (503, "{}".to_owned()) }, |_| (200, "{}".to_owned()));
    client.send(&identity, get()).await.unwrap();
    identity.tokens.age(Duration::from_mins(58));
    client.send(&identity, get()).await.unwrap();
    assert_eq!(azure.tokens.load(Ordering::SeqCst), 2, "it was asked for another one");
    identity.tokens.age(Duration::from_mins(2));
    let error = client.send(&identity, get()).await.unwrap_err();
    assert_eq!(error.category(), Category::Unreachable, "at its end it is not sent any more");
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "a test's own task")]
async fn slow_entra_holds_up_nobody_who_has_a_token() {
    let (azure, client, identity) = world(|number| token(number, 3600), |_| (200, "{}".to_owned()));
    client.send(&identity, get()).await.unwrap();
    identity.tokens.age(Duration::from_mins(57));
    let closed = azure.open.acquire().await.unwrap();
    let refresher = tokio::spawn({
        let (client, identity) = (client.clone(), identity.clone());
        async move { client.send(&identity, get()).await }
    });
    while identity.tokens.is_idle() {
        tokio::task::yield_now().await;
    }
    client.send(&identity, get()).await.unwrap();
    assert!(!refresher.is_finished());
    drop(closed);
    refresher.await.unwrap().unwrap();
    assert_eq!(azure.tokens.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn nothing_is_sent_that_arm_would_refuse_or_that_leaks_the_token() {
    let (azure, client, identity) = world(|number| token(number, 3600), |_| unreachable!());
    let big = Value::String("x".repeat(BODY_LIMIT));
    let error = client.send(&identity, Call::put(RG, "2020-06-01", &big, Priority::UserChange)).await.unwrap_err();
    assert_eq!((error.reason(), error.severity()), ("RequestContentTooLarge", Severity::Error));
    let foreign = Url::parse("https://elsewhere.example/ops/1").unwrap();
    let error = client.send(&identity, Call::poll(&foreign)).await.unwrap_err();
    assert!(error.is_foreign_host() && error.message().contains("elsewhere.example"), "{}", error.message());
    let error = client.send(&identity, Call::get("/subscriptions/../x", "1", Priority::Resync)).await.unwrap_err();
    assert_eq!(error.reason(), "InvalidResourceId");
    assert_eq!(azure.tokens.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn unreachable_arm_is_said_and_retried_soon() {
    let (azure, client, identity) = world(|number| token(number, 3600), |_| (0, String::new()));
    let error = client.send(&identity, get()).await.unwrap_err();
    assert_eq!(
        (error.category(), error.retry(), error.reason()),
        (Category::Unreachable, Retry::Fast, "AzureUnreachable")
    );
    assert!(error.message().contains("connection refused"), "{}", error.message());
    assert_eq!(azure.calls.load(Ordering::SeqCst), 1, "one try per call");
}

#[tokio::test]
async fn provider_is_registered_once() {
    let missing = r#"{"error":{"code":"MissingSubscriptionRegistration","message":"The subscription is not registered to use namespace 'Microsoft.App'."}}"#;
    let (azure, client, identity) = world(
        |number| token(number, 3600),
        move |request| match request.path_and_query().as_str() {
            "/subscriptions/sub-1/providers/Microsoft.App/register?api-version=2019-05-01" => (200, "{}".to_owned()),
            _ => (409, missing.to_owned()),
        },
    );
    let error = client.send(&identity, get()).await.unwrap_err();
    assert!(client.register(&identity, &error).await.unwrap());
    assert!(!client.register(&identity, &error).await.unwrap());
    assert_eq!(azure.calls.load(Ordering::SeqCst), 2);
}

fn url(id: &str) -> Result<String, String> {
    let endpoint = Url::parse("https://arm.example:8443").unwrap();
    resource_url(&endpoint, id, "2024-01-01").map(String::from)
}

#[test]
fn names_are_escaped_but_keep_their_case() {
    assert_eq!(
        url("/subscriptions/1/resourceGroups/My Group?x#y").unwrap(),
        "https://arm.example:8443/subscriptions/1/resourceGroups/My%20Group%3Fx%23y?api-version=2024-01-01"
    );
}

#[test]
fn names_cannot_lead_to_another_resource() {
    for id in
        ["/subscriptions/1/../2", "/a/%2e%2E/b", "/a//b", "/a/./b", "/a/..\\b", "a/b", "//evil.example/x", "/a/.\t./b"]
    {
        assert!(url(id).is_err(), "{id}");
    }
}

#[test]
fn bodies_that_are_no_json_are_kept_as_text() {
    assert_eq!(json(b""), Value::Null);
    assert_eq!(json(b"{\"a\":1}"), serde_json::json!({"a": 1}));
    assert_eq!(json(b"<html>"), Value::String("<html>".to_owned()));
}
