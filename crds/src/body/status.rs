//! GET body to status.
//!
//! What the status's schema would refuse (a value of another type, null, what is out of bounds where the status is checked) is left out, so that an
//! answer with a surprise in one property costs that property, or the object that requires it, and not the whole status.

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
        Shape::List { item, .. } => Some(value.as_array()?.iter().filter_map(|value| one(item, value)).collect()),
        Shape::Enum(values) => fits(value.as_str().is_some_and(|text| values.iter().any(|v| **v == *text))),
        Shape::String { min, max, .. } if min.is_some() || max.is_some() => {
            let length = value.as_str()?.chars().count() as u64;
            fits(min.is_none_or(|min| length >= min) && max.is_none_or(|max| length <= max))
        }
        Shape::String { .. } => match value {
            // Some services answer with a number where their description says string.
            Value::Number(number) => Some(Value::String(number.to_string())),
            value => value.is_string().then(|| value.clone()),
        },
        Shape::Integer { min, max } if min.is_some() || max.is_some() => {
            let number = value.as_i64()?;
            fits(min.is_none_or(|min| number >= min) && max.is_none_or(|max| number <= max))
        }
        Shape::Integer { .. } | Shape::Integers(_) => match value.as_f64() {
            // Larger ones are no whole numbers to the API server.
            _ if value.is_i64() => Some(value.clone()),
            #[expect(clippy::cast_possible_truncation, reason = "whole and in range, as just compared")]
            Some(float) if float.fract() == 0.0 && float.abs() < 9e15 => Some(Value::from(float as i64)),
            _ => None,
        },
        Shape::Number { .. } | Shape::Numbers(_) => fits(value.is_number()),
        Shape::Boolean => fits(value.is_boolean()),
        Shape::Any => fits(!value.is_null()),
        Shape::AnyMap | Shape::SecretMap => fits(value.is_object()),
        Shape::Reference { .. } | Shape::Identities | Shape::SecretKey | Shape::ConfigKey => None,
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
}
