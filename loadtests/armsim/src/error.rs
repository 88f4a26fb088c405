//! Refusals in ARM's form: a status, a code, a message.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::answer::Answer;

/// Why a call is refused, as ARM says it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    pub(crate) code: Cow<'static, str>,
    pub(crate) message: String,
    pub(crate) details: Vec<Value>,
    /// Whole seconds after which another try makes sense.
    pub(crate) retry_after: Option<u64>,
    /// `WWW-Authenticate`, on a 401.
    pub(crate) challenge: Option<String>,
    /// Whether ARM itself answers, before the service is asked.
    pub(crate) by_gateway: bool,
}

impl Refusal {
    /// A refusal by ARM itself.
    pub(crate) fn gateway(status: u16, code: &'static str, message: impl Into<String>) -> Self {
        Self { by_gateway: true, ..Self::service(status, code, message) }
    }

    /// A refusal by the service behind ARM.
    pub(crate) fn service(status: u16, code: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self {
            status,
            code: code.into(),
            message: message.into(),
            details: Vec::new(),
            retry_after: None,
            challenge: None,
            by_gateway: false,
        }
    }

    pub(crate) fn retry_after(self, seconds: u64) -> Self {
        Self { retry_after: Some(seconds), ..self }
    }

    pub(crate) fn body(&self) -> Value {
        let mut error = json!({"code": self.code, "message": self.message});
        if !self.details.is_empty() {
            error["details"] = Value::Array(self.details.clone());
        }
        json!({"error": error})
    }
}

impl From<Refusal> for Answer {
    fn from(refusal: Refusal) -> Self {
        let mut answer = Answer::json(refusal.status, refusal.body());
        if refusal.by_gateway {
            answer = answer.header("x-ms-failure-cause", "gateway");
        }
        if let Some(seconds) = refusal.retry_after {
            answer = answer.header("Retry-After", seconds.to_string());
        }
        if let Some(challenge) = refusal.challenge {
            answer = answer.header("WWW-Authenticate", challenge);
        }
        answer.code = Some(refusal.code);
        answer
    }
}
