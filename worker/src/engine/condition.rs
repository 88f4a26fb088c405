//! The Ready condition: its reasons, its severities, and when a new one replaces the old.
//!
//! A condition is written only if it says something new: unchanged waits and repeated errors cost no write.

use std::borrow::Cow;
use std::fmt;

pub(crate) use flotilla_proto::Severity;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Why an object is (not) ready: a closed set, and ARM's own codes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Azure has what the spec states.
    Succeeded,
    /// Work is going on.
    Reconciling,
    /// Deletion is going on.
    Deleting,
    /// The credential belongs to another subscription than the resource.
    SubscriptionMismatch,
    /// A Secret, or a key in it, is absent.
    SecretNotFound,
    /// A ConfigMap, or a key in it, is absent.
    ConfigMapNotFound,
    /// A referenced object is absent or has no ARM id yet.
    ReferenceNotFound,
    /// The owner is absent or not ready.
    WaitingForOwner,
    /// Policy `skip`, and Azure has no such resource.
    AzureResourceNotFound,
    /// The kind's resources can't be deleted in Azure.
    DeletionNotSupportedInAzure,
    /// The kind is not one of ARM's, and Flotilla does not reconcile it yet.
    NotSupported,
    /// The spec can't be turned into a request.
    Failed,
    /// An error that is not ARM's.
    UnknownError,
    /// ARM's error code, or another word of the Azure edge.
    Code(String),
}

impl Reason {
    /// As it stands in the condition.
    pub fn as_str(&self) -> &str {
        match self {
            Reason::Succeeded => "Succeeded",
            Reason::Reconciling => "Reconciling",
            Reason::Deleting => "Deleting",
            Reason::SubscriptionMismatch => "SubscriptionMismatch",
            Reason::SecretNotFound => "SecretNotFound",
            Reason::ConfigMapNotFound => "ConfigMapNotFound",
            Reason::ReferenceNotFound => "ReferenceNotFound",
            Reason::WaitingForOwner => "WaitingForOwner",
            Reason::AzureResourceNotFound => "AzureResourceNotFound",
            Reason::DeletionNotSupportedInAzure => "DeletionNotSupportedInAzure",
            Reason::NotSupported => "NotSupported",
            Reason::Failed => "Failed",
            Reason::UnknownError => "UnknownError",
            Reason::Code(code) => code,
        }
    }
}

/// What we want the Ready condition to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ready {
    /// Why.
    pub reason: Reason,
    /// How bad.
    pub severity: Severity,
    /// The cause and the next step, for people.
    pub message: Cow<'static, str>,
}

impl Ready {
    /// Azure has what the spec states.
    pub fn succeeded() -> Self {
        Self { reason: Reason::Succeeded, severity: Severity::None, message: Cow::Borrowed("") }
    }

    /// A PUT is on its way or running.
    pub fn reconciling(message: impl Into<Cow<'static, str>>) -> Self {
        Self { reason: Reason::Reconciling, severity: Severity::Info, message: message.into() }
    }

    /// A DELETE is on its way or running.
    pub fn deleting(message: impl Into<Cow<'static, str>>) -> Self {
        Self { reason: Reason::Deleting, severity: Severity::Info, message: message.into() }
    }

    /// Something that may pass without a change by the user.
    pub fn warning(reason: Reason, message: impl Into<Cow<'static, str>>) -> Self {
        Self { reason, severity: Severity::Warning, message: message.into() }
    }

    /// Somebody has to change something.
    pub fn error(reason: Reason, message: impl Into<Cow<'static, str>>) -> Self {
        Self { reason, severity: Severity::Error, message: message.into() }
    }

    /// Whether this is `status: True`.
    pub fn is_true(&self) -> bool {
        self.reason == Reason::Succeeded
    }
}

impl fmt::Display for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason.as_str())?;
        if !self.message.is_empty() {
            write!(f, ": {}", self.message)?;
        }
        Ok(())
    }
}

/// A condition as it stands in `status.conditions`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Always `Ready` for ours.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// How bad it is while not True.
    #[serde(default, skip_serializing_if = "is_none")]
    pub severity: Severity,
    /// Since when status, severity and reason are these; whole seconds.
    pub last_transition_time: String,
    /// The generation that this speaks of.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub observed_generation: i64,
    /// Why.
    pub reason: String,
    /// For people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_none(severity: &Severity) -> bool {
    *severity == Severity::None
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(generation: &i64) -> bool {
    *generation == 0
}

impl Condition {
    /// The Ready condition of a status, if there is one.
    pub fn ready_in(status: &Value) -> Option<Self> {
        let conditions = status.get("conditions")?.as_array()?;
        let ready = conditions.iter().find(|condition| condition["type"] == "Ready")?;
        Self::deserialize(ready).ok()
    }

    /// Whether the status is True.
    pub fn is_true(&self) -> bool {
        self.status == "True"
    }

    /// Whether it reports a failure (of any kind) of the given generation.
    pub fn is_failure_of(&self, generation: i64) -> bool {
        self.observed_generation == generation && self.severity >= Severity::Warning
    }

    /// Higher numbers replace lower ones of the same generation.
    fn priority(&self) -> u8 {
        match (self.status.as_str(), self.severity) {
            ("True", _) | (_, Severity::Error | Severity::Warning) => 5,
            (_, Severity::Info) => 4,
            (_, Severity::None) => 3,
        }
    }

    /// Whether this says that something is missing, which work going on again shows to be over.
    fn says_missing(&self) -> bool {
        ["SecretNotFound", "ConfigMapNotFound", "ReferenceNotFound", "WaitingForOwner", "AzureResourceNotFound"]
            .contains(&self.reason.as_str())
    }
}

/// The condition to write, or nothing if the present one stays.
///
/// A newer generation always replaces an older one. Within a generation the weightier one wins, so that a routine
/// reconcile never turns True into Reconciling; Reconciling may replace a complaint that something is missing.
pub fn replace(present: Option<&Condition>, wanted: &Ready, generation: i64, now: Timestamp) -> Option<Condition> {
    let mut next = Condition {
        kind: "Ready".into(),
        status: if wanted.is_true() { "True" } else { "False" }.into(),
        severity: wanted.severity,
        last_transition_time: now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        observed_generation: generation,
        reason: wanted.reason.as_str().to_owned(),
        message: wanted.message.clone().into_owned(),
    };
    let Some(present) = present else { return Some(next) };
    let same_state =
        present.status == next.status && present.severity == next.severity && present.reason == next.reason;
    if same_state {
        next.last_transition_time.clone_from(&present.last_transition_time);
    }
    if present.observed_generation == generation {
        if same_state && steady(&present.message) == steady(&next.message) {
            return None;
        }
        if next.priority() < present.priority() && !present.says_missing() {
            return None;
        }
    }
    Some(next)
}

/// A message without the parts that differ each time the same thing is said: request ids and times.
fn steady(message: &str) -> String {
    let word = |word: &str| {
        let bare = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
        let hex = bare.len() >= 32 && bare.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
        let time = bare.len() >= 19
            && bare.as_bytes()[4] == b'-'
            && bare.as_bytes()[..4].iter().all(u8::is_ascii_digit)
            && bare.contains(':');
        if hex || time { "…".to_owned() } else { word.to_owned() }
    };
    message.split_whitespace().map(word).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    fn written(wanted: &Ready, generation: i64) -> Condition {
        replace(None, wanted, generation, at(0)).unwrap()
    }

    #[test]
    fn a_newer_generation_always_replaces_an_older_one() {
        let ready = written(&Ready::succeeded(), 1);
        let next = replace(Some(&ready), &Ready::reconciling("creating"), 2, at(5)).unwrap();
        assert_eq!((next.status.as_str(), next.observed_generation), ("False", 2));
    }

    #[test]
    fn routine_work_does_not_hide_a_verdict_of_the_same_generation() {
        for verdict in [Ready::succeeded(), Ready::warning(Reason::Code("Conflict".into()), "busy")] {
            assert_eq!(replace(Some(&written(&verdict, 1)), &Ready::reconciling("working"), 1, at(5)), None);
        }
    }

    #[test]
    fn work_replaces_the_complaint_that_something_is_missing() {
        let waiting = written(&Ready::warning(Reason::WaitingForOwner, "owner rg is not ready"), 1);
        let next = replace(Some(&waiting), &Ready::reconciling("creating"), 1, at(5)).unwrap();
        assert_eq!(next.reason, "Reconciling");
        assert_eq!(next.last_transition_time, at(5).to_string());
    }

    #[test]
    fn saying_the_same_again_writes_nothing() {
        let first = Ready::warning(
            Reason::Code("InternalServerError".into()),
            "failed; request 6f9619ff-8b86-d011-b42d-00cf4fc964ff at 2026-11-30T10:00:00Z",
        );
        let again = Ready::warning(
            Reason::Code("InternalServerError".into()),
            "failed; request 7a0720aa-8b86-d011-b42d-00cf4fc964ff at 2026-11-30T10:03:00Z",
        );
        assert_eq!(replace(Some(&written(&first, 1)), &again, 1, at(60)), None);
    }

    #[test]
    fn a_changed_message_is_written_and_keeps_since_when() {
        let first = written(&Ready::warning(Reason::ReferenceNotFound, "a and b are missing"), 1);
        let next =
            replace(Some(&first), &Ready::warning(Reason::ReferenceNotFound, "b is missing"), 1, at(60)).unwrap();
        assert_eq!(next.last_transition_time, first.last_transition_time);
        assert_eq!(next.message, "b is missing");
    }

    #[test]
    fn conditions_read_back_as_written() {
        let condition = written(&Ready::succeeded(), 3);
        let json = serde_json::to_value(&condition).unwrap();
        assert_eq!(json.get("severity"), None);
        assert_eq!(json["observedGeneration"], 3);
        let status = serde_json::json!({ "conditions": [json] });
        assert_eq!(Condition::ready_in(&status), Some(condition));
    }
}
