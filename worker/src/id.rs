//! Which object: group, kind, namespace and name.

use std::fmt;
use std::sync::Arc;

use flotilla_proto::{GroupKind, v1};

/// An object's place in the cluster; cheap to clone, because queue, records and indexes all hold it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id {
    /// Group and kind.
    pub kind: Arc<GroupKind>,
    /// Namespace.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind.kind, self.namespace, self.name)
    }
}

impl From<&Id> for v1::ObjectName {
    fn from(id: &Id) -> Self {
        Self {
            group: id.kind.group.clone(),
            kind: id.kind.kind.clone(),
            namespace: id.namespace.to_string(),
            name: id.name.to_string(),
        }
    }
}

impl From<v1::ObjectName> for Id {
    fn from(name: v1::ObjectName) -> Self {
        Self {
            kind: Arc::new(GroupKind::new(name.group, name.kind)),
            namespace: name.namespace.into(),
            name: name.name.into(),
        }
    }
}
