//! What a path asks for: ARM's id grammar, and the paths around it that are no ids (collections, actions, registrations).
//!
//! Kept true here: paths that differ only in letter case mean the same.

use super::ArmId;
use super::answer::Method;

/// The name under which something is kept: its id without letter case.
pub(crate) fn key(id: &ArmId) -> String {
    id.as_str().to_ascii_lowercase()
}

/// Everything a path can ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Route {
    /// `/subscriptions`
    Subscriptions,
    /// `/subscriptions/{id}`
    Subscription(ArmId),
    /// `/subscriptions/{id}/resourceGroups`
    Groups(ArmId),
    /// `/subscriptions/{id}/locations`
    Locations(ArmId),
    /// `…/resources` of a subscription or a resource group: all top-level resources in it
    Resources(ArmId),
    /// `/subscriptions/{id}/providers/{namespace}`
    Provider(ArmId, String),
    /// `POST /subscriptions/{id}/providers/{namespace}/register`
    Register(ArmId, String),
    /// A resource group or a resource
    Item(ArmId),
    /// All resources of a type in a scope, or all children of a resource; the scope is none for the tenant
    Collection {
        /// The subscription, resource group or resource they are in.
        scope: Option<ArmId>,
        /// Their type, in the casing of the path.
        arm_type: String,
    },
    /// `POST {resource}/{action}`
    Action(ArmId, String),
}

impl Route {
    /// Reads a path. `None`: ARM has nothing there.
    pub(crate) fn parse(method: Method, path: &str) -> Option<Self> {
        let segments: Vec<&str> = path.strip_prefix('/')?.split('/').collect();
        let is =
            |at: usize, word: &str| segments.get(at).is_some_and(|segment: &&str| segment.eq_ignore_ascii_case(word));
        if !segments.iter().any(|segment| segment.eq_ignore_ascii_case("providers")) {
            if !is(0, "subscriptions") {
                return None;
            }
            let subscription = || segments.get(1).map(|id| ArmId::subscription(id));
            return match segments.len() {
                1 => Some(Self::Subscriptions),
                2 => subscription().map(Self::Subscription),
                3 if is(2, "resourceGroups") => subscription().map(Self::Groups),
                3 if is(2, "locations") => subscription().map(Self::Locations),
                3 if is(2, "resources") => subscription().map(Self::Resources),
                4 if is(2, "resourceGroups") => ArmId::parse(path).ok().map(Self::Item),
                5 if is(2, "resourceGroups") && is(4, "resources") => {
                    ArmId::parse(path.rsplit_once('/')?.0).ok().map(Self::Resources)
                }
                _ => None,
            };
        }
        if let Ok(id) = ArmId::parse(path) {
            return Some(Self::Item(id));
        }
        // `…/providers/{namespace}`, and one segment too few or too many for an id.
        let (scope, tail) = last_provider(path)?;
        let scope = if scope.is_empty() { None } else { Some(ArmId::parse(scope).ok()?) };
        let tail: Vec<&str> = tail.split('/').collect();
        match (tail.as_slice(), scope) {
            ([namespace], Some(scope)) => Some(Self::Provider(scope, (*namespace).to_owned())),
            ([namespace, "register"], Some(scope)) if method == Method::Post => {
                Some(Self::Register(scope, (*namespace).to_owned()))
            }
            ([_, arm_type], scope) => Some(Self::Collection { scope, arm_type: format!("{}/{arm_type}", tail[0]) }),
            _ => {
                let (parent, last) = path.rsplit_once('/')?;
                let parent = ArmId::parse(parent).ok()?;
                if method == Method::Post {
                    return Some(Self::Action(parent, last.to_owned()));
                }
                let arm_type = format!("{}/{last}", parent.resource_type());
                Some(Self::Collection { scope: Some(parent), arm_type })
            }
        }
    }

    /// The subscription that the path is in.
    pub(crate) fn subscription(&self) -> Option<&str> {
        match self {
            Self::Subscriptions => None,
            Self::Subscription(id)
            | Self::Groups(id)
            | Self::Locations(id)
            | Self::Resources(id)
            | Self::Provider(id, _)
            | Self::Register(id, _)
            | Self::Item(id)
            | Self::Action(id, _) => id.subscription_id(),
            Self::Collection { scope, .. } => scope.as_ref().and_then(ArmId::subscription_id),
        }
    }

    /// The type of what is asked for.
    pub(crate) fn arm_type(&self) -> String {
        match self {
            Self::Subscriptions | Self::Subscription(_) | Self::Locations(_) => {
                "Microsoft.Resources/subscriptions".into()
            }
            Self::Groups(_) => "Microsoft.Resources/resourceGroups".into(),
            Self::Resources(_) => "Microsoft.Resources/resources".into(),
            Self::Provider(..) | Self::Register(..) => "Microsoft.Resources/providers".into(),
            Self::Item(id) | Self::Action(id, _) => id.resource_type(),
            Self::Collection { arm_type, .. } => arm_type.clone(),
        }
    }
}

/// What is before and after the last `/providers/`.
fn last_provider(path: &str) -> Option<(&str, &str)> {
    const WORD: &str = "/providers/";
    let at = path.to_ascii_lowercase().rfind(WORD)?;
    Some((&path[..at], &path[at + WORD.len()..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(path: &str) -> ArmId {
        ArmId::parse(path).unwrap()
    }

    #[test]
    fn paths_of_all_scopes_are_understood() {
        let get = |path: &str| Route::parse(Method::Get, path);
        let group = id("/subscriptions/s/resourceGroups/g");
        let account = group.extension("Microsoft.Storage/storageAccounts", "a");
        assert_eq!(get("/subscriptions/s/resourcegroups/G"), Some(Route::Item(group.clone())));
        assert_eq!(get("/subscriptions/s/RESOURCEGROUPS"), Some(Route::Groups(ArmId::subscription("s"))));
        assert_eq!(get("/subscriptions/s/resourceGroups/g/resources"), Some(Route::Resources(group.clone())));
        assert_eq!(get(account.as_str()), Some(Route::Item(account.clone())));
        let collection = |scope: &ArmId, arm_type: &str| {
            Some(Route::Collection { scope: Some(scope.clone()), arm_type: arm_type.into() })
        };
        assert_eq!(
            get("/subscriptions/s/resourceGroups/g/providers/Microsoft.Storage/storageAccounts"),
            collection(&group, "Microsoft.Storage/storageAccounts")
        );
        assert_eq!(
            get("/subscriptions/s/providers/Microsoft.Storage/storageAccounts"),
            collection(&ArmId::subscription("s"), "Microsoft.Storage/storageAccounts")
        );
        assert_eq!(
            get(&format!("{account}/blobServices")),
            collection(&account, "Microsoft.Storage/storageAccounts/blobServices")
        );
        let role = account.extension("Microsoft.Authorization/roleAssignments", "r");
        assert_eq!(get(role.as_str()), Some(Route::Item(role.clone())));
        assert_eq!(
            get(&format!("{account}/providers/Microsoft.Authorization/roleAssignments")),
            collection(&account, "Microsoft.Authorization/roleAssignments")
        );
        assert_eq!(
            get("/providers/Microsoft.Management/managementGroups"),
            Some(Route::Collection { scope: None, arm_type: "Microsoft.Management/managementGroups".into() })
        );
    }

    #[test]
    fn a_post_below_a_resource_is_an_action() {
        let post = |path: &str| Route::parse(Method::Post, path);
        let account = id("/subscriptions/s/resourceGroups/g/providers/Microsoft.Storage/storageAccounts/a");
        assert_eq!(post(&format!("{account}/listKeys")), Some(Route::Action(account.clone(), "listKeys".into())));
        assert_eq!(
            post("/subscriptions/s/providers/Microsoft.App/register"),
            Some(Route::Register(ArmId::subscription("s"), "Microsoft.App".into()))
        );
    }

    #[test]
    fn other_paths_are_nothing() {
        for path in [
            "/",
            "/foo",
            "/subscriptions/s/foo",
            "/subscriptions//resourceGroups/g",
            "/subscriptions/s/resourceGroups/g/providers",
        ] {
            assert_eq!(Route::parse(Method::Get, path), None, "{path}");
        }
    }
}
