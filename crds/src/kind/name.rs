//! ARM names of objects. Nothing is written back to the object: the same object always gives the same name.
//!
//! UUID names are made as ASO makes them, so a cluster that moves over keeps its role assignments.

use serde_json::Value;
use uuid::Uuid;

use super::{Kind, Owner, Version};
use crate::graph::Node;
use crate::shape::Role;

/// ASO's namespace for UUID names.
const NAMESPACE: Uuid = Uuid::from_u128(0x9a32_9043_7ad7_4b1c_812f_9c7a_93d6_392a);

/// How a kind's resources are named in ARM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// `spec.azureName`, or `metadata.name` without it.
    AzureName,
    /// Always this name.
    Fixed(String),
    /// `spec.azureName`, or a UUID.
    Uuid,
}

/// Who wants a name.
#[derive(Clone, Copy, Debug)]
pub struct NameContext<'a> {
    /// `metadata.namespace`.
    pub namespace: &'a str,
    /// `metadata.name`.
    pub name: &'a str,
    /// `metadata.uid`; makes the names of `namingConvention: random` differ between objects.
    pub uid: &'a str,
    /// The value of the key that `azureNameFromConfig` names.
    pub from_config: Option<&'a str>,
}

/// Why an object has no usable ARM name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// azureName is not a string.
    #[error("spec.azureName is not a string")]
    NotText,
    /// A name that would change the URL.
    #[error("spec.azureName {name:?} holds {character:?}, which is not allowed in an ARM name")]
    Character {
        /// The name.
        name: String,
        /// The character.
        character: char,
    },
    /// The name is empty.
    #[error("spec.azureName is empty")]
    Empty,
    /// Nothing says which of some resources it is.
    #[error("spec does not determine which resource this is: set one of {0}")]
    NoAlternative(String),
    /// The name is in a config map and its value is not given.
    #[error("spec.azureNameFromConfig is not resolved")]
    FromConfig,
    /// The name is in the spec and in a config map.
    #[error("spec.azureName and spec.azureNameFromConfig exclude each other")]
    Both,
    /// The value in the config map is empty.
    #[error("spec.azureNameFromConfig names an empty value")]
    EmptyInConfig,
    /// The name depends on the object's UID, which it gets when it is created.
    #[error("the name is chosen at random when the object is created")]
    ByUid,
}

/// Kinds whose name is a UUID unless it is given.
const UUID_KINDS: [(&str, &str); 3] = [
    ("authorization.azure.com", "RoleAssignment"),
    ("authorization.azure.com", "RoleDefinition"),
    ("documentdb.azure.com", "SqlRoleAssignment"),
];

pub(super) fn rule(version: &Version) -> NameRule {
    let entry = version.entry();
    if UUID_KINDS.contains(&(&entry.group, &entry.kind)) {
        return NameRule::Uuid;
    }
    match version.name_node() {
        // A kind of ASO's set has one name where Azure lists some; of others any of them can be had.
        Some(Node::Enum { values, .. }) if !values.is_empty() && (!entry.further || values.len() == 1) => {
            NameRule::Fixed(values[0].to_string())
        }
        _ => NameRule::AzureName,
    }
}

pub(super) fn arm_name(kind: &Kind, context: &NameContext<'_>, spec: &Value) -> Result<String, NameError> {
    let given = match spec.get("azureName") {
        None | Some(Value::Null) => None,
        Some(Value::String(name)) if name.is_empty() => None,
        Some(Value::String(name)) => Some(name.clone()),
        Some(_) => return Err(NameError::NotText),
    };
    let given = match (given, spec.get("azureNameFromConfig").is_some_and(|from| !from.is_null())) {
        (Some(_), true) => return Err(NameError::Both),
        (None, true) => match context.from_config {
            None => return Err(NameError::FromConfig),
            Some("") => return Err(NameError::EmptyInConfig),
            Some(name) => Some(name.to_owned()),
        },
        (given, false) => given,
    };
    let name = match kind.name_rule() {
        NameRule::Fixed(name) => alternative(kind, spec).unwrap_or(Ok(name))?,
        NameRule::AzureName => given.unwrap_or_else(|| context.name.to_owned()),
        NameRule::Uuid => given.unwrap_or_else(|| uuid_name(kind, context, spec)),
    };
    if name.is_empty() {
        return Err(NameError::Empty);
    }
    // A name of dots would lead elsewhere in the URL.
    let dots = matches!(name.as_str(), "." | "..");
    match name.chars().find(|c| dots || matches!(c, '/' | '\\' | '?' | '#' | '%') || c.is_control()) {
        Some(character) => Err(NameError::Character { name, character }),
        None => Ok(name),
    }
}

/// The name that goes with the alternative that a spec has, for types whose names decide about their shapes. None for other types.
fn alternative(kind: &Kind, spec: &Value) -> Option<Result<String, NameError>> {
    let version = kind.hub().filter(|version| version.is_named_by_alternative())?;
    let alternatives = version.spec().fields.iter().filter_map(|field| match &field.role {
        Role::Alternative(value) => Some((&*field.name, value)),
        _ => None,
    });
    let is_set = |name: &str| spec.get(name).is_some_and(|value| !value.is_null());
    let chosen = alternatives.clone().find(|(name, _)| is_set(name)).map(|(_, value)| value.to_string());
    let names: Vec<&str> = alternatives.map(|(name, _)| name).collect();
    Some(chosen.ok_or_else(|| NameError::NoAlternative(names.join(", "))))
}

/// Whether the name depends on the object's UID.
pub(super) fn is_by_uid(kind: &Kind, context: &NameContext<'_>, spec: &Value) -> bool {
    let given = context.from_config.or_else(|| spec.get("azureName").and_then(Value::as_str)).unwrap_or_default();
    let made = given.is_empty() && Uuid::try_parse(context.name).is_err();
    made && kind.name_rule() == NameRule::Uuid && is_random(spec)
}

fn is_random(spec: &Value) -> bool {
    spec.pointer("/operatorSpec/namingConvention").and_then(Value::as_str) == Some("random")
}

fn uuid_name(kind: &Kind, context: &NameContext<'_>, spec: &Value) -> String {
    if Uuid::try_parse(context.name).is_ok() {
        return context.name.to_owned();
    }
    let seed = if is_random(spec) { context.uid.to_owned() } else { seed(kind, context, spec) };
    Uuid::new_v5(&NAMESPACE, seed.as_bytes()).to_string()
}

/// What the stable UUID is made from: the owner, then the object's own kind, group (in this order), namespace and name, joined by colons.
fn seed(kind: &Kind, context: &NameContext<'_>, spec: &Value) -> String {
    let namespace = context.namespace;
    let stated = |field: &str| spec.pointer(&format!("/owner/{field}")).and_then(Value::as_str).unwrap_or_default();
    let (group, owner_kind) = match kind.owner() {
        Owner::Kind { group, kind } => (group, kind),
        Owner::None | Owner::Resource { .. } | Owner::Extension => {
            (stated("group").to_owned(), stated("kind").to_owned())
        }
    };
    let owner = match (stated("armId"), stated("name")) {
        ("", "") => None,
        ("", name) => Some(format!("{group}/{owner_kind}:{namespace}/{name}")),
        // ASO left the id out for this kind before it noticed; names made then must stay.
        (_, name) if kind.name() == "SqlRoleAssignment" => Some(format!("/:{namespace}/{name}")),
        (id, _) => Some(id.to_owned()),
    };
    let own = format!("{}/{}:{namespace}/{}", kind.name(), kind.group(), context.name);
    owner.map_or_else(|| own.clone(), |owner| format!("{owner}:{own}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Catalog;

    const ROLE: (&str, &str) = ("authorization.azure.com", "RoleAssignment");
    const SQL_ROLE: (&str, &str) = ("documentdb.azure.com", "SqlRoleAssignment");

    fn seed_of((group, kind): (&str, &str), spec: &Value) -> String {
        let kind = Catalog::embedded().kind(group, kind).expect("the kind is in the catalog");
        seed(&kind, &NameContext { namespace: "default", name: "mine", uid: "", from_config: None }, spec)
    }

    #[test]
    fn the_alternative_is_the_name_where_names_decide_about_shapes() {
        let kind = Catalog::embedded().kind("web.azure.com", "SitesConfig").expect("the kind is in the catalog");
        let context = NameContext { namespace: "default", name: "mine", uid: "", from_config: None };
        for (spec, name) in [(json!({"web": {"alwaysOn": true}}), "web"), (json!({"logs": {}}), "logs")] {
            assert_eq!(kind.arm_name(&context, &spec).as_deref(), Ok(name));
        }
    }

    #[test]
    fn seeds_are_those_of_aso() {
        let id = "/subscriptions/s/resourceGroups/rg";
        for (kind, spec, expected) in [
            (ROLE, json!({}), "RoleAssignment/authorization.azure.com:default/mine".to_owned()),
            (
                ROLE,
                json!({"owner": {"group": "resources.azure.com", "kind": "ResourceGroup", "name": "rg"}}),
                "resources.azure.com/ResourceGroup:default/rg:RoleAssignment/authorization.azure.com:default/mine"
                    .to_owned(),
            ),
            (
                ROLE,
                json!({"owner": {"armId": id}}),
                format!("{id}:RoleAssignment/authorization.azure.com:default/mine"),
            ),
            (
                SQL_ROLE,
                json!({"owner": {"name": "db"}}),
                "documentdb.azure.com/DatabaseAccount:default/db:SqlRoleAssignment/documentdb.azure.com:default/mine"
                    .to_owned(),
            ),
            (
                SQL_ROLE,
                json!({"owner": {"armId": id}}),
                "/:default/:SqlRoleAssignment/documentdb.azure.com:default/mine".to_owned(),
            ),
        ] {
            assert_eq!(seed_of(kind, &spec), expected);
        }
    }
}
