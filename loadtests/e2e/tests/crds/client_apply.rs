//! `kubectl apply` as the client computes it: a three-way merge of what was applied last, what is there and what is wanted.

use serde_json::{Map, Value};

/// Where kubectl keeps what it applied last.
pub(crate) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The merge patch that brings `live` to `wanted`; what is in `last` but no longer wanted is removed.
pub(crate) fn patch(last: &Value, live: &Value, wanted: &Value) -> Value {
    let none = Map::new();
    let [last, live, wanted] = [last, live, wanted].map(|value| value.as_object().unwrap_or(&none));
    let mut patch = Map::new();
    for name in last.keys().filter(|name| !wanted.contains_key(*name) && live.contains_key(*name)) {
        patch.insert(name.clone(), Value::Null);
    }
    for (name, value) in wanted {
        match live.get(name) {
            Some(there) if there == value && last.get(name).is_none_or(|last| last == value) => {}
            Some(there) if there.is_object() && value.is_object() => {
                let inner = self::patch(last.get(name).unwrap_or(&Value::Null), there, value);
                if inner.as_object().is_some_and(|inner| !inner.is_empty()) {
                    patch.insert(name.clone(), inner);
                }
            }
            Some(there) if there == value => {}
            _ => drop(patch.insert(name.clone(), value.clone())),
        }
    }
    Value::Object(patch)
}
