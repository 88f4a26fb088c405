//! Comments in an example: what else a value may be, and what it names.

use std::collections::BTreeMap;

use flotilla_crds::{Kind, Owner, Version};
use flotilla_crds::{Object, Shape};
use serde::ser::{Serialize, SerializeMap as _, SerializeSeq as _, Serializer};
use serde_json::Value;
use serde_saphyr::Commented;

/// So many values are listed in a comment.
const LISTED: usize = 8;

/// Comments on scalars, by path.
pub(super) type Notes = BTreeMap<String, String>;

/// The comments for a manifest of this version.
pub(super) fn of(kind: &Kind, version: &Version, manifest: &Value) -> Notes {
    let mut notes = Notes::new();
    object(version.spec(), &manifest["spec"], ".spec", &mut notes);
    let owner = match kind.owner() {
        Owner::Kind { kind, .. } => format!("of a {kind} in the same namespace, or armId in its place"),
        Owner::Extension => "of any object in the same namespace, or armId in place of all three".to_owned(),
        Owner::None | Owner::Resource { .. } => return notes,
    };
    notes.insert(".spec.owner.name".to_owned(), owner);
    notes
}

fn object(shape: &Object, value: &Value, path: &str, notes: &mut Notes) {
    for (name, value) in value.as_object().into_iter().flatten() {
        if let Some(field) = shape.field(name) {
            one(&field.shape, value, &format!("{path}.{name}"), notes);
        }
    }
}

fn one(shape: &Shape, value: &Value, path: &str, notes: &mut Notes) {
    let mut note = |member: &str, text: String| drop(notes.insert(format!("{path}{member}"), text));
    match shape {
        Shape::Enum(values) if values.len() > 1 => note("", others(values, value)),
        Shape::Integers(values) | Shape::Numbers(values) if values.len() > 1 => note("", others(values, value)),
        Shape::Reference { well_known } => {
            let last = if *well_known { ", or wellKnownName" } else { "" };
            note(".armId", format!("or group, kind and name of an object in the same namespace{last}"));
        }
        Shape::Identities => {
            note("[0].reference.armId", "or group, kind and name of an object in the same namespace".to_owned());
        }
        Shape::SecretKey | Shape::SecretMap => note(".name", "of a Secret in the same namespace".to_owned()),
        Shape::ConfigKey => note(".name", "of a ConfigMap in the same namespace".to_owned()),
        Shape::Object(members) => object(members, value, path, notes),
        Shape::Map(item) => {
            for (key, value) in value.as_object().into_iter().flatten() {
                one(item, value, &format!("{path}.{key}"), notes);
            }
        }
        Shape::List { item, .. } => {
            for (i, value) in value.as_array().into_iter().flatten().enumerate() {
                one(item, value, &format!("{path}[{i}]"), notes);
            }
        }
        _ => {}
    }
}

/// `or b, c`: the values that are not the one that is there.
fn others<T: std::fmt::Display>(values: &[T], chosen: &Value) -> String {
    let chosen = chosen.as_str().map_or_else(|| chosen.to_string(), str::to_owned);
    let all: Vec<String> = values.iter().map(ToString::to_string).filter(|value| *value != chosen).collect();
    let more = all.len().saturating_sub(LISTED);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("or {}{rest}", all[..all.len() - more].join(", "))
}

/// A value that is serialized with its comments.
pub(super) struct Noted<'a> {
    value: &'a Value,
    path: String,
    notes: &'a Notes,
}

impl<'a> Noted<'a> {
    pub(super) fn new(value: &'a Value, notes: &'a Notes) -> Self {
        Self { value, path: String::new(), notes }
    }

    fn below(&self, value: &'a Value, path: String) -> Self {
        Self { value, path, notes: self.notes }
    }
}

impl Serialize for Noted<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match (self.value, self.notes.get(&self.path)) {
            (Value::Object(members), _) => {
                let mut map = serializer.serialize_map(Some(members.len()))?;
                for (name, value) in members {
                    map.serialize_entry(name, &self.below(value, format!("{}.{name}", self.path)))?;
                }
                map.end()
            }
            (Value::Array(items), _) => {
                let mut list = serializer.serialize_seq(Some(items.len()))?;
                for (i, value) in items.iter().enumerate() {
                    list.serialize_element(&self.below(value, format!("{}[{i}]", self.path)))?;
                }
                list.end()
            }
            (scalar, Some(note)) => Commented(scalar, note.clone()).serialize(serializer),
            (scalar, None) => scalar.serialize(serializer),
        }
    }
}
