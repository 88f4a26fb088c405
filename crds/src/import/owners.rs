//! Which kind owns a kind.

use std::collections::HashMap;

use crate::entry::KindEntry;

/// Sets the owners of the kinds of one provider: the kind of the parent ARM type, or the resource group.
pub(super) fn link(kinds: &mut [KindEntry]) {
    let known: HashMap<String, (String, String)> =
        kinds.iter().map(|k| (k.arm_type.to_ascii_lowercase(), (k.group.clone(), k.kind.clone()))).collect();
    for kind in kinds {
        if !kind.manager.is_arm() {
            kind.owner = kind.manager.owner().map(|(group, kind)| (group.to_owned(), kind.to_owned()));
            kind.arm_type = String::new();
            continue;
        }
        let arm_type = kind.arm_type.to_ascii_lowercase();
        let parent = arm_type.rsplit_once('/').map_or("", |(parent, _)| parent);
        let extends = kind.scopes.extension();
        kind.owner = if parent.contains('/') {
            known.get(parent).filter(|_| kind.further || kind.scopes.resource_group()).cloned()
        } else if !kind.scopes.resource_group() || extends {
            // One that extends any resource, or is of a subscription or the tenant, has no owner of one kind.
            None
        } else {
            Some(("resources.azure.com".to_owned(), "ResourceGroup".to_owned()))
        };
    }
}
