//! Names and counters, each a type of its own, checked once on the way in.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A worker process: its pod's name and, after a slash, a random part per start.
///
/// A restarted pod is another worker that holds nothing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WorkerId(String);

impl WorkerId {
    /// Joins the pod's name and the random part of this start.
    pub fn new(pod: &str, incarnation: &str) -> Self {
        Self(format!("{pod}/{incarnation}"))
    }

    /// The pod's name, which is also its lease's.
    pub fn pod(&self) -> &str {
        self.0.split('/').next().unwrap_or_default()
    }

    /// The random part of this start.
    pub fn incarnation(&self) -> &str {
        self.0.split_once('/').map_or("", |(_, incarnation)| incarnation)
    }

    /// Both parts.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.pod())
    }
}

/// Grows with each new leader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Term(pub u64);

/// Grows each time a shard changes hands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Epoch(pub u64);

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "t{}", self.0)
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "e{}", self.0)
    }
}

/// A Kubernetes kind without its version, printed as `group/Kind`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GroupKind {
    /// API group, for example `storage.azure.com`.
    pub group: String,
    /// Kind, for example `StorageAccount`.
    pub kind: String,
}

impl GroupKind {
    /// Both parts as given.
    pub fn new(group: impl Into<String>, kind: impl Into<String>) -> Self {
        Self { group: group.into(), kind: kind.into() }
    }
}

impl fmt::Display for GroupKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.group, self.kind)
    }
}
