//! Entra: registered applications, the token endpoint and the check of tokens.
//!
//! Kept true here: a token is good for the application it was issued to and until it expires, in real time (clients plan
//! their refresh by their own clocks); secrets are never shown by Debug.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;

use super::answer::Answer;
use super::dice::Dice;
use super::error::Refusal;
use super::made_up;

/// An application that may call ARM.
#[derive(Clone, serde::Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct App {
    /// The tenant it is registered in.
    pub tenant: String,
    /// Its client id.
    pub client_id: String,
    /// Its client secret.
    pub client_secret: String,
    /// The subscriptions it may use. A subscription exists if some application may use it.
    pub subscriptions: Vec<String>,
}

impl fmt::Debug for App {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tenant, client_id, client_secret: _, subscriptions } = self;
        f.debug_struct("App")
            .field("tenant", tenant)
            .field("client_id", client_id)
            .field("subscriptions", subscriptions)
            .finish_non_exhaustive()
    }
}

/// Who calls.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) tenant: Arc<str>,
    pub(crate) client_id: Arc<str>,
    pub(crate) object_id: uuid::Uuid,
}

struct Token {
    caller: Caller,
    expires: Instant,
}

/// The applications and the tokens issued to them.
pub(crate) struct Directory {
    apps: Vec<App>,
    tokens: HashMap<String, Token>,
    lifetime: Duration,
    /// What a token can be asked for, lower case and without a trailing slash.
    audiences: Vec<String>,
}

const PUBLIC_AUDIENCES: [&str; 2] = ["https://management.azure.com", "https://management.core.windows.net"];

impl Directory {
    pub(crate) fn new(apps: Vec<App>, lifetime: Duration, endpoint: &str) -> Self {
        let audiences = PUBLIC_AUDIENCES.iter().copied().chain([endpoint]).map(str::to_owned).collect();
        Self { apps, tokens: HashMap::new(), lifetime, audiences }
    }

    /// Adds an application, or replaces the one of its tenant and client id.
    pub(crate) fn register(&mut self, app: App) {
        self.apps.retain(|other| !(same(&other.tenant, &app.tenant) && same(&other.client_id, &app.client_id)));
        self.apps.push(app);
    }

    /// Makes every token issued so far expire.
    pub(crate) fn expire_tokens(&mut self, now: Instant) -> usize {
        for token in self.tokens.values_mut() {
            token.expires = token.expires.min(now);
        }
        self.tokens.len()
    }

    /// Whether some application may use the subscription.
    pub(crate) fn knows_subscription(&self, subscription: &str) -> bool {
        self.apps.iter().any(|app| app.subscriptions.iter().any(|other| same(other, subscription)))
    }

    /// The subscriptions that a caller may use.
    pub(crate) fn subscriptions(&self, caller: &Caller) -> Vec<String> {
        self.app(&caller.tenant, &caller.client_id).map(|app| app.subscriptions.clone()).unwrap_or_default()
    }

    /// Whether a caller may use a subscription.
    pub(crate) fn allows(&self, caller: &Caller, subscription: &str) -> bool {
        self.app(&caller.tenant, &caller.client_id)
            .is_some_and(|app| app.subscriptions.iter().any(|other| same(other, subscription)))
    }

    /// `POST /{tenant}/oauth2/v2.0/token`
    pub(crate) fn issue(
        &mut self,
        tenant: &str,
        form: &[(String, String)],
        at: (Instant, &str),
        dice: &mut Dice,
    ) -> Answer {
        match self.check(tenant, form) {
            Ok(caller) => {
                self.tokens.retain(|_, token| token.expires + self.lifetime > at.0);
                // Three parts like a real one, but nothing to read in it.
                let (a, b, c) = (dice.uuid(), dice.uuid(), dice.uuid());
                let access_token = format!("sim.{}.{}{}", a.simple(), b.simple(), c.simple());
                self.tokens.insert(access_token.clone(), Token { caller, expires: at.0 + self.lifetime });
                let seconds = self.lifetime.as_secs();
                let body = json!({"token_type": "Bearer", "expires_in": seconds, "ext_expires_in": seconds, "access_token": access_token});
                Answer::json(200, body)
            }
            Err(Denial { status, error, number, text }) => {
                let (trace, correlation) = (dice.uuid(), dice.uuid());
                let description = format!(
                    "AADSTS{number}: {text} Trace ID: {trace} Correlation ID: {correlation} Timestamp: {}",
                    at.1
                );
                let mut answer = Answer::json(
                    status,
                    json!({"error": error, "error_description": description, "error_codes": [number], "timestamp": at.1,
                        "trace_id": trace.to_string(), "correlation_id": correlation.to_string(),
                        "error_uri": format!("https://login.microsoftonline.com/error?code={number}")}),
                );
                answer.code = Some(format!("AADSTS{number}").into());
                answer
            }
        }
    }

    fn check(&self, tenant: &str, form: &[(String, String)]) -> Result<Caller, Denial> {
        let field = |name: &str| {
            let value = form.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
            value.filter(|value| !value.is_empty()).ok_or_else(|| {
                let text = format!("The request body must contain the following parameter: '{name}'.");
                Denial::new(400, "invalid_request", 900_144, text)
            })
        };
        let grant = field("grant_type")?;
        if grant != "client_credentials" {
            let text = format!("The app requested an unsupported grant type '{grant}'.");
            return Err(Denial::new(400, "unsupported_grant_type", 70_003, text));
        }
        if !self.apps.iter().any(|app| same(&app.tenant, tenant)) {
            let text = format!(
                "Tenant '{tenant}' not found. Check to make sure you have the correct tenant ID and are signing into the correct cloud."
            );
            return Err(Denial::new(400, "invalid_request", 90_002, text));
        }
        let client_id = field("client_id")?;
        let Some(app) = self.app(tenant, client_id) else {
            let text = format!("Application with identifier '{client_id}' was not found in the directory '{tenant}'.");
            return Err(Denial::new(400, "unauthorized_client", 700_016, text));
        };
        let Ok(secret) = field("client_secret") else {
            let text = "The request body must contain the following parameter: 'client_assertion' or 'client_secret'.";
            return Err(Denial::new(401, "invalid_client", 7_000_218, text.to_owned()));
        };
        if secret != app.client_secret {
            let text = format!(
                "Invalid client secret provided. Ensure the secret being sent in the request is the client secret value, not the client secret ID, for a secret added to app '{client_id}'."
            );
            return Err(Denial::new(401, "invalid_client", 7_000_215, text));
        }
        self.check_scope(field("scope")?)?;
        let object_id = made_up::guid(&app.tenant.to_ascii_lowercase(), &app.client_id.to_ascii_lowercase());
        Ok(Caller { tenant: app.tenant.as_str().into(), client_id: app.client_id.as_str().into(), object_id })
    }

    fn check_scope(&self, scope: &str) -> Result<(), Denial> {
        let Some(audience) = scope.strip_suffix("/.default") else {
            let text = format!(
                "The provided value for scope {scope} is not valid. Client credential flows must have a scope value with /.default suffixed to the resource identifier (application ID URI)."
            );
            return Err(Denial::new(400, "invalid_scope", 1_002_012, text));
        };
        let audience = audience.trim_end_matches('/').to_ascii_lowercase();
        if !self.audiences.contains(&audience) {
            let text = format!("The resource principal named {audience} was not found in the tenant.");
            return Err(Denial::new(400, "invalid_resource", 500_011, text));
        }
        Ok(())
    }

    /// Who sent an `Authorization` header.
    pub(crate) fn authenticate(&self, authorization: Option<&str>, now: Instant) -> Result<Caller, Refusal> {
        let refuse = |code, message: &str| {
            let challenge = format!(
                "Bearer authorization_uri=\"https://login.microsoftonline.com/common\", error=\"invalid_token\", error_description=\"{message}\""
            );
            Err(Refusal { challenge: Some(challenge), ..Refusal::gateway(401, code, message) })
        };
        let Some(authorization) = authorization else {
            return refuse("AuthenticationFailed", "Authentication failed. The 'Authorization' header is missing.");
        };
        let Some((scheme, token)) = authorization.split_once(' ') else {
            return refuse(
                "AuthenticationFailedInvalidHeader",
                "Authentication failed. The 'Authorization' header is provided in an invalid format.",
            );
        };
        match self.tokens.get(token.trim()).filter(|_| scheme.eq_ignore_ascii_case("bearer")) {
            None => refuse("InvalidAuthenticationToken", "The access token is invalid."),
            Some(token) if token.expires <= now => refuse(
                "ExpiredAuthenticationToken",
                "The access token expiry UTC time is earlier than the current UTC time.",
            ),
            Some(token) => Ok(token.caller.clone()),
        }
    }

    fn app(&self, tenant: &str, client_id: &str) -> Option<&App> {
        self.apps.iter().find(|app| same(&app.tenant, tenant) && same(&app.client_id, client_id))
    }
}

struct Denial {
    status: u16,
    error: &'static str,
    number: u32,
    text: String,
}

impl Denial {
    fn new(status: u16, error: &'static str, number: u32, text: String) -> Self {
        Self { status, error, number, text }
    }
}

fn same(a: &str, b: &str) -> bool {
    a.eq_ignore_ascii_case(b)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::super::answer::Body;
    use super::*;

    fn directory() -> Directory {
        let app = App {
            tenant: "T".into(),
            client_id: "C".into(),
            client_secret: "hush".into(),
            subscriptions: vec!["S".into()],
        };
        Directory::new(vec![app], Duration::from_hours(1), "https://127.0.0.1:1")
    }

    fn ask(directory: &mut Directory, tenant: &str, change: (&str, &str)) -> (u16, Value) {
        let form: Vec<(String, String)> = [
            ("grant_type", "client_credentials"),
            ("client_id", "c"),
            ("client_secret", "hush"),
            ("scope", "https://management.azure.com/.default"),
        ]
        .iter()
        .map(|(name, value)| ((*name).to_owned(), if *name == change.0 { change.1 } else { value }.to_owned()))
        .collect();
        let answer = directory.issue(tenant, &form, (Instant::now(), "now"), &mut Dice::new(1));
        let Body::Json(body) = answer.body else { panic!("no JSON") };
        (answer.status, (*body).clone())
    }

    #[test]
    fn a_token_is_issued_and_accepted_until_it_expires() {
        let mut directory = directory();
        let (status, body) = ask(&mut directory, "t", ("", ""));
        assert_eq!((status, &body["token_type"]), (200, &Value::from("Bearer")));
        let header = format!("Bearer {}", body["access_token"].as_str().unwrap());
        let now = Instant::now();
        let caller = directory.authenticate(Some(&header), now).unwrap();
        assert!(directory.allows(&caller, "s") && !directory.allows(&caller, "other"));
        let code = |header, at| directory.authenticate(header, at).unwrap_err().code;
        assert_eq!(code(Some(header.as_str()), now + Duration::from_secs(3601)), "ExpiredAuthenticationToken");
        assert_eq!(code(Some("Bearer x"), now), "InvalidAuthenticationToken");
        assert_eq!(code(None, now), "AuthenticationFailed");
        assert!(
            directory.authenticate(None, now).unwrap_err().challenge.unwrap().starts_with("Bearer authorization_uri=")
        );
        directory.expire_tokens(now);
        assert!(directory.authenticate(Some(&header), now).is_err());
    }

    #[rstest::rstest]
    #[case("t", ("client_secret", "wrong"), 401, "invalid_client", 7_000_215)]
    #[case("t", ("client_secret", ""), 401, "invalid_client", 7_000_218)]
    #[case("nobody", ("", ""), 400, "invalid_request", 90_002)]
    #[case("t", ("client_id", "other"), 400, "unauthorized_client", 700_016)]
    #[case("t", ("grant_type", ""), 400, "invalid_request", 900_144)]
    #[case("t", ("grant_type", "password"), 400, "unsupported_grant_type", 70_003)]
    #[case("t", ("scope", "https://management.azure.com"), 400, "invalid_scope", 1_002_012)]
    #[case("t", ("scope", "https://graph.microsoft.com/.default"), 400, "invalid_resource", 500_011)]
    fn wrong_forms_are_refused_as_entra_does(
        #[case] tenant: &str,
        #[case] change: (&str, &str),
        #[case] status: u16,
        #[case] error: &str,
        #[case] number: u32,
    ) {
        let (got, body) = ask(&mut directory(), tenant, change);
        assert_eq!((got, &body["error"], &body["error_codes"][0]), (status, &Value::from(error), &Value::from(number)));
        assert!(body["error_description"].as_str().unwrap().starts_with(&format!("AADSTS{number}: ")));
    }

    #[test]
    fn debug_hides_the_secret() {
        let app =
            App { tenant: "t".into(), client_id: "c".into(), client_secret: "hush".into(), subscriptions: vec![] };
        assert!(!format!("{app:?}").contains("hush"));
    }
}
