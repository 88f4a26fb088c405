//! ARM ids: paths that name a resource by its scope, its types and its names.
//!
//! Kept true here: ids that differ only in letter case are equal, as they are for ARM, and the spelling given is kept.

use std::fmt;
use std::hash::{Hash, Hasher};

/// The id of a resource, a resource group or a subscription, without a trailing slash.
#[derive(Clone)]
pub struct ArmId(String);

/// A text that is not an ARM id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not an ARM id: {reason}")]
pub struct Error {
    /// The text.
    pub text: String,
    /// What is wrong with it.
    pub reason: &'static str,
}

const PROVIDERS: &str = "/providers/";

impl ArmId {
    /// Reads an id and checks its form.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let bad = |reason| Error { text: text.to_owned(), reason };
        let id = text.trim_end_matches('/');
        let rest = id.strip_prefix('/').ok_or_else(|| bad("it does not begin with a slash"))?;
        let segments: Vec<&str> = rest.split('/').collect();
        if segments.iter().any(|s| s.is_empty()) {
            return Err(bad("it has an empty segment"));
        }
        // They would end the path of a URL or lead elsewhere in it.
        if segments.iter().any(|s| matches!(*s, "." | "..")) {
            return Err(bad("a segment of dots is not a name"));
        }
        if rest.contains(|c: char| matches!(c, '?' | '#' | '\\') || c.is_control()) {
            return Err(bad("it holds ?, #, \\ or a control character"));
        }
        let is = |i: usize, word: &str| segments.get(i).is_some_and(|s: &&str| s.eq_ignore_ascii_case(word));
        let mut at = 0;
        if is(0, "subscriptions") {
            at = 2;
            if is(2, "resourceGroups") {
                at = 4;
            }
        }
        if at > segments.len() {
            return Err(bad("a name is missing at its end"));
        }
        while at < segments.len() {
            if !is(at, "providers") {
                return Err(bad("expected /subscriptions/…, /resourceGroups/… or /providers/…"));
            }
            let next = (at + 1..segments.len()).find(|&i| (i - at).is_multiple_of(2) && is(i, "providers"));
            let end = next.unwrap_or(segments.len());
            // provider, then pairs of type and name
            if end - at < 4 || !(end - at).is_multiple_of(2) {
                return Err(bad("after /providers/ come a provider and pairs of type and name"));
            }
            at = end;
        }
        if segments.is_empty() {
            return Err(bad("it is empty"));
        }
        Ok(Self(id.to_owned()))
    }

    /// The id of a subscription.
    pub fn subscription(subscription: &str) -> Self {
        Self(format!("/subscriptions/{subscription}"))
    }

    /// The id of a resource group.
    pub fn resource_group(subscription: &str, name: &str) -> Self {
        Self(format!("/subscriptions/{subscription}/resourceGroups/{name}"))
    }

    /// The id of a top-level resource in this scope (a resource group, a subscription), or of an extension of this resource.
    pub fn extension(&self, arm_type: &str, name: &str) -> Self {
        Self(format!("{}{PROVIDERS}{arm_type}/{name}", self.0))
    }

    /// The id of a resource of the tenant.
    pub fn tenant_resource(arm_type: &str, name: &str) -> Self {
        Self(format!("{PROVIDERS}{arm_type}/{name}"))
    }

    /// The id of a child of this resource; `segment` is the last part of the child's type.
    pub fn child(&self, segment: &str, name: &str) -> Self {
        Self(format!("{}/{segment}/{name}", self.0))
    }

    /// This id with its own type spelled like `arm_type`, which differs from it by letter case at most.
    #[must_use]
    pub fn spelled_as(&self, arm_type: &str) -> Self {
        let Some(at) = self.last_provider().filter(|_| self.resource_type().eq_ignore_ascii_case(arm_type)) else {
            return self.clone();
        };
        let start = at + PROVIDERS.len();
        let names = self.0[start..].split('/').skip(2).step_by(2);
        let mut words = arm_type.split('/');
        let mut spelled = format!("{}{}", &self.0[..start], words.next().unwrap_or_default());
        for (word, name) in words.zip(names) {
            spelled = format!("{spelled}/{word}/{name}");
        }
        Self(spelled)
    }

    /// The id as given.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The last name.
    pub fn name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or_default()
    }

    /// The full ARM type, as in `Microsoft.Storage/storageAccounts/blobServices`.
    pub fn resource_type(&self) -> String {
        let Some(at) = self.last_provider() else {
            return match self.segments().len() {
                4 => "Microsoft.Resources/resourceGroups".to_owned(),
                _ => "Microsoft.Resources/subscriptions".to_owned(),
            };
        };
        let mut parts = self.0[at + PROVIDERS.len()..].split('/');
        let mut arm_type = parts.next().unwrap_or_default().to_owned();
        for segment in parts.step_by(2) {
            arm_type.push('/');
            arm_type.push_str(segment);
        }
        arm_type
    }

    /// The subscription, unless this is a resource of the tenant.
    pub fn subscription_id(&self) -> Option<&str> {
        let mut segments = self.0.split('/').skip(1);
        segments.next().filter(|s| s.eq_ignore_ascii_case("subscriptions")).and(segments.next())
    }

    /// The resource group's name.
    pub fn resource_group_name(&self) -> Option<&str> {
        let mut segments = self.0.split('/').skip(3);
        segments.next().filter(|s| s.eq_ignore_ascii_case("resourceGroups")).and(segments.next())
    }

    /// The owner: the parent resource, the resource that is extended, the resource group or the subscription.
    pub fn parent(&self) -> Option<Self> {
        let Some(at) = self.last_provider() else {
            return (self.segments().len() == 4)
                .then(|| Self(self.0.rsplitn(3, '/').last().unwrap_or_default().to_owned()));
        };
        let below = self.0[at + PROVIDERS.len()..].split('/').count();
        let parent = if below > 3 { self.0.rsplitn(3, '/').last().unwrap_or_default() } else { &self.0[..at] };
        (!parent.is_empty()).then(|| Self(parent.to_owned()))
    }

    /// Whether the resource group or resource `self` holds `other` or is it.
    pub fn contains(&self, other: &Self) -> bool {
        let (outer, inner) = (self.0.to_ascii_lowercase(), other.0.to_ascii_lowercase());
        inner.strip_prefix(&outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    fn segments(&self) -> Vec<&str> {
        self.0.split('/').skip(1).collect()
    }

    fn last_provider(&self) -> Option<usize> {
        self.0.to_ascii_lowercase().rfind(PROVIDERS)
    }
}

impl fmt::Display for ArmId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ArmId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl PartialEq for ArmId {
    fn eq(&self, other: &Self) -> bool {
        self.0.eq_ignore_ascii_case(&other.0)
    }
}

impl Eq for ArmId {}

impl Hash for ArmId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(self.0.to_ascii_lowercase().as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_take_apart_into_type_name_and_parent() {
        let id = ArmId::parse(
            "/subscriptions/s/resourceGroups/g/providers/Microsoft.Storage/storageAccounts/a/blobServices/default",
        )
        .unwrap();
        assert_eq!(id.resource_type(), "Microsoft.Storage/storageAccounts/blobServices");
        assert_eq!(id.name(), "default");
        assert_eq!((id.subscription_id(), id.resource_group_name()), (Some("s"), Some("g")));
        let account = id.parent().unwrap();
        assert_eq!(account.resource_type(), "Microsoft.Storage/storageAccounts");
        let group = account.parent().unwrap();
        assert_eq!(group.as_str(), "/subscriptions/s/resourceGroups/g");
        assert_eq!(group.resource_type(), "Microsoft.Resources/resourceGroups");
        let subscription = group.parent().unwrap();
        assert_eq!((subscription.as_str(), subscription.parent()), ("/subscriptions/s", None));
    }

    #[test]
    fn an_extension_belongs_to_what_it_extends() {
        let vnet =
            ArmId::parse("/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/virtualNetworks/v").unwrap();
        let role = vnet.extension("Microsoft.Authorization/roleAssignments", "r");
        assert_eq!(role.resource_type(), "Microsoft.Authorization/roleAssignments");
        assert_eq!(role.parent(), Some(vnet.clone()));
        assert!(vnet.contains(&role) && !role.contains(&vnet));
        assert_eq!(ArmId::parse(role.as_str()), Ok(role));
    }

    #[test]
    fn letter_case_does_not_matter() {
        let a = ArmId::parse("/subscriptions/S/resourcegroups/G").unwrap();
        assert_eq!(a, ArmId::resource_group("s", "g"));
        assert_eq!(a.as_str(), "/subscriptions/S/resourcegroups/G");
    }

    #[test]
    fn other_texts_are_refused_with_a_reason() {
        for text in [
            "",
            "x",
            "/",
            "/subscriptions",
            "/foo/bar",
            "/subscriptions/s/resourceGroups",
            "/providers/Microsoft.X",
            "/subscriptions/s/providers/Microsoft.X/types",
            "/subscriptions//resourceGroups/g",
            "/subscriptions/s/resourceGroups/..",
            "/subscriptions/s/resourceGroups/g?x",
            "/subscriptions/s/resourceGroups/g#x",
            "/subscriptions/s/resourceGroups/g\n",
        ] {
            assert!(ArmId::parse(text).is_err(), "{text}");
        }
    }
}
