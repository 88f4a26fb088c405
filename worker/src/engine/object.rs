//! Which object, and what of it the engine decides by.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use flotilla_proto::digest;

use super::condition::Condition;
use super::queue::Item;
pub use crate::id::Id;

impl Item for Id {
    fn namespace(&self) -> Arc<str> {
        Arc::clone(&self.namespace)
    }
}

/// What a PUT sends, named before it is sent.
///
/// It is stored in the `flotilla.dev/applied` annotation as `generation:api-version:hash`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intent {
    /// The generation whose spec the body was made from.
    pub generation: i64,
    /// ARM api-version of the request.
    pub api_version: String,
    /// First 16 hex digits of the body's SHA-256.
    pub hash: String,
}

impl Intent {
    /// The intent to send this body.
    pub fn new(generation: i64, api_version: &str, body: &serde_json::Value) -> Self {
        Self { generation, api_version: api_version.to_owned(), hash: digest::short(body.to_string()) }
    }

    /// Whether both send the same to the same version of the API.
    pub fn same_request(&self, other: &Intent) -> bool {
        self.hash == other.hash && self.api_version == other.api_version
    }
}

impl fmt::Display for Intent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.generation, self.api_version, self.hash)
    }
}

/// The annotation's text is not an intent.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0:?} is not generation:api-version:hash")]
pub struct BadIntent(String);

impl FromStr for Intent {
    type Err = BadIntent;

    fn from_str(text: &str) -> Result<Self, BadIntent> {
        let parse = || {
            let mut parts = text.splitn(3, ':');
            let generation = parts.next()?.parse().ok()?;
            Some(Self { generation, api_version: parts.next()?.to_owned(), hash: parts.next()?.to_owned() })
        };
        parse().ok_or_else(|| BadIntent(text.to_owned()))
    }
}

/// What an object may have done to its resource in Azure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Policy {
    /// Everything.
    #[default]
    Manage,
    /// Only reads.
    Skip,
    /// Everything but deleting.
    DetachOnDelete,
}

impl Policy {
    /// As it stands in the annotation.
    pub fn as_str(self) -> &'static str {
        match self {
            Policy::Manage => "manage",
            Policy::Skip => "skip",
            Policy::DetachOnDelete => "detach-on-delete",
        }
    }
}

/// The annotation's text is not a policy.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("unknown reconcile policy {0:?}; known are manage, skip, detach-on-delete")]
pub struct UnknownPolicy(String);

impl FromStr for Policy {
    type Err = UnknownPolicy;

    fn from_str(text: &str) -> Result<Self, UnknownPolicy> {
        [Policy::Manage, Policy::Skip, Policy::DetachOnDelete]
            .into_iter()
            .find(|policy| policy.as_str() == text)
            .ok_or_else(|| UnknownPolicy(text.to_owned()))
    }
}

/// The parts of an object that the engine decides by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Object {
    /// Grows with each change of the spec, and once more when deletion is asked for.
    pub generation: i64,
    /// Somebody deleted it; it stays until our finalizer is gone.
    pub deleting: bool,
    /// Our finalizer is on it.
    pub finalizer: bool,
    /// The installation that owns it, by its namespace.
    pub installation: Option<String>,
    /// ARM id that it claims; written before the first PUT.
    pub resource_id: Option<String>,
    /// What the latest PUT sent or is about to send.
    pub intent: Option<Intent>,
    /// Its Ready condition.
    pub ready: Option<Condition>,
    /// Its status holds an ARM id: Azure has had it.
    pub created: bool,
}

impl Object {
    /// Azure is known to have taken this generation's spec.
    pub fn confirmed(&self) -> bool {
        self.ready.as_ref().is_some_and(|ready| ready.is_true() && ready.observed_generation == self.generation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_intent_reads_back_as_written() {
        let intent = Intent::new(3, "2024-03-01", &serde_json::json!({ "location": "westeurope" }));
        assert_eq!(intent.to_string().parse(), Ok(intent.clone()));
        assert_eq!(intent.hash.len(), 16);
        assert!("3:2024-03-01".parse::<Intent>().is_err());
    }

    #[test]
    fn policies_are_spelled_as_users_do() {
        assert_eq!("detach-on-delete".parse(), Ok(Policy::DetachOnDelete));
        assert!("Manage".parse::<Policy>().is_err());
    }
}
