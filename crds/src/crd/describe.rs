//! Descriptions, for `kubectl explain`: of each version, and of the fields that are ours.
//!
//! The API server keeps each of them in memory, for each version. So a version says where Azure describes its fields, and the fields that are ours are
//! described in one version only: the one that kubectl uses by default.

use serde_json::Value;

use crate::kind::{NameRule, Owner, Version};

const DESCRIPTION: &str = "description";

/// Describes a version's whole schema. `newer` is the version's newer name, if it is served under both.
pub(super) fn version(schema: &mut Value, version: &Version, newer: Option<&str>) {
    let entry = version.entry();
    let text = if let Some(newer) = newer {
        format!("The same as {newer}")
    } else if entry.manager.is_arm() {
        format!(
            "ARM type {}, api-version {}, see https://learn.microsoft.com/azure/templates/{}",
            entry.arm_type,
            version.api_version(),
            entry.arm_type.to_lowercase()
        )
    } else {
        format!("A {} of {}", entry.kind, entry.manager.noun())
    };
    schema[DESCRIPTION] = text.into();
}

/// Describes the fields that are ours.
pub(super) fn fields(schema: &mut Value, version: &Version, owner: &Owner) {
    let name = match version.name_rule() {
        NameRule::Uuid => "Name in Azure; by default a UUID",
        NameRule::AzureName | NameRule::Fixed(_) => "Name in Azure; by default metadata.name",
    };
    let belongs_to = match owner {
        Owner::Kind { kind, .. } if version.entry().manager.owner_by_id() => {
            format!("{kind} that it belongs to, by name or armId")
        }
        Owner::Kind { kind, .. } => format!("{kind} that it belongs to, by name"),
        Owner::Resource { arm_type } => format!("{arm_type} that it belongs to, by armId"),
        _ => "What it belongs to: group, kind and name, or armId".to_owned(),
    };
    for (place, text) in [
        ("/spec/azureName", name),
        ("/spec/owner", &belongs_to),
        ("/spec/operatorSpec", "What to write to Secrets and ConfigMaps"),
        ("/status/conditions", "Ready says whether Azure has what spec states"),
    ] {
        if let Some(field) = schema.pointer_mut(&place.replace('/', "/properties/")) {
            field[DESCRIPTION] = text.into();
        }
    }
}

/// The version that discovery prefers: the highest that is a `v` and a number, else the first by its letters.
pub(super) fn preferred<'a>(names: impl Iterator<Item = &'a str> + Clone) -> Option<&'a str> {
    let number = |name: &str| name.strip_prefix('v').and_then(|digits| digits.parse::<u64>().ok());
    let highest = names.clone().filter(|name| number(name).is_some()).max_by_key(|name| number(name));
    highest.or_else(|| names.min())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_preferred_version_is_that_of_discovery() {
        for (names, expected) in [
            (&["v1api20210401", "v20210401", "v20250601", "v20260101preview"][..], Some("v20250601")),
            (&["v1api20230101", "v1api20210401"], Some("v1api20210401")),
            (&["v1"], Some("v1")),
            (&[], None),
        ] {
            assert_eq!(preferred(names.iter().copied()), expected);
        }
    }
}
