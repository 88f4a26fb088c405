//! What a spec needs from elsewhere.

use serde_json::Value;

use super::{ENVELOPE, FieldPath, below};
use crate::arm_id::{self, ArmId};
use crate::kind::Version;
use crate::shape::{Object, Shape};

/// References and keys that a spec names, in the order of their paths.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Inputs {
    /// Other resources whose ARM ids the body has.
    pub references: Vec<Reference>,
    /// Keys of Secrets, or whole Secrets.
    pub secrets: Vec<KeyInput>,
    /// Keys of config maps.
    pub config_maps: Vec<KeyInput>,
}

/// A reference to another resource.
#[derive(Clone, Debug, PartialEq)]
pub struct Reference {
    /// The field that has it.
    pub path: FieldPath,
    /// What it says.
    pub target: Target,
}

/// What a reference says.
#[derive(Clone, Debug, PartialEq)]
pub enum Target {
    /// A resource by its ARM id.
    ArmId(ArmId),
    /// An object in the same namespace.
    Object {
        /// Its group.
        group: String,
        /// Its kind.
        kind: String,
        /// Its name.
        name: String,
    },
    /// A resource that everybody knows by this name, as a built-in role.
    WellKnown(String),
    /// Nothing that can be followed, and why. The API server refuses such a reference; an object stored before it could may have one.
    Malformed(String),
}

/// A key of a Secret or config map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyInput {
    /// The field that names it.
    pub path: FieldPath,
    /// The name of the Secret or config map.
    pub name: String,
    /// The key; without one, all keys are wanted.
    pub key: Option<String>,
}

impl Version {
    /// What the body of this spec needs from elsewhere.
    pub fn inputs(&self, spec: &Value) -> Inputs {
        let mut inputs = Inputs::default();
        object(self.spec(), spec, "spec", &mut inputs);
        inputs
    }
}

impl Target {
    /// Reads `{armId}`, `{group, kind, name}` or `{wellKnownName}`.
    pub fn of_reference(value: &Value) -> Self {
        let text = |field: &str| value.get(field).and_then(Value::as_str).filter(|s| !s.is_empty());
        match (text("armId"), text("wellKnownName"), text("group"), text("kind"), text("name")) {
            (Some(id), None, None, None, None) => by_id(id),
            (None, Some(name), None, None, None) => Self::WellKnown(name.to_owned()),
            (None, None, Some(group), Some(kind), Some(name)) => {
                Self::Object { group: group.to_owned(), kind: kind.to_owned(), name: name.to_owned() }
            }
            _ => Self::Malformed("set either armId, or group, kind and name".to_owned()),
        }
    }

    /// Reads the `owner` of a spec: a name (then of the owner kind given), an ARM id, or all of group, kind and name.
    pub fn of_owner(value: &Value, owner: Option<(&str, &str)>) -> Self {
        let text = |field: &str| value.get(field).and_then(Value::as_str).filter(|s| !s.is_empty());
        match (owner, text("armId"), text("name")) {
            (None, ..) => Self::of_reference(value),
            (Some(_), Some(id), None) => by_id(id),
            (Some((group, kind)), None, Some(name)) => {
                Self::Object { group: group.to_owned(), kind: kind.to_owned(), name: name.to_owned() }
            }
            (Some(_), Some(_), Some(_)) => Self::Malformed("name and armId exclude each other".to_owned()),
            (Some(_), None, None) => Self::Malformed("set name or armId".to_owned()),
        }
    }
}

fn by_id(id: &str) -> Target {
    match ArmId::parse(id) {
        Ok(id) => Target::ArmId(id),
        Err(arm_id::Error { reason, .. }) => Target::Malformed(format!("{id:?} is not an ARM id: {reason}")),
    }
}

fn object(shape: &Object, value: &Value, path: &str, inputs: &mut Inputs) {
    for (name, value) in value.as_object().into_iter().flatten() {
        if path == "spec" && ENVELOPE.contains(&name.as_str()) || value.is_null() {
            continue;
        }
        if let Some(field) = shape.field(name) {
            one(&field.shape, value, &below(path, name), inputs);
        }
    }
}

fn one(shape: &Shape, value: &Value, path: &str, inputs: &mut Inputs) {
    match shape {
        Shape::Object(members) => object(members, value, path, inputs),
        Shape::Map(item) => {
            for (key, value) in value.as_object().into_iter().flatten() {
                one(item, value, &below(path, key), inputs);
            }
        }
        Shape::List { item, .. } => {
            for (i, value) in value.as_array().into_iter().flatten().enumerate() {
                one(item, value, &format!("{path}[{i}]"), inputs);
            }
        }
        Shape::Reference { .. } => {
            inputs.references.push(Reference { path: path.to_owned(), target: Target::of_reference(value) });
        }
        Shape::Identities => {
            for (i, value) in value.as_array().into_iter().flatten().enumerate() {
                let target = Target::of_reference(value.get("reference").unwrap_or(&Value::Null));
                inputs.references.push(Reference { path: format!("{path}[{i}].reference"), target });
            }
        }
        Shape::SecretKey => inputs.secrets.extend(key(value, path, true)),
        Shape::SecretMap => inputs.secrets.extend(key(value, path, false)),
        Shape::ConfigKey => inputs.config_maps.extend(key(value, path, true)),
        _ => {}
    }
}

fn key(value: &Value, path: &str, with_key: bool) -> Option<KeyInput> {
    let text = |field: &str| value.get(field).and_then(Value::as_str).map(str::to_owned);
    let key = if with_key { Some(text("key")?) } else { None };
    Some(KeyInput { path: path.to_owned(), name: text("name")?, key })
}
