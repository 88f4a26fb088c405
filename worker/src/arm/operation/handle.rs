//! What has to be remembered of a running operation.

use std::fmt;
use std::time::Duration;

use azure_core::http::Url;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::super::call::{Call, Verb, redacted};
use super::Start;
use crate::budget::Priority;

/// Where an operation is asked about.
#[derive(Clone, PartialEq, Eq)]
pub enum Form {
    /// A record of the operation (`Azure-AsyncOperation`): 200 with a `status`, whatever that is.
    Status(Url),
    /// `Location`: 202 while it runs, then the reply of the request itself.
    Location(Url),
    /// The resource: its `provisioningState`, or whether it exists.
    Resource,
}

impl fmt::Debug for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(url) => write!(f, "Status({})", redacted(url)),
            Self::Location(url) => write!(f, "Location({})", redacted(url)),
            Self::Resource => f.write_str("Resource"),
        }
    }
}

/// A running operation. Its JSON goes into an annotation; keep it small.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Stored", into = "Stored")]
pub struct Handle {
    /// Method of the request that started it.
    pub verb: Verb,
    /// Path of the resource.
    pub resource_id: String,
    /// Version of the resource type's API.
    pub api_version: String,
    /// Where it is asked about.
    pub form: Form,
    /// Where a POST's result is, once it has one.
    pub(super) result: Option<Url>,
    /// Generation of the object that it works for; 0 where unknown.
    pub generation: i64,
    /// Hash of the body that was sent.
    pub body_hash: String,
    /// When Azure accepted it.
    pub started: Timestamp,
    /// Azure's last word on its state; empty before the first.
    pub last_state: String,
    /// Since when that has been its word.
    pub state_since: Timestamp,
    /// When to ask next.
    pub next_poll: Timestamp,
    /// The last wait that Azure asked for, by our clock.
    pub(super) asked_wait: Option<Duration>,
    /// Polls answered; makes the waits grow where Azure names none.
    pub(super) polls: u32,
    /// Polls failed in a row. Another worker starts over.
    pub(super) failures: u32,
    /// Polls answered without a state.
    pub(super) blind: u32,
}

impl Handle {
    pub(super) fn new(start: &Start<'_>, form: Form, result: Option<Url>, now: Timestamp) -> Self {
        Self {
            verb: start.verb,
            resource_id: start.resource_id.to_owned(),
            api_version: start.api_version.to_owned(),
            form,
            result,
            generation: start.generation,
            body_hash: start.body_hash.to_owned(),
            started: now,
            last_state: String::new(),
            state_since: now,
            next_poll: now,
            asked_wait: None,
            polls: 0,
            failures: 0,
            blind: 0,
        }
    }

    /// The next poll.
    pub fn call(&self) -> Call<'_> {
        match &self.form {
            Form::Status(url) | Form::Location(url) => Call::poll(url),
            Form::Resource => Call::get(&self.resource_id, &self.api_version, Priority::Poll),
        }
    }

    /// How long it has been running.
    pub(crate) fn age(&self, now: Timestamp) -> Duration {
        Duration::try_from(now.duration_since(self.started)).unwrap_or(Duration::ZERO)
    }

    /// Polls that failed in a row; the condition says so when there are several.
    pub(crate) fn failures(&self) -> u32 {
        self.failures
    }
}

/// The handle as it is stored: short keys, times in milliseconds, nothing that is empty.
#[derive(Clone, Serialize, Deserialize)]
struct Stored {
    verb: Verb,
    id: String,
    api: String,
    form: StoredForm,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    result: Option<String>,
    #[serde(default, rename = "gen")]
    generation: i64,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    hash: String,
    started: i64,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    state: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    since: Option<i64>,
    next: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    told: Option<u64>,
    #[serde(default)]
    polls: u32,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum StoredForm {
    Status,
    Location,
    Resource,
}

/// A stored handle that cannot be used. The text is left out: it may hold a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("stored operation has no usable {0}")]
pub struct Unusable(&'static str);

impl From<Handle> for Stored {
    fn from(handle: Handle) -> Self {
        let (form, url) = match handle.form {
            Form::Status(url) => (StoredForm::Status, Some(url.into())),
            Form::Location(url) => (StoredForm::Location, Some(url.into())),
            Form::Resource => (StoredForm::Resource, None),
        };
        Self {
            verb: handle.verb,
            id: handle.resource_id,
            api: handle.api_version,
            form,
            url,
            result: handle.result.map(Into::into),
            generation: handle.generation,
            hash: handle.body_hash,
            started: handle.started.as_millisecond(),
            since: (handle.state_since != handle.started).then(|| handle.state_since.as_millisecond()),
            state: handle.last_state,
            next: handle.next_poll.as_millisecond(),
            told: handle.asked_wait.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)),
            polls: handle.polls,
        }
    }
}

impl TryFrom<Stored> for Handle {
    type Error = Unusable;

    fn try_from(stored: Stored) -> Result<Self, Unusable> {
        let parse = |text: &String| Url::parse(text).ok().filter(Url::has_host);
        let time = |milliseconds: i64| Timestamp::from_millisecond(milliseconds).ok();
        let url = stored.url.as_ref().and_then(parse).ok_or(Unusable("url"));
        Ok(Self {
            verb: stored.verb,
            resource_id: stored.id,
            api_version: stored.api,
            form: match stored.form {
                StoredForm::Status => Form::Status(url?),
                StoredForm::Location => Form::Location(url?),
                StoredForm::Resource => Form::Resource,
            },
            result: stored.result.as_ref().and_then(parse),
            generation: stored.generation,
            body_hash: stored.hash,
            started: time(stored.started).ok_or(Unusable("start"))?,
            state_since: time(stored.since.unwrap_or(stored.started)).ok_or(Unusable("start"))?,
            last_state: stored.state,
            next_poll: time(stored.next).ok_or(Unusable("time"))?,
            asked_wait: stored.told.map(Duration::from_millis),
            polls: stored.polls,
            failures: 0,
            blind: 0,
        })
    }
}
