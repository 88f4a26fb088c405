//! An object as the watch sees it: metadata, conditions, and the ARM id. The spec and the rest of the status are skipped
//! while decoding, so that 10,000 large objects cost what 10,000 small ones do.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};

use jiff::Timestamp;
use kube::api::{ApiResource, ObjectMeta};
use kube::core::DynamicResourceScope;
use serde::Deserialize;

use super::condition::Severity;
use super::names;
use super::unready::Unready;

/// The decoded part.
#[derive(Clone, Debug, Deserialize)]
pub struct Seen {
    metadata: ObjectMeta,
    #[serde(default)]
    status: Option<SeenStatus>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct SeenStatus {
    #[serde(default)]
    conditions: Vec<SeenCondition>,
    #[serde(default)]
    id: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SeenCondition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    #[serde(default)]
    observed_generation: i64,
    #[serde(default)]
    severity: String,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    last_transition_time: String,
}

impl Seen {
    /// Ready=True, whatever the generation: others may build on it.
    pub fn ready(&self) -> bool {
        self.condition().is_some_and(|ready| ready.status == "True")
    }

    /// Why it is not ready and since when, if so. An object without a condition waits since its creation.
    pub fn unready(&self) -> Option<Unready> {
        let created = self.metadata.creation_timestamp.as_ref().map_or(0, |time| time.0.as_second());
        match self.condition() {
            Some(ready) if ready.status == "True" => None,
            Some(ready) => Some(Unready {
                reason: ready.reason.as_str().into(),
                severity: match ready.severity.as_str() {
                    "Error" => Severity::Error,
                    "Warning" => Severity::Warning,
                    "Info" => Severity::Info,
                    _ => Severity::None,
                },
                since: ready.last_transition_time.parse().map_or(created, Timestamp::as_second),
            }),
            None => Some(Unready { reason: "New".into(), severity: Severity::None, since: created }),
        }
    }

    /// Azure has had it.
    pub fn created(&self) -> bool {
        self.status.as_ref().is_some_and(|status| status.id.as_deref().is_some_and(|id| !id.is_empty()))
    }

    /// The ARM id that children and references build on.
    pub fn arm_id(&self) -> Option<&str> {
        self.annotation(names::CHILD_RESOURCE_ID_OVERRIDE).or_else(|| self.annotation(names::RESOURCE_ID))
    }

    /// There is nothing to do for it: ready in its present generation, with our finalizer, without an operation.
    pub fn settled(&self) -> bool {
        let generation = self.metadata.generation.unwrap_or(0);
        let current =
            self.condition().is_some_and(|ready| ready.status == "True" && ready.observed_generation == generation);
        let finalizers = self.metadata.finalizers.as_deref().unwrap_or_default();
        current
            && self.metadata.deletion_timestamp.is_none()
            && finalizers.iter().any(|finalizer| finalizer == names::FINALIZER)
            && self.annotation(names::OPERATION).is_none()
            && self.annotation(names::OPERATOR_NAMESPACE).is_some()
    }

    /// Changes when something changes that an object must be reconciled for, and not with what we write ourselves.
    pub fn mark(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.metadata.generation.hash(&mut hasher);
        self.metadata.deletion_timestamp.is_some().hash(&mut hasher);
        for annotation in [names::RECONCILE_POLICY, names::CREDENTIAL_FROM] {
            self.annotation(annotation).hash(&mut hasher);
        }
        hasher.finish()
    }

    fn condition(&self) -> Option<&SeenCondition> {
        self.status.as_ref()?.conditions.iter().find(|condition| condition.kind == "Ready")
    }

    fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata.annotations.as_ref()?.get(key).map(String::as_str).filter(|value| !value.is_empty())
    }
}

impl kube::Resource for Seen {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(dt: &ApiResource) -> Cow<'_, str> {
        dt.kind.as_str().into()
    }

    fn group(dt: &ApiResource) -> Cow<'_, str> {
        dt.group.as_str().into()
    }

    fn version(dt: &ApiResource) -> Cow<'_, str> {
        dt.version.as_str().into()
    }

    fn plural(dt: &ApiResource) -> Cow<'_, str> {
        dt.plural.as_str().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
