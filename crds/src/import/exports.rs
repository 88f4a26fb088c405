//! Checks that what `exports.tsv` says about POST actions is so: every version that has an export has the action, and its answer the path.

use std::path::Path;

use super::raw::{File, Library, RawType, Ref};
use super::{Error, table};
use crate::entry::KindEntry;

/// Fails with the first line whose action or path the types do not have.
pub(super) fn check(data: &Path, kinds: &[KindEntry], library: &mut Library) -> Result<(), Error> {
    let path = data.join("exports.tsv");
    for (line, cells) in table(&path, 6)? {
        let [group, kind, _, _, versions, source] = cells.try_into().unwrap_or_default();
        let fail = |rule: String| Error::Line { path: path.clone(), line, rule };
        let (action, at) =
            source.split_once(':').ok_or_else(|| fail("the source is not of the form action:path".to_owned()))?;
        let Some(entry) = kinds.iter().find(|entry| entry.group == group && entry.kind == kind) else { continue };
        // What is in the status or is computed is no action.
        if matches!(action, "status" | "computed") {
            continue;
        }
        // The action of a child that has this name: authorizationRules/<name>/listKeys.
        let (arm_type, action) = match action.split('/').collect::<Vec<_>>()[..] {
            [child, _, action] => (format!("{}/{child}", entry.arm_type), action),
            _ => (entry.arm_type.clone(), action),
        };
        // The api-version that has it, where it is another one.
        let (action, stated) = action.split_once('@').map_or((action, None), |(action, at)| (action, Some(at)));
        let listed = |name: &str| versions == "*" || versions.split(',').any(|v| v == name);
        for version in entry.versions.iter().filter(|v| listed(&v.name)) {
            let api_version = stated.unwrap_or(&version.api_version);
            let found = library.action(&arm_type, api_version, action)?;
            let (file, answer) =
                found.ok_or_else(|| fail(format!("{arm_type}@{api_version} has no POST action {action}")))?;
            if !has(&file, answer, at)? {
                return Err(fail(format!("{action} of {arm_type}@{api_version} does not answer {at}")));
            }
        }
    }
    Ok(())
}

/// Whether a type has a path such as `keys[name=Primary].value` or `kubeconfigs[0].value(base64)`.
fn has(file: &File, mut at: Ref, path: &str) -> Result<bool, Error> {
    let path = path.split_once('(').map_or(path, |(path, _)| path);
    for segment in path.split('.') {
        let (name, item) = segment.split_once('[').map_or((segment, None), |(name, item)| (name, Some(item)));
        let RawType::ObjectType { properties, .. } = file.get(at, path)? else { return Ok(false) };
        let Some((_, prop)) = properties.0.iter().find(|(n, _)| n == name) else { return Ok(false) };
        at = prop.node;
        let Some(item) = item else { continue };
        let RawType::ArrayType { item_type, .. } = file.get(at, path)? else { return Ok(false) };
        at = *item_type;
        if let (Some((name, _)), RawType::ObjectType { properties, .. }) = (item.split_once('='), file.get(at, path)?)
            && !properties.0.iter().any(|(n, _)| n == name)
        {
            return Ok(false);
        }
    }
    Ok(true)
}
