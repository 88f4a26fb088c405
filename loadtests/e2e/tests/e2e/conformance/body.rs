//! Compares a body with the recorded one.
//!
//! Empty values that the recording has (null, `{}`, `[]`) may be left out: ARM takes both. What the recording does not
//! have must not be sent.

use serde_json::Value;

/// What differs, a line each.
pub(super) fn differences(ours: &Value, recorded: &Value) -> Vec<String> {
    let mut found = Vec::new();
    compare(ours, recorded, "$", &mut found);
    found
}

fn compare(ours: &Value, recorded: &Value, path: &str, found: &mut Vec<String>) {
    match (ours, recorded) {
        (Value::Object(ours), Value::Object(recorded)) => {
            for (key, value) in recorded {
                match ours.get(key) {
                    Some(our) => compare(our, value, &format!("{path}.{key}"), found),
                    None if is_empty(value) => {}
                    None => found.push(format!("{path}.{key} is missing; recorded is {value}")),
                }
            }
            for (key, value) in ours.iter().filter(|(key, _)| !recorded.contains_key(*key)) {
                found.push(format!("{path}.{key} is {value}, and not recorded"));
            }
        }
        (Value::Array(ours), Value::Array(recorded)) if ours.len() == recorded.len() => {
            for (index, (our, value)) in ours.iter().zip(recorded).enumerate() {
                compare(our, value, &format!("{path}[{index}]"), found);
            }
        }
        _ if ours == recorded => {}
        _ => found.push(format!("{path} is {ours}; recorded is {recorded}")),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(is_empty),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn recorded_empties_may_be_left_out_and_nothing_may_be_added() {
        let recorded = json!({"a": 1, "tags": null, "list": [{"b": []}]});
        assert!(differences(&json!({"a": 1, "list": [{}]}), &recorded).is_empty());
        assert_eq!(differences(&json!({"a": 2, "list": [{}]}), &recorded), ["$.a is 2; recorded is 1"]);
        assert_eq!(differences(&json!({"a": 1, "c": {}, "list": [{}]}), &recorded), ["$.c is {}, and not recorded"]);
        assert_eq!(differences(&json!({"a": 1}), &recorded).len(), 1);
    }
}
