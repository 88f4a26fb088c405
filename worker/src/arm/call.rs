//! One request to ARM and what came back.

use std::fmt;
use std::time::Duration;

use azure_core::http::{Method, Url};
use serde_json::Value;

use crate::budget::{Class, Observation, Priority};

/// Method of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Verb {
    /// Reads.
    Get,
    /// Asks whether something exists.
    Head,
    /// Creates or replaces.
    Put,
    /// Changes some fields.
    Patch,
    /// Deletes.
    Delete,
    /// Runs an action; also reads keys.
    Post,
}

impl Verb {
    /// Which of ARM's buckets pays.
    pub const fn class(self) -> Class {
        match self {
            Self::Get | Self::Head => Class::Read,
            Self::Put | Self::Patch | Self::Post => Class::Write,
            Self::Delete => Class::Delete,
        }
    }

    /// The method as it goes over the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
            Self::Post => "POST",
        }
    }

    pub(super) const fn method(self) -> Method {
        match self {
            Self::Get => Method::Get,
            Self::Head => Method::Head,
            Self::Put => Method::Put,
            Self::Patch => Method::Patch,
            Self::Delete => Method::Delete,
            Self::Post => Method::Post,
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Where a request goes.
#[derive(Clone, Copy)]
pub enum Target<'a> {
    /// A resource, an action of it or a list: a path under the identity's endpoint, which begins with a slash.
    Id {
        /// Path, for example `/subscriptions/…/resourceGroups/rg`.
        id: &'a str,
        /// Version of the resource type's API.
        api_version: &'a str,
    },
    /// A URL that ARM gave us: an operation, a next page. It may carry a signature.
    Url(&'a Url),
}

impl fmt::Debug for Target<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id { id, api_version } => write!(f, "{id}?api-version={api_version}"),
            Self::Url(url) => f.write_str(&redacted(url)),
        }
    }
}

/// One request.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    /// Method.
    pub verb: Verb,
    /// Where it goes.
    pub target: Target<'a>,
    /// JSON to send.
    pub body: Option<&'a Value>,
    /// Why it is made; the budget serves by it.
    pub priority: Priority,
    /// `x-ms-correlation-request-id`: the same for all calls of one reconcile, so that Azure's activity log groups them.
    pub correlation: Option<uuid::Uuid>,
}

impl<'a> Call<'a> {
    /// A request for `id` without a body.
    pub const fn new(verb: Verb, id: &'a str, api_version: &'a str, priority: Priority) -> Self {
        Self { verb, target: Target::Id { id, api_version }, body: None, priority, correlation: None }
    }

    /// Reads a resource.
    pub const fn get(id: &'a str, api_version: &'a str, priority: Priority) -> Self {
        Self::new(Verb::Get, id, api_version, priority)
    }

    /// Creates or replaces a resource.
    pub const fn put(id: &'a str, api_version: &'a str, body: &'a Value, priority: Priority) -> Self {
        Self { body: Some(body), ..Self::new(Verb::Put, id, api_version, priority) }
    }

    /// Deletes a resource.
    pub const fn delete(id: &'a str, api_version: &'a str) -> Self {
        Self::new(Verb::Delete, id, api_version, Priority::Delete)
    }

    /// Reads a URL that ARM gave us.
    pub const fn poll(url: &'a Url) -> Self {
        Self { verb: Verb::Get, target: Target::Url(url), body: None, priority: Priority::Poll, correlation: None }
    }

    /// The same request as a part of the reconcile that `correlation` names.
    pub const fn correlated(self, correlation: uuid::Uuid) -> Self {
        Self { correlation: Some(correlation), ..self }
    }
}

impl fmt::Debug for Call<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?} ({})", self.verb, self.target, self.priority)
    }
}

/// What ARM answered to a request it accepted (2xx).
#[derive(Clone)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// JSON body; null where empty, a string where it is not JSON.
    pub body: Value,
    /// `Azure-AsyncOperation`, or `Operation-Location` in its place.
    pub async_operation: Option<Url>,
    /// `Location` as sent: a relative one names no operation.
    pub location: Option<String>,
    /// How long to wait by our clock; at least one of ARM's seconds where ARM gave a value.
    pub retry_after: Option<Duration>,
    /// `x-ms-request-id`: what Azure's support asks for.
    pub request_id: Option<String>,
    /// `x-ms-correlation-request-id`: finds the call in Azure's activity log.
    pub correlation_id: Option<String>,
    /// What the answer says about ARM's budget.
    pub rate: Observation,
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Neither the body, which may hold keys, nor the operation's signature.
        f.debug_struct("Answer")
            .field("status", &self.status)
            .field("async_operation", &self.async_operation.as_ref().map(redacted))
            .field("retry_after", &self.retry_after)
            .field("request_id", &self.request_id)
            .finish_non_exhaustive()
    }
}

/// A URL without the query, whose parameters sign it.
pub(crate) fn redacted(url: &Url) -> String {
    let mut text = format!("{}://{}", url.scheme(), url.authority());
    text.push_str(url.path());
    if let Some((_, version)) = url.query_pairs().find(|(key, _)| key == "api-version") {
        text.push_str("?api-version=");
        text.push_str(&version);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_of_an_operation_are_not_printed() {
        let url = Url::parse("https://arm.example/o/1?api-version=2024-01-01&t=1&c=CERT&s=SIGN&h=HASH").unwrap();
        let printed = format!("{:?}", Call::poll(&url));
        assert_eq!(printed, "GET https://arm.example/o/1?api-version=2024-01-01 (poll)");
    }
}
