//! Who owns what of a spec, by `managedFields`, and what a server-side apply therefore leaves in place.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// The leaves that somebody owns, as joined paths.
type Paths = BTreeSet<String>;

/// The spec after `manager` has applied `applied`, by force, to the live object.
///
/// What it states counts; what it stated earlier and nobody else owns goes; the rest stays.
pub(crate) fn after_apply(live: &Value, manager: &str, applied: &Value) -> Value {
    let (mut mine, mut others) = (Paths::new(), Paths::new());
    for entry in live["metadata"]["managedFields"].as_array().into_iter().flatten() {
        let own = entry["manager"] == manager && entry["operation"] == "Apply";
        leaves(&entry["fieldsV1"]["f:spec"], "", if own { &mut mine } else { &mut others });
    }
    let gone: Paths = mine.difference(&others).cloned().collect();
    merge(&live["spec"], applied, "", &gone)
}

fn leaves(fields: &Value, path: &str, into: &mut Paths) {
    let members = fields.as_object().into_iter().flatten();
    let inner: Vec<_> = members.filter_map(|(name, inner)| Some((name.strip_prefix("f:")?, inner))).collect();
    if inner.is_empty() && !path.is_empty() {
        into.insert(path.to_owned());
    }
    for (name, fields) in inner {
        leaves(fields, &format!("{path}/{name}"), into);
    }
}

fn merge(live: &Value, applied: &Value, path: &str, gone: &Paths) -> Value {
    let (Some(old), Some(new)) = (live.as_object(), applied.as_object()) else { return applied.clone() };
    let mut merged = Map::new();
    for (name, value) in old {
        let path = format!("{path}/{name}");
        let value = match new.get(name) {
            Some(stated) => Some(merge(value, stated, &path, gone)),
            None => prune(value, &path, gone),
        };
        merged.extend(value.map(|value| (name.clone(), value)));
    }
    for (name, value) in new.iter().filter(|(name, _)| !old.contains_key(*name)) {
        merged.insert(name.clone(), value.clone());
    }
    Value::Object(merged)
}

/// What is left of a value that is no longer stated.
fn prune(value: &Value, path: &str, gone: &Paths) -> Option<Value> {
    match value.as_object() {
        _ if gone.contains(path) => None,
        Some(members) if !members.is_empty() => {
            let left: Map<String, Value> = members
                .iter()
                .filter_map(|(name, value)| Some((name.clone(), prune(value, &format!("{path}/{name}"), gone)?)))
                .collect();
            (!left.is_empty()).then_some(Value::Object(left))
        }
        _ => Some(value.clone()),
    }
}
