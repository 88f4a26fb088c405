//! Why a call to ARM failed: what kind of failure, how bad, when to try again, and the text for a condition.
//!
//! No text here holds a token, a body that we sent, or the query of a URL, which may be signed.

mod advice;
mod category;
mod classify;
mod config;
mod context;
mod fault;

use std::fmt;
use std::time::Duration;

pub use category::{Category, Retry};
use classify::{Pace, Verdict, classify};
pub use config::ConfigError;
pub(crate) use context::Context;
use context::resource_type;
pub use fault::Fault;
pub use flotilla_proto::Severity;

use super::call::Verb;
use crate::budget::Observation;

/// A call to ARM that failed, or a long-running operation that ended badly.
pub struct Error(Box<Inner>);

struct Inner {
    context: Context,
    cause: Cause,
    verdict: Verdict,
    retry_after: Option<Duration>,
    request_id: Option<String>,
    rate: Observation,
}

enum Cause {
    /// ARM answered, but not with a 2xx.
    Refused { status: u16, fault: Fault },
    /// A long-running operation ended in Failed or Canceled.
    Operation { fault: Fault },
    /// No answer.
    Unanswered { source: azure_core::Error },
    /// No token.
    NoToken { fault: Fault },
    /// Not sent: the body is larger than ARM takes.
    TooLarge { bytes: usize },
    /// Not sent: a URL that would take our token to a host outside of ARM.
    ForeignHost { host: String },
    /// Not sent: the path is not a valid one.
    BadUrl { detail: String },
}

/// ARM refuses larger request bodies.
pub(crate) const BODY_LIMIT: usize = 4 * 1024 * 1024;

/// What else an answer said.
#[derive(Clone, Debug, Default)]
pub(crate) struct Extras {
    /// `Retry-After`, by our clock.
    pub retry_after: Option<Duration>,
    /// `x-ms-request-id`.
    pub request_id: Option<String>,
    /// What the headers say about ARM's budget.
    pub rate: Observation,
}

impl Error {
    /// ARM answered with `status`, which is not 2xx.
    pub(crate) fn refused(context: Context, status: u16, body: &[u8], extras: Extras) -> Self {
        let fault = Fault::parse(body);
        let mut verdict = classify(&resource_type(&context.path).1, status, &fault);
        if verdict.category == Category::NotFound && matches!(context.verb, Some(Verb::Put | Verb::Patch | Verb::Post))
        {
            // What is created cannot be missing: something that it refers to is.
            verdict.category = Category::MissingDependency;
        }
        let mut error = Self::new(context, Cause::Refused { status, fault }, verdict);
        error.0.retry_after = extras.retry_after;
        error.0.request_id = extras.request_id;
        error.0.rate = extras.rate;
        if verdict.category != Category::Throttled {
            // A 429 that means a lock must not park a whole bucket.
            error.0.rate.throttled_for = None;
        }
        error
    }

    /// A long-running operation on the resource at `context.path` ended badly.
    pub(crate) fn operation(context: Context, code: &str, message: &str) -> Self {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let fault = Fault { code: some(code), message: some(message), inner: Vec::new() };
        let verdict = classify(&resource_type(&context.path).1, 0, &fault);
        Self::new(context, Cause::Operation { fault }, verdict)
    }

    pub(super) fn unanswered(context: Context, source: azure_core::Error) -> Self {
        Self::new(context, Cause::Unanswered { source }, verdict(Category::Unreachable, Pace::Fast))
    }

    /// Entra gave no token: it `refused` us, or it did not answer as it should.
    pub(super) fn no_token(context: Context, fault: Fault, refused: bool) -> Self {
        let category = if refused { Category::Authentication } else { Category::Unreachable };
        Self::new(context, Cause::NoToken { fault }, verdict(category, Pace::Fast))
    }

    pub(super) fn too_large(context: Context, bytes: usize) -> Self {
        Self::new(context, Cause::TooLarge { bytes }, verdict(Category::Invalid, Pace::UntilSpecChanges))
    }

    pub(super) fn foreign_host(context: Context, host: String) -> Self {
        Self::new(context, Cause::ForeignHost { host }, verdict(Category::Unknown, Pace::Slow))
    }

    pub(super) fn bad_url(context: Context, detail: String) -> Self {
        Self::new(context, Cause::BadUrl { detail }, verdict(Category::Invalid, Pace::UntilSpecChanges))
    }

    fn new(context: Context, cause: Cause, verdict: Verdict) -> Self {
        Self(Box::new(Inner {
            context,
            cause,
            verdict,
            retry_after: None,
            request_id: None,
            rate: Observation::default(),
        }))
    }

    pub(super) fn with_extras(mut self, extras: Extras) -> Self {
        self.0.retry_after = extras.retry_after.or(self.0.retry_after);
        self.0.rate = extras.rate;
        self
    }

    /// What kind of thing is wrong.
    pub fn category(&self) -> Category {
        self.0.verdict.category
    }

    /// How bad it is. A failed DELETE is never more than a warning, so that deleting goes on.
    pub fn severity(&self) -> Severity {
        match self.0.context.verb {
            Some(Verb::Delete) => Severity::Warning,
            _ => self.0.verdict.severity,
        }
    }

    /// When another try makes sense.
    pub fn retry(&self) -> Retry {
        match (self.0.retry_after, self.0.verdict.pace) {
            (Some(wait), Pace::Fast | Pace::Slow) => Retry::After(wait),
            (None, Pace::Slow) if self.0.verdict.category == Category::Throttled => {
                self.0.rate.throttled_for.map_or(Retry::Slow, Retry::After)
            }
            (_, Pace::Fast) => Retry::Fast,
            (_, Pace::Slow) => Retry::Slow,
            (_, Pace::VerySlow) => Retry::VerySlow,
            (_, Pace::UntilSpecChanges) => Retry::UntilSpecChanges,
        }
    }

    /// The reason to put into a condition: ARM's own code where it gave one.
    pub fn reason(&self) -> &str {
        match &self.0.cause {
            Cause::Refused { status, fault } => word(fault).unwrap_or(match status {
                400 => "BadRequest",
                401 => "AuthenticationFailed",
                403 => "AuthorizationFailed",
                404 | 410 => "NotFound",
                408 | 504 => "GatewayTimeout",
                409 => "Conflict",
                412 => "PreconditionFailed",
                429 => "TooManyRequests",
                500..=503 | 505..=599 => "ServerError",
                _ => "UnknownError",
            }),
            Cause::Operation { fault } => word(fault).unwrap_or("OperationFailed"),
            Cause::Unanswered { .. } => "AzureUnreachable",
            Cause::NoToken { .. } if self.category() == Category::Unreachable => "EntraUnreachable",
            Cause::NoToken { .. } => "AuthenticationFailed",
            Cause::TooLarge { .. } => "RequestContentTooLarge",
            Cause::ForeignHost { .. } => "ForeignHost",
            Cause::BadUrl { .. } => "InvalidResourceId",
        }
    }

    /// HTTP status, if there was an answer.
    pub fn status(&self) -> Option<u16> {
        match self.0.cause {
            Cause::Refused { status, .. } => Some(status),
            _ => None,
        }
    }

    /// Error code as ARM gave it.
    pub fn code(&self) -> Option<&str> {
        self.fault()?.code.as_deref()
    }

    /// Code and messages as ARM gave them.
    pub fn fault(&self) -> Option<&Fault> {
        match &self.0.cause {
            Cause::Refused { fault, .. } | Cause::Operation { fault } | Cause::NoToken { fault } => Some(fault),
            _ => None,
        }
    }

    /// The resource, or its whole group, does not exist: for a DELETE that is success.
    pub fn is_gone(&self) -> bool {
        matches!(self.status(), Some(404 | 410))
    }

    /// The resource provider that the subscription has to register first.
    ///
    /// ARM names it in the message, because a resource may need another provider than its own.
    pub(crate) fn unregistered(&self) -> Option<&str> {
        if self.category() != Category::NotRegistered {
            return None;
        }
        let named = self.fault().and_then(|fault| fault.message.as_deref()).and_then(|text| {
            let name = text.split_once("namespace '")?.1.split_once('\'')?.0;
            (!name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '.')).then_some(name)
        });
        named.or_else(|| self.0.context.namespace())
    }

    /// Not sent, because the URL leads out of this cloud's ARM.
    pub(crate) fn is_foreign_host(&self) -> bool {
        matches!(self.0.cause, Cause::ForeignHost { .. })
    }

    /// How long Azure asked to wait, by our clock.
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// What the answer said about ARM's budget; empty if there was none.
    pub fn rate(&self) -> &Observation {
        &self.0.rate
    }

    /// `x-ms-request-id`: what Azure's support asks for.
    pub(crate) fn request_id(&self) -> Option<&str> {
        self.0.request_id.as_deref()
    }

    /// The cause and the next step, for a condition or an event.
    pub fn message(&self) -> String {
        let context = &self.0.context;
        let cause = match &self.0.cause {
            Cause::Refused { status, fault } => match fault.text() {
                text if text.is_empty() => format!("Azure answered {} with {status} and gave no reason", self.call()),
                text => text,
            },
            Cause::Operation { fault } => match fault.text() {
                text if text.is_empty() => {
                    format!("the long-running operation on {} failed without a reason", context.path)
                }
                text => text,
            },
            Cause::Unanswered { source } => format!("{} was not answered: {}", self.call(), chain(source)),
            Cause::NoToken { fault } => {
                format!(
                    "Entra refused a token to {} of tenant {}: {}",
                    context.identity(),
                    context.tenant,
                    fault.text()
                )
            }
            Cause::TooLarge { bytes } => {
                format!("the request for {} has {bytes} bytes; ARM accepts at most {BODY_LIMIT}", context.path)
            }
            Cause::ForeignHost { host } => {
                format!(
                    "Flotilla did not send the request: {host} is not a host of this cloud's ARM, and must not receive a token"
                )
            }
            Cause::BadUrl { detail } => format!("{:?} is not a path of ARM: {detail}", context.path),
        };
        let step = advice::next_step(self.category(), self.reason(), self.retry(), context, self.unregistered());
        format!("{}. Next: {step}.", cause.trim_end_matches(['.', ' ']))
    }

    fn call(&self) -> String {
        match self.0.context.verb {
            Some(verb) => format!("{verb} {}", self.0.context.path),
            None => self.0.context.path.clone(),
        }
    }
}

const fn verdict(category: Category, pace: Pace) -> Verdict {
    let severity = if matches!(pace, Pace::UntilSpecChanges) { Severity::Error } else { Severity::Warning };
    Verdict { category, pace, severity }
}

/// A code that can be a reason of a condition; numbers cannot.
fn word(fault: &Fault) -> Option<&str> {
    let code = fault.code.as_deref()?;
    let fits = code.starts_with(|first: char| first.is_ascii_alphabetic())
        && code.len() <= 256
        && code.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | ':' | ','));
    fits.then_some(code)
}

/// An error with its causes, without a URL's query.
fn chain(error: &azure_core::Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        let said = cause.to_string();
        if !text.contains(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        source = cause.source();
    }
    text
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "failed to {}: {}", self.call(), self.reason())?;
        match self.status() {
            Some(status) => write!(f, " ({status})"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("call", &self.call())
            .field("reason", &self.reason())
            .field("status", &self.status())
            .field("category", &self.category())
            .field("retry", &self.retry())
            .field("request_id", &self.request_id())
            .field("text", &self.fault().map(Fault::text))
            .finish()
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0.cause {
            Cause::Unanswered { source } => Some(source),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
