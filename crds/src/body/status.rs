//! GET body to status.
//!
//! What the status's schema would refuse (a value of another type, null, what is out of bounds where the status is checked) is left out, so that an
//! answer with a surprise in one property costs that property, or the object that requires it, and not the whole status.

use regex::Regex;
use serde_json::{Map, Value};

use crate::kind::Version;
use crate::shape::{Field, Object, Role, Shape};

impl Version {
    /// The status for an answer of ARM, without conditions.
    pub fn status(&self, body: &Value) -> Value {
        Value::Object(object(self.status_shape(), body))
    }
}

fn object(shape: &Object, body: &Value) -> Map<String, Value> {
    let mut status = Map::new();
    let chosen = shape.discriminator.as_deref().and_then(|name| body.get(name)).and_then(Value::as_str);
    for field in &shape.fields {
        let value = match &field.role {
            Role::Alternative(value) => match &field.shape {
                Shape::Object(members) if chosen.is_some_and(|c| c.eq_ignore_ascii_case(value)) => {
                    Some(Value::Object(object(members, body)))
                }
                _ => None,
            },
            Role::Rest => rest(shape, field, body),
            _ => look_up(body, &field.arm).and_then(|value| one(&field.shape, value)),
        };
        if let Some(value) = value {
            status.insert(field.name.to_string(), value);
        }
    }
    status
}

fn rest(shape: &Object, field: &Field, body: &Value) -> Option<Value> {
    let Shape::Map(item) = &field.shape else { return None };
    let body = look_up(body, &field.arm)?;
    let here = |f: &Field| f.role != Role::Rest && f.arm.starts_with(&field.arm);
    let named = |key: &str| {
        shape.fields.iter().any(|f| here(f) && f.arm.get(field.arm.len()).is_some_and(|next| &**next == key))
    };
    let entries = body.as_object()?.iter().filter(|(key, _)| !named(key));
    let entries: Map<String, Value> =
        entries.filter_map(|(key, value)| Some((key.clone(), one(item, value)?))).collect();
    (!entries.is_empty()).then_some(Value::Object(entries))
}

fn look_up<'a>(body: &'a Value, path: &[Box<str>]) -> Option<&'a Value> {
    path.iter().try_fold(body, |value, segment| value.get(&**segment))
}

fn one(shape: &Shape, value: &Value) -> Option<Value> {
    let fits = |fits: bool| fits.then(|| value.clone());
    match shape {
        Shape::Object(members) => {
            let status = value.is_object().then(|| object(members, value))?;
            let whole = members.fields.iter().all(|f| !f.required || status.contains_key(&*f.name));
            whole.then_some(Value::Object(status))
        }
        Shape::Map(item) => {
            let entries = value.as_object()?.iter();
            Some(entries.filter_map(|(key, value)| Some((key.clone(), one(item, value)?))).collect())
        }
        Shape::List { item, min, max } => {
            let items: Vec<Value> = value.as_array()?.iter().filter_map(|value| one(item, value)).collect();
            within(items.len() as u64, *min, *max).then_some(Value::Array(items))
        }
        Shape::Enum(values) => fits(value.as_str().is_some_and(|text| values.iter().any(|v| **v == *text))),
        Shape::String { pattern, min, max } if pattern.is_some() || min.is_some() || max.is_some() => {
            let text = value.as_str()?;
            let matches = |pattern: &str| Regex::new(pattern).is_ok_and(|pattern| pattern.is_match(text));
            fits(within(text.chars().count() as u64, *min, *max) && pattern.as_deref().is_none_or(matches))
        }
        Shape::String { .. } => match value {
            // Some services answer with a number where their description says string.
            Value::Number(number) => Some(Value::String(number.to_string())),
            value => value.is_string().then(|| value.clone()),
        },
        Shape::Integer { min, max } => whole(value).filter(|n| within(*n, *min, *max)).map(Value::from),
        Shape::Integers(values) => whole(value).filter(|n| values.contains(n)).map(Value::from),
        Shape::Numbers(values) => fits(whole(value).is_some_and(|n| values.contains(&n))),
        #[expect(clippy::cast_precision_loss, reason = "bounds of Azure's are small")]
        Shape::Number { min, max } => {
            fits(value.as_f64().is_some_and(|n| within(n, min.map(|min| min as f64), max.map(|max| max as f64))))
        }
        Shape::Boolean => fits(value.is_boolean()),
        Shape::Any => fits(!value.is_null()),
        Shape::AnyMap | Shape::SecretMap => fits(value.is_object()),
        Shape::Reference { .. } | Shape::Identities | Shape::SecretKey | Shape::ConfigKey => None,
    }
}

fn within<T: Copy + PartialOrd>(value: T, min: Option<T>, max: Option<T>) -> bool {
    min.is_none_or(|min| value >= min) && max.is_none_or(|max| value <= max)
}

/// A whole number, however it is written. Larger ones are none to the API server.
fn whole(value: &Value) -> Option<i64> {
    match value.as_f64() {
        _ if value.is_i64() => value.as_i64(),
        #[expect(clippy::cast_possible_truncation, reason = "whole and in range, as just compared")]
        Some(float) if float.fract() == 0.0 && float.abs() < 9e15 => Some(float as i64),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::Catalog;

    #[test]
    fn a_whole_number_that_the_api_server_cannot_hold_is_left_out() {
        let kind = Catalog::embedded().kind("servicebus.azure.com", "NamespacesQueue").unwrap();
        let version = kind.version("v1api20211101").unwrap();
        let body = json!({"properties": {"messageCount": u64::MAX, "sizeInBytes": 1e300, "maxDeliveryCount": 3.0}});
        assert_eq!(version.status(&body), json!({"maxDeliveryCount": 3}));
    }

    #[test]
    fn what_a_checked_status_refuses_is_left_out() {
        let kind = Catalog::embedded().kind("redhatopenshift.azure.com", "HcpOpenShiftCluster").unwrap();
        let version = kind.hub().unwrap();
        let status = |mirrors: &[&str]| {
            let mirror = json!({"source": "quay.io", "mirrors": mirrors});
            version.status(&json!({"properties": {"imageDigestMirrors": [mirror]}}))["properties"].take()
        };
        assert_eq!(status(&["a.example"])["imageDigestMirrors"][0]["mirrors"], json!(["a.example"]));
        assert_eq!(status(&[])["imageDigestMirrors"], json!([]), "a mirror needs its list, and the list an item");
    }
}
