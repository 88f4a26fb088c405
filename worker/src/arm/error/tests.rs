use serde::Deserialize;
use serde_json::Value;

use super::*;

/// An answer that Azure gave, and the verdict it must get.
#[derive(Deserialize)]
struct Recorded {
    method: Verb,
    path: String,
    status: u16,
    reason: String,
    category: String,
    retry: String,
    body: Value,
}

fn recorded() -> Vec<Recorded> {
    serde_json::from_str(include_str!("recorded.json")).unwrap()
}

fn context(verb: Verb, path: &str) -> Context {
    Context {
        verb: Some(verb),
        path: path.to_owned(),
        client_id: "11111111-2222-3333-4444-555555555555".to_owned(),
        tenant: "contoso".to_owned(),
        origin: "from Secret team-a/aso-credential".to_owned(),
    }
}

fn refused(verb: Verb, path: &str, status: u16, body: &str) -> Error {
    Error::refused(context(verb, path), status, body.as_bytes(), Extras::default())
}

const RETRIES: [(&str, Retry); 4] = [
    ("fast", Retry::Fast),
    ("slow", Retry::Slow),
    ("very_slow", Retry::VerySlow),
    ("until_spec_changes", Retry::UntilSpecChanges),
];

const ACCOUNT: &str = "/subscriptions/0/resourceGroups/rg/providers/Microsoft.Storage/storageAccounts/a1";

#[test]
fn recorded_answers_get_their_verdicts() {
    for case in recorded() {
        let error = if case.status == 200 {
            let fault = Fault::from_value(&case.body);
            let context = context(case.method, &case.path);
            Error::operation(context, fault.code.as_deref().unwrap_or_default(), &fault.text())
        } else {
            refused(case.method, &case.path, case.status, &case.body.to_string())
        };
        let (_, retry) = RETRIES.into_iter().find(|(word, _)| *word == case.retry).unwrap();
        let severity = if retry == Retry::UntilSpecChanges { Severity::Error } else { Severity::Warning };
        let found = (error.reason(), error.category().as_str(), error.retry(), error.severity());
        assert_eq!(found, (case.reason.as_str(), case.category.as_str(), retry, severity), "{error}");
        let message = error.message();
        let said = case.body.to_string().to_ascii_lowercase();
        let first_words = message.split(['\'', '"', '.']).next().unwrap().to_ascii_lowercase();
        assert!(said.contains(first_words.trim()), "{message:?} does not begin with Azure's words");
        assert!(message.contains(" Next: ") && message.ends_with('.'), "{message}");
    }
}

#[test]
fn refusal_by_role_says_who_lacks_what_where() {
    let error = refused(
        Verb::Put,
        ACCOUNT,
        403,
        r#"{"error":{"code":"AuthorizationFailed","message":"The client '1111' with object id '2222' does not have authorization to perform action 'Microsoft.Storage/storageAccounts/write' over scope '/subscriptions/0' or the scope is invalid. If access was recently granted, please refresh your credentials."}}"#,
    );
    let message = error.message();
    for part in [
        "'Microsoft.Storage/storageAccounts/write' over scope '/subscriptions/0'",
        "grant client 11111111-2222-3333-4444-555555555555 (from Secret team-a/aso-credential) a role",
    ] {
        assert!(message.contains(part), "{message}");
    }
    assert_eq!((error.category(), error.retry()), (Category::Authorization, Retry::Slow));
}

#[test]
fn throttled_call_says_until_when() {
    let wait = Duration::from_secs(17);
    let extras = Extras {
        retry_after: Some(wait),
        rate: Observation { throttled_for: Some(wait), ..Observation::default() },
        ..Extras::default()
    };
    let body =
        br#"{"error":{"code":"429","message":"Request is temporarily throttled because subscription 0 is busy."}}"#;
    let error = Error::refused(context(Verb::Put, ACCOUNT), 429, body, extras);
    assert_eq!((error.category(), error.retry()), (Category::Throttled, Retry::After(wait)));
    assert_eq!(error.reason(), "TooManyRequests", "a number is not a reason");
    assert_eq!(error.rate().throttled_for, Some(wait));
    assert!(
        error.message().ends_with("Next: Azure asks for fewer calls; Flotilla retries in 17 s."),
        "{}",
        error.message()
    );
}

#[test]
fn lock_that_comes_as_429_parks_no_bucket() {
    let wait = Some(Duration::from_secs(10));
    let extras = Extras {
        retry_after: wait,
        rate: Observation { throttled_for: wait, ..Observation::default() },
        ..Extras::default()
    };
    let lock = recorded().into_iter().find(|case| case.status == 429).unwrap();
    let error = Error::refused(context(Verb::Put, &lock.path), 429, lock.body.to_string().as_bytes(), extras);
    assert_eq!(error.rate().throttled_for, None);
    assert_eq!(error.retry(), Retry::After(Duration::from_secs(10)), "ARM's own wait holds for the object");
}

#[test]
fn failed_delete_is_never_more_than_a_warning() {
    let body = r#"{"error":{"code":"InvalidRequestContent","message":"no"}}"#;
    assert_eq!(refused(Verb::Put, ACCOUNT, 400, body).severity(), Severity::Error);
    assert_eq!(refused(Verb::Delete, ACCOUNT, 400, body).severity(), Severity::Warning);
}

#[test]
fn missing_provider_is_the_one_that_arm_names() {
    let body = r#"{"error":{"code":"MissingSubscriptionRegistration","message":"The subscription is not registered to use namespace 'Microsoft.OperationalInsights'. See https://aka.ms/rps-not-found for how to register subscriptions."}}"#;
    let app = "/subscriptions/0/resourceGroups/rg/providers/Microsoft.App/managedEnvironments/e";
    let error = refused(Verb::Put, app, 409, body);
    assert_eq!(error.unregistered(), Some("Microsoft.OperationalInsights"));
    assert!(error.message().contains("az provider register --namespace Microsoft.OperationalInsights"));
    let silent = refused(Verb::Put, app, 409, r#"{"error":{"code":"MissingSubscriptionRegistration"}}"#);
    assert_eq!(silent.unregistered(), Some("Microsoft.App"));
    assert_eq!(refused(Verb::Put, app, 409, "{}").unregistered(), None);
}

#[test]
fn answer_without_a_body_still_names_call_and_status() {
    let error = refused(Verb::Get, ACCOUNT, 503, "");
    assert_eq!(error.reason(), "ServerError");
    assert!(error.message().starts_with(&format!("Azure answered GET {ACCOUNT} with 503")), "{}", error.message());
    assert_eq!(error.to_string(), format!("failed to GET {ACCOUNT}: ServerError (503)"));
}

#[test]
fn resource_types_are_read_from_paths() {
    let of = |path: &str| {
        let (namespace, kind) = resource_type(path);
        (namespace.unwrap_or_default().to_owned(), kind)
    };
    for (path, namespace, kind) in [
        (ACCOUNT, "Microsoft.Storage", "Microsoft.Storage/storageAccounts"),
        ("/subscriptions/0/resourceGroups/rg", "Microsoft.Resources", "Microsoft.Resources/resourceGroups"),
        ("/subscriptions/0/providers/Microsoft.App/locations/l/ops/1", "Microsoft.App", "Microsoft.App/locations/ops"),
        (
            "/subscriptions/0/resourceGroups/rg/providers/Microsoft.Sql/servers/s/providers/Microsoft.Authorization/locks/l",
            "Microsoft.Authorization",
            "Microsoft.Authorization/locks",
        ),
        ("/subscriptions/0", "", ""),
        ("", "", ""),
        ("/providers", "", ""),
    ] {
        assert_eq!(of(path), (namespace.to_owned(), kind.to_owned()), "{path}");
    }
}

#[test]
fn reasons_are_words_a_condition_may_have() {
    let spaced = r#"{"error":{"code":"Not A Word","message":"x"}}"#;
    assert_eq!(refused(Verb::Put, ACCOUNT, 409, spaced).reason(), "Conflict");
    let fine = r#"{"error":{"code":"Some_Code","message":"x"}}"#;
    assert_eq!(refused(Verb::Put, ACCOUNT, 409, fine).reason(), "Some_Code");
}
