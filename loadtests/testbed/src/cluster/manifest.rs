//! Manifests: several objects in one YAML text.

use std::fmt;

use anyhow::{Context as _, Result};
use kube::ResourceExt;
use kube::api::DynamicObject;

/// Reads all documents of a YAML text; empty ones are left out.
pub fn parse(yaml: &str) -> Result<Vec<DynamicObject>> {
    let documents: Vec<Option<DynamicObject>> =
        serde_saphyr::from_multiple(yaml).context("failed to read manifests")?;
    Ok(documents.into_iter().flatten().collect())
}

/// Prints as `Kind/namespace/name`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Named {
    kind: String,
    namespace: String,
    name: String,
}

impl Named {
    /// The name of this object.
    pub fn of(object: &DynamicObject) -> Self {
        Self {
            kind: object.types.as_ref().map(|types| types.kind.clone()).unwrap_or_default(),
            namespace: object.namespace().unwrap_or_default(),
            name: object.name_any(),
        }
    }
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.kind, self.namespace, self.name)
    }
}
