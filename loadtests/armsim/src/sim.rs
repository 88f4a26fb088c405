//! One call after the other: who calls, whether a fault meets the call, what it does, what the journal says.
//!
//! Kept true here: the journal has the calls in the order in which they took effect. No I/O; the edge passes the time in.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

use super::answer::{Answer, Body, Call, Method};
use super::arm::{Arm, Twist, Visit};
use super::azure::Azure;
use super::clock::{self, Clock};
use super::entra::{Caller, Directory};
use super::error::Refusal;
use super::fault::{self, Action, Faults};
use super::journal::{Entry, Journal, Outcome};
use super::limits::{self, Limits};
use super::made_up;
use super::route::Route;
use super::settings::Settings;
use super::type_data::TypeData;

/// A call and what is known of it from the start.
pub(crate) struct Arrival {
    pub(crate) started: Instant,
    pub(crate) time: jiff::Timestamp,
    pub(crate) call: Call,
    /// The type of what the path names.
    arm_type: String,
    subscription: Option<String>,
    /// The form of a call to the token endpoint, and its tenant.
    token: Option<(String, Vec<(String, String)>)>,
}

/// What is known of a call before it is carried out.
pub(crate) struct Greeting {
    caller: Option<Result<Caller, Refusal>>,
    /// The rule that the call met, and what the rule does.
    pub(crate) fault: Option<(String, Action)>,
    request_id: String,
    correlation_id: String,
}

/// Everything that armsim knows.
pub(crate) struct Sim {
    pub(crate) clock: Clock,
    pub(crate) settings: Settings,
    pub(crate) azure: Azure,
    pub(crate) directory: Directory,
    pub(crate) faults: Faults,
    pub(crate) journal: Journal,
    pub(crate) limits: Limits,
    pub(crate) types: Option<Arc<dyn TypeData>>,
    /// Bodies are kept in the journal.
    pub(crate) record_bodies: bool,
    /// The beginning of ARM's own URLs.
    pub(crate) base: String,
}

impl Arrival {
    pub(crate) fn new(call: Call, started: Instant, time: jiff::Timestamp) -> Self {
        let token = token_tenant(&call).map(|tenant| (tenant, form(&call)));
        let route = if token.is_some() { None } else { Route::parse(call.method, &call.path) };
        let arm_type = match (&token, &route) {
            (Some(_), _) => "Entra/token".to_owned(),
            (None, Some(route)) => route.arm_type(),
            (None, None) => "unknown".to_owned(),
        };
        let subscription = route.as_ref().and_then(Route::subscription).map(str::to_owned);
        Self { started, time, call, arm_type, subscription, token }
    }
}

impl Sim {
    /// Finds out who calls and whether a fault meets the call.
    pub(crate) fn greet(&mut self, arrival: &Arrival, real: Instant) -> Greeting {
        let call = &arrival.call;
        let caller = if arrival.token.is_some() {
            None
        } else {
            Some(self.directory.authenticate(call.headers.authorization.as_deref(), real))
        };
        let client_id = client_id(arrival, caller.as_ref());
        let subject = fault::Subject {
            method: call.method,
            path: &call.path,
            arm_type: &arrival.arm_type,
            client_id: &client_id,
            user_agent: call.headers.user_agent.as_deref().unwrap_or_default(),
        };
        let fault = self.faults.meet(&subject);
        let request_id = self.azure.dice.uuid().to_string();
        let correlation_id = call.headers.correlation_id.clone().unwrap_or_else(|| self.azure.dice.uuid().to_string());
        Greeting { caller, fault, request_id, correlation_id }
    }

    /// Carries a call out, or refuses it, and writes the journal. Afterwards the answer may still be lost, as `lost` says.
    pub(crate) fn carry_out(
        &mut self,
        arrival: &Arrival,
        greeting: &Greeting,
        lost: Option<Outcome>,
        real: Instant,
    ) -> Answer {
        let now = self.clock.at(real);
        self.azure.settle(now);
        let mut answer = match (&arrival.token, &greeting.fault) {
            (_, Some((_, Action::Status { status, code, message, retry_after }))) => {
                let refusal =
                    Refusal { retry_after: *retry_after, ..Refusal::service(*status, code.clone(), message.clone()) };
                refusal.into()
            }
            (_, Some((_, Action::Respond { status, body, headers }))) => respond(*status, body, headers),
            (Some((tenant, form)), _) => {
                let time = clock::text(arrival.time, Duration::ZERO);
                self.directory.issue(tenant, form, (real, &time), &mut self.azure.dice)
            }
            (None, _) => self.arm(arrival, greeting, now),
        };
        self.sign(arrival, greeting, &mut answer);
        let outcome = lost.unwrap_or(match answer.status {
            401 => Outcome::Unauthorized,
            429 => Outcome::Throttled,
            status if status >= 400 => Outcome::Refused,
            _ => Outcome::Ok,
        });
        let said = if lost.is_some() { None } else { Some(&answer) };
        self.note(arrival, greeting, outcome, said.map(|answer| answer.status), &answer, real);
        answer
    }

    /// Writes the journal for a call that is not carried out.
    pub(crate) fn pass_over(&mut self, arrival: &Arrival, greeting: &Greeting, outcome: Outcome, real: Instant) {
        self.note(arrival, greeting, outcome, None, &Answer::empty(0), real);
    }

    fn arm(&mut self, arrival: &Arrival, greeting: &Greeting, now: Duration) -> Answer {
        let caller = match &greeting.caller {
            Some(Ok(caller)) => caller,
            Some(Err(refusal)) => return refusal.clone().into(),
            None => return Refusal::gateway(401, "AuthenticationFailed", "Authentication failed.").into(),
        };
        let subject = limits::Subject {
            method: arrival.call.method,
            tenant: &caller.tenant,
            client_id: &caller.client_id,
            subscription: arrival.subscription.as_deref(),
            arm_type: &arrival.arm_type,
            path: &arrival.call.path,
            region: &self.settings.region,
        };
        let (allowed, headers) = self.limits.spend(&subject, now);
        let twist = match &greeting.fault {
            Some((_, Action::FailOperation { code, message })) => {
                Some(Twist::Fail { code: code.clone(), message: message.clone() })
            }
            Some((_, Action::HoldOperation)) => Some(Twist::Hold),
            _ => None,
        };
        let visit = Visit { call: &arrival.call, caller, now, twist: twist.as_ref() };
        let mut arm = Arm {
            azure: &mut self.azure,
            settings: &self.settings,
            types: self.types.as_deref(),
            directory: &self.directory,
            base: &self.base,
        };
        let mut answer = allowed.and_then(|()| arm.serve(&visit)).unwrap_or_else(Answer::from);
        answer.headers.extend(headers.into_iter().map(|(name, value)| (name.into(), value)));
        answer
    }

    /// Adds the headers that every answer has.
    fn sign(&self, arrival: &Arrival, greeting: &Greeting, answer: &mut Answer) {
        let mut add = |name: &'static str, value: &str| answer.headers.push((name.into(), value.to_owned()));
        if arrival.token.is_none() {
            let time = arrival.time.strftime("%Y%m%dT%H%M%SZ");
            add("x-ms-correlation-request-id", &greeting.correlation_id);
            add("x-ms-routing-request-id", &format!("{}:{time}:{}", self.settings.region, greeting.correlation_id));
            if let Some(id) = &arrival.call.headers.client_request_id {
                add("x-ms-client-request-id", id);
            }
        }
        add("x-ms-request-id", &greeting.request_id);
    }

    fn note(
        &mut self,
        arrival: &Arrival,
        greeting: &Greeting,
        outcome: Outcome,
        status: Option<u16>,
        answer: &Answer,
        real: Instant,
    ) {
        let call = &arrival.call;
        let client_id = client_id(arrival, greeting.caller.as_ref());
        // The body of a token request holds a secret.
        let hashed = !call.body.is_empty() && arrival.token.is_none();
        let entry = Entry {
            seq: self.journal.next_seq(),
            time: arrival.time,
            sim_seconds: self.clock.at(real).as_secs_f64(),
            method: call.method,
            path: call.path.as_str().into(),
            api_version: call.api_version().map(|version| self.journal.text(version)),
            arm_type: self.journal.text(&arrival.arm_type),
            client_id: self.journal.text(&client_id),
            user_agent: self.journal.text(call.headers.user_agent.as_deref().unwrap_or_default()),
            client_request_id: call.headers.client_request_id.as_deref().map(Into::into),
            correlation_id: greeting.correlation_id.as_str().into(),
            request_id: greeting.request_id.as_str().into(),
            body_hash: hashed.then(|| body_hash(&call.body)),
            body: (hashed && self.record_bodies)
                .then(|| serde_json::from_slice(&call.body).ok().map(Arc::new))
                .flatten(),
            status,
            code: answer.code.as_deref().map(|code| self.journal.text(code)),
            outcome,
            fault: greeting.fault.as_ref().map(|(name, _)| self.journal.text(name)),
            operation: answer.operation.as_deref().map(|id| self.journal.text(id)),
            duration: real.saturating_duration_since(arrival.started),
        };
        self.journal.append(entry);
    }
}

fn client_id(arrival: &Arrival, caller: Option<&Result<Caller, Refusal>>) -> String {
    match (caller, &arrival.token) {
        (Some(Ok(caller)), _) => caller.client_id.to_string(),
        (_, Some((_, form))) => {
            form.iter().find(|(name, _)| name == "client_id").map(|(_, value)| value.clone()).unwrap_or_default()
        }
        _ => String::new(),
    }
}

fn body_hash(body: &[u8]) -> Box<str> {
    made_up::hex_digits(&Sha256::digest(body)[..8]).into()
}

fn respond(status: u16, body: &serde_json::Value, headers: &[(String, String)]) -> Answer {
    let mut answer = match body {
        serde_json::Value::Null => Answer::empty(status),
        serde_json::Value::String(text) => Answer { body: Body::Text(text.clone()), ..Answer::empty(status) },
        body => Answer::json(status, body.clone()),
    };
    answer.headers.extend(headers.iter().map(|(name, value)| (name.clone().into(), value.clone())));
    answer
}

/// The tenant, if a call is to the token endpoint.
fn token_tenant(call: &Call) -> Option<String> {
    let tenant = call.path.strip_suffix("/oauth2/v2.0/token")?.strip_prefix('/')?;
    (call.method == Method::Post && !tenant.contains('/')).then(|| tenant.to_owned())
}

/// The fields of a form; none if the body is not a form.
fn form(call: &Call) -> Vec<(String, String)> {
    let is_form =
        call.headers.content_type.as_deref().is_some_and(|kind| kind.starts_with("application/x-www-form-urlencoded"));
    match std::str::from_utf8(&call.body) {
        Ok(text) if is_form => pairs(text),
        _ => Vec::new(),
    }
}

/// The decoded parts of a query or form.
pub(crate) fn pairs(text: &str) -> Vec<(String, String)> {
    let decode = |part: &str| {
        let part = part.replace('+', " ");
        percent_encoding::percent_decode_str(&part).decode_utf8_lossy().into_owned()
    };
    let parts = text.split('&').filter(|part| !part.is_empty());
    parts
        .map(|part| part.split_once('=').unwrap_or((part, "")))
        .map(|(name, value)| (decode(name), decode(value)))
        .collect()
}
