//! How an installed CRD differs from ours.
//!
//! The API server adds defaults to what it is given, so what it has more is a difference only where every entry means something: versions,
//! properties, and lists.

use serde_json::Value;

/// The paths in `spec` at which an installed CRD differs, as in `versions[v1api20230101].schema…`.
pub(super) fn differences(ours: &Value, theirs: &Value) -> Vec<String> {
    let mut found = Vec::new();
    walk(&ours["spec"], &theirs["spec"], "", &mut found);
    found
}

fn walk(ours: &Value, theirs: &Value, path: &str, found: &mut Vec<String>) {
    let last = path.rsplit('.').next().unwrap_or_default();
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => {
            for (key, value) in ours {
                let at = below(path, key);
                match theirs.get(key) {
                    Some(other) => walk(value, other, &at, found),
                    None => found.push(format!("{at} is missing")),
                }
            }
            if last == "properties" {
                found.extend(
                    theirs.keys().filter(|k| !ours.contains_key(*k)).map(|k| format!("{} is new", below(path, k))),
                );
            }
        }
        (Value::Array(ours), Value::Array(theirs)) if last == "versions" => {
            let find = |items: &[Value], name: &str| items.iter().find(|v| v["name"] == name).cloned();
            let names = |items: &[Value]| {
                items.iter().filter_map(|v| v["name"].as_str().map(str::to_owned)).collect::<Vec<_>>()
            };
            for name in names(ours) {
                let at = format!("{path}[{name}]");
                match (find(ours, &name), find(theirs, &name)) {
                    (Some(ours), Some(theirs)) => walk(&ours, &theirs, &at, found),
                    _ => found.push(format!("{at} is missing")),
                }
            }
            let known = names(ours);
            found.extend(names(theirs).iter().filter(|n| !known.contains(n)).map(|n| format!("{path}[{n}] is new")));
        }
        (Value::Array(ours), Value::Array(theirs)) if ours.len() == theirs.len() => {
            for (i, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
                walk(ours, theirs, &format!("{path}[{i}]"), found);
            }
        }
        _ if ours == theirs || (ours.is_number() && ours.as_f64() == theirs.as_f64()) => {}
        _ => found.push(format!("{path} is different")),
    }
}

fn below(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn defaults_of_the_api_server_are_no_difference() {
        let ours = json!({"spec": {"versions": [{"name": "v1", "schema": {"properties": {"a": {"type": "string"}}}}]}});
        let theirs = json!({"spec": {"preserveUnknownFields": false, "versions": [{"name": "v1", "deprecated": false,
            "schema": {"properties": {"a": {"type": "string", "format": "x"}}}}]}});
        assert!(differences(&ours, &theirs).is_empty());
    }

    #[test]
    fn properties_versions_and_lists_must_be_the_same() {
        let ours = json!({"spec": {"versions": [
            {"name": "v1", "properties": {"a": {"enum": ["x", "y"]}, "b": {"maximum": 3}}}, {"name": "v2"}]}});
        let theirs = json!({"spec": {"versions": [
            {"name": "v3"}, {"name": "v1", "properties": {"a": {"enum": ["x"]}, "b": {"maximum": 3.0}, "c": {}}}]}});
        assert_eq!(
            differences(&ours, &theirs),
            [
                "versions[v1].properties.a.enum is different",
                "versions[v1].properties.c is new",
                "versions[v2] is missing",
                "versions[v3] is new"
            ]
        );
    }
}
