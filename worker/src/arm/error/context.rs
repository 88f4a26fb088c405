//! Which call an error belongs to, and what its path says about the resource.

use super::super::call::Verb;

/// Which call an error belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Context {
    /// Method; none for an operation's own end.
    pub verb: Option<Verb>,
    /// Path of what was called, without a query.
    pub path: String,
    /// Client id of the caller.
    pub client_id: String,
    /// Tenant of the caller.
    pub tenant: String,
    /// Where the caller's credential came from.
    pub origin: String,
}

impl Context {
    pub(super) fn identity(&self) -> String {
        if self.client_id.is_empty() {
            return "the identity".to_owned();
        }
        if self.origin.is_empty() {
            return format!("client {}", self.client_id);
        }
        format!("client {} ({})", self.client_id, self.origin)
    }

    /// Type of the resource that was called, for example `Microsoft.App/jobs`; empty where the path has none.
    pub(crate) fn resource_type(&self) -> String {
        resource_type(&self.path).1
    }

    /// Resource provider namespace, for example `Microsoft.App`.
    pub(super) fn namespace(&self) -> Option<&str> {
        resource_type(&self.path).0
    }
}

/// Provider namespace and resource type (`Microsoft.App/jobs`) at the end of a path.
pub(super) fn resource_type(path: &str) -> (Option<&str>, String) {
    let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    let Some(at) = segments.iter().rposition(|segment| segment.eq_ignore_ascii_case("providers")) else {
        let group = segments.len() >= 3 && segments[2].eq_ignore_ascii_case("resourceGroups");
        let kind = if group { "Microsoft.Resources/resourceGroups" } else { "" };
        return (group.then_some("Microsoft.Resources"), kind.to_owned());
    };
    let Some(namespace) = segments.get(at + 1).copied() else { return (None, String::new()) };
    let types = segments[at + 2..].iter().step_by(2);
    (Some(namespace), types.fold(namespace.to_owned(), |all, part| all + "/" + part))
}
