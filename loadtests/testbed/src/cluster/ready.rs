//! The Ready condition as users read it.

use std::fmt;

use kube::api::DynamicObject;
use serde::Deserialize;

/// One condition.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ready {
    #[serde(rename = "type")]
    kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// `Error`, `Warning`, `Info` or empty.
    #[serde(default)]
    pub severity: String,
    /// One word.
    pub reason: String,
    /// For people.
    #[serde(default)]
    pub message: String,
    /// The generation it speaks of.
    #[serde(default)]
    pub observed_generation: i64,
    /// When `status` last changed.
    pub last_transition_time: String,
}

impl Ready {
    /// The Ready condition of an object.
    pub fn of(object: &DynamicObject) -> Option<Self> {
        let conditions = object.data.pointer("/status/conditions")?;
        let conditions: Vec<Self> = serde_json::from_value(conditions.clone()).ok()?;
        conditions.into_iter().find(|condition| condition.kind == "Ready")
    }

    /// Whether it says True of the spec that the object has now.
    pub fn is_current(&self, object: &DynamicObject) -> bool {
        self.status == "True" && Some(self.observed_generation) == object.metadata.generation
    }
}

impl fmt::Display for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ready={} {} {}: {}", self.status, self.reason, self.severity, self.message)
    }
}
