//! Spec to PUT body.
//!
//! Collections: one that is not set, or set and empty, is left out; groups whose PUT keeps what is not mentioned send null for it instead (and an empty
//! map as it is), and some fields are always sent (`catalog::Payload`). Everything else that is not set is left out.

use serde_json::{Map, Value};

use super::{ENVELOPE, FieldPath, Resolved, SecretValue, below};
use crate::entry::Payload;
use crate::kind::Version;
use crate::shape::{Field, Object, Role, Shape};

/// Why a spec has no body.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// The version has no such field.
    #[error("{path} does not exist in {version}")]
    UnknownField {
        /// The field.
        path: FieldPath,
        /// The version.
        version: String,
    },
    /// A value of another type than the field's.
    #[error("{path} must be {expected}")]
    WrongType {
        /// The field.
        path: FieldPath,
        /// What it must be.
        expected: &'static str,
    },
    /// A reference, Secret or config map that was not looked up.
    #[error("{path} is not resolved")]
    Unresolved {
        /// The field.
        path: FieldPath,
    },
    /// Two fields of which only one may be set.
    #[error("{first} and {second} exclude each other: set one of them")]
    Exclusive {
        /// One field.
        first: FieldPath,
        /// The other.
        second: FieldPath,
    },
}

impl BodyError {
    /// The field that is to blame.
    pub fn path(&self) -> &str {
        match self {
            Self::UnknownField { path, .. } | Self::WrongType { path, .. } | Self::Unresolved { path } => path,
            Self::Exclusive { first, .. } => first,
        }
    }
}

impl Version {
    /// The body that asks ARM for this spec. `name` is the resource's full ARM name; its last part goes into the body, as ASO does.
    pub fn put_body(&self, spec: &Value, name: &str, resolved: &Resolved) -> Result<Value, BodyError> {
        let writer = Writer { version: self, payload: &self.entry().payload, resolved };
        let mut body = Map::new();
        let members =
            spec.as_object().ok_or(BodyError::WrongType { path: "spec".to_owned(), expected: "an object" })?;
        writer.members(self.spec(), members, "spec", "", &mut body)?;
        let name = name.rsplit('/').next().unwrap_or(name);
        body.insert("name".to_owned(), Value::String(name.to_owned()));
        Ok(Value::Object(body))
    }
}

struct Writer<'a> {
    version: &'a Version,
    payload: &'a Payload,
    resolved: &'a Resolved,
}

impl Writer<'_> {
    /// `rule` is the path as `Payload` writes it: dots, and `[]` for items.
    fn members(
        &self,
        shape: &Object,
        given: &Map<String, Value>,
        path: &str,
        rule: &str,
        body: &mut Map<String, Value>,
    ) -> Result<(), BodyError> {
        let mut alternative: Option<&str> = None;
        for (name, value) in given {
            if path == "spec" && ENVELOPE.contains(&name.as_str()) || value.is_null() {
                continue;
            }
            let at = below(path, name);
            let unknown = || BodyError::UnknownField { path: at.clone(), version: self.version.name().to_owned() };
            let field = shape.field(name).ok_or_else(unknown)?;
            match &field.role {
                Role::Alternative(_) => {
                    if let Some(first) = alternative.replace(name) {
                        return Err(BodyError::Exclusive { first: below(path, first), second: at });
                    }
                }
                Role::InsteadOf(plain) if given.get(&**plain).is_some_and(|v| !v.is_null()) => {
                    return Err(BodyError::Exclusive { first: below(path, plain), second: at });
                }
                _ => {}
            }
            self.field(field, value, &at, &join(rule, name), body)?;
        }
        self.unset(shape, rule, body);
        // The type demands it, and only the service has anything to say in it.
        for wrapper in shape.wrappers.iter().filter(|wrapper| wrapper.len() == 1) {
            if !shape.fields.iter().any(|field| field.arm.starts_with(wrapper)) {
                enter(body, &wrapper[0]);
            }
        }
        Ok(())
    }

    /// Collections of this object that are not in the body but are to be sent all the same.
    fn unset(&self, shape: &Object, rule: &str, body: &mut Map<String, Value>) {
        for field in &shape.fields {
            // Identities are never taken away by null.
            if !field.shape.is_collection() || field.role != Role::Value || field.shape == Shape::Identities {
                continue;
            }
            let empty = self.payload.empty.contains(&join(rule, &field.name));
            if !empty && !self.payload.nulls {
                continue;
            }
            // An object that nothing else has called for is not made for the sake of a null in it.
            let Some((last, above)) = field.arm.split_last() else { continue };
            let mut object = &mut *body;
            let mut found = true;
            for segment in above {
                if !matches!(object.get(&**segment), Some(Value::Object(_))) {
                    found = false;
                    break;
                }
                object = enter(object, segment);
            }
            if found && !object.contains_key(&**last) {
                let value = match (empty, &field.shape) {
                    (false, _) => Value::Null,
                    (true, Shape::List { .. }) => Value::Array(Vec::new()),
                    (true, _) => Value::Object(Map::new()),
                };
                object.insert(last.to_string(), value);
            }
        }
    }

    fn field(
        &self,
        field: &Field,
        value: &Value,
        path: &str,
        rule: &str,
        body: &mut Map<String, Value>,
    ) -> Result<(), BodyError> {
        let wrong = || BodyError::WrongType { path: path.to_owned(), expected: field.shape.noun() };
        match (&field.role, &field.shape) {
            (Role::Alternative(_), Shape::Object(members)) => {
                let given = value.as_object().ok_or_else(wrong)?;
                self.members(members, given, path, rule, body)
            }
            (Role::Rest, Shape::Map(item)) => {
                let object = field.arm.iter().fold(body, |object, segment| enter(object, segment));
                for (key, value) in value.as_object().ok_or_else(wrong)? {
                    if !object.contains_key(key) {
                        object.insert(key.clone(), self.value(item, value, &below(path, key), rule)?);
                    }
                }
                Ok(())
            }
            _ => {
                let written = self.value(&field.shape, value, path, rule)?;
                let (last, object) = place(&field.arm, body).ok_or_else(wrong)?;
                let is_empty = match &written {
                    Value::Array(items) => items.is_empty(),
                    Value::Object(entries) => {
                        let said = self.payload.nulls && field.shape != Shape::Identities;
                        entries.is_empty() && field.shape.is_collection() && !said
                    }
                    _ => false,
                };
                if !is_empty {
                    object.insert(last.to_owned(), written);
                }
                Ok(())
            }
        }
    }

    fn value(&self, shape: &Shape, value: &Value, path: &str, rule: &str) -> Result<Value, BodyError> {
        let wrong = || BodyError::WrongType { path: path.to_owned(), expected: shape.noun() };
        let unresolved = || BodyError::Unresolved { path: path.to_owned() };
        let fits = |fits: bool| if fits { Ok(value.clone()) } else { Err(wrong()) };
        match shape {
            Shape::Object(members) => {
                let mut body = Map::new();
                self.members(members, value.as_object().ok_or_else(wrong)?, path, rule, &mut body)?;
                Ok(Value::Object(body))
            }
            Shape::Map(item) => {
                let entries = value.as_object().ok_or_else(wrong)?.iter();
                let rule = format!("{rule}{{}}");
                entries
                    .map(|(key, value)| Ok((key.clone(), self.value(item, value, &below(path, key), &rule)?)))
                    .collect()
            }
            Shape::List { item, .. } => {
                let items = value.as_array().ok_or_else(wrong)?.iter().enumerate();
                let rule = format!("{rule}[]");
                items.map(|(i, value)| self.value(item, value, &format!("{path}[{i}]"), &rule)).collect()
            }
            Shape::String { .. } | Shape::Enum(_) => fits(value.is_string()),
            Shape::Integer { .. } | Shape::Integers(_) => {
                fits(value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|f| f.fract() == 0.0))
            }
            Shape::Number { .. } | Shape::Numbers(_) => fits(value.is_number()),
            Shape::Boolean => fits(value.is_boolean()),
            Shape::Any => Ok(value.clone()),
            Shape::AnyMap => fits(value.is_object()),
            Shape::Reference { .. } => {
                let id = self.resolved.references.get(path).map(ToString::to_string);
                let word = || self.resolved.well_known.get(path).cloned();
                id.or_else(word).map(Value::String).ok_or_else(unresolved)
            }
            Shape::Identities => {
                let items = value.as_array().ok_or_else(wrong)?;
                let id = |i: usize| {
                    let path = format!("{path}[{i}].reference");
                    let id = self.resolved.references.get(&path).map(ToString::to_string);
                    id.ok_or(BodyError::Unresolved { path })
                };
                (0..items.len()).map(|i| Ok((id(i)?, Value::Object(Map::new())))).collect()
            }
            Shape::SecretKey => {
                let secret = self.resolved.secrets.get(path).ok_or_else(unresolved)?;
                Ok(Value::String(secret.expose().to_owned()))
            }
            Shape::SecretMap => {
                let secrets = self.resolved.secret_maps.get(path).ok_or_else(unresolved)?;
                let text = |value: &SecretValue| Value::String(value.expose().to_owned());
                Ok(secrets.iter().map(|(key, value)| (key.clone(), text(value))).collect())
            }
            Shape::ConfigKey => Ok(Value::String(self.resolved.config.get(path).ok_or_else(unresolved)?.clone())),
        }
    }
}

fn join(rule: &str, name: &str) -> String {
    if rule.is_empty() { name.to_owned() } else { format!("{rule}.{name}") }
}

/// The object that the last segment of an ARM path is in, made if need be.
fn place<'p, 'b>(
    arm: &'p [Box<str>],
    body: &'b mut Map<String, Value>,
) -> Option<(&'p str, &'b mut Map<String, Value>)> {
    let (last, above) = arm.split_last()?;
    let mut object = body;
    for segment in above {
        object = enter(object, segment);
    }
    Some((last, object))
}

fn enter<'b>(object: &'b mut Map<String, Value>, segment: &str) -> &'b mut Map<String, Value> {
    let slot = object.entry(segment).or_insert(Value::Null);
    if !slot.is_object() {
        *slot = Value::Object(Map::new());
    }
    match slot {
        Value::Object(object) => object,
        _ => unreachable!("made an object just above"),
    }
}
