//! Schemas as JSON, as the API server takes them: the union's structure, with what one version demands of it.

use serde_json::{Map, Value, json};

use super::rules::{self, Advice};
use super::schema::{Schema, Structure};

/// How many objects may be in one another, without a list between, in an untyped value.
const DEPTH: usize = 16;

/// The union's structure without any check.
pub(super) fn plain(union: &Schema) -> Value {
    Value::Object(structure(union, &mut plain))
}

/// A version's own structure with its checks.
pub(super) fn own(schema: &Schema) -> Value {
    let mut out = structure(schema, &mut own);
    checks(schema, &mut out);
    Value::Object(out)
}

/// The union's structure with what one version demands of it. Below a property that the version does not have nothing is demanded. Without advice,
/// such a property is not refused.
pub(super) fn demanding(union: &Schema, own: &Schema, advice: Option<&Advice<'_>>) -> Value {
    emit_at(union, Some(own), advice, &mut Vec::new())
}

fn emit_at<'a>(union: &'a Schema, own: Option<&Schema>, advice: Option<&Advice<'_>>, path: &mut Vec<&'a str>) -> Value {
    let Some(own) = own else { return plain(union) };
    let mut out = Map::new();
    let descend = |segment: &'a str, union: &'a Schema, path: &mut Vec<&'a str>| {
        path.push(segment);
        let value = emit_at(union, own.at(&[segment]), advice, path);
        path.pop();
        value
    };
    match &union.structure {
        Structure::Object { properties, .. } => {
            out.insert("type".to_owned(), json!("object"));
            let properties: Map<String, Value> =
                properties.iter().map(|(name, schema)| (name.clone(), descend(name, schema, path))).collect();
            // The API server keeps no empty list of properties.
            if !properties.is_empty() {
                out.insert("properties".to_owned(), Value::Object(properties));
            }
        }
        Structure::Map(values) => {
            out.insert("type".to_owned(), json!("object"));
            out.insert("additionalProperties".to_owned(), descend("{}", values, path));
        }
        Structure::List(items) => {
            out.insert("type".to_owned(), json!("array"));
            out.insert("items".to_owned(), descend("[]", items, path));
        }
        _ => out = structure(union, &mut plain),
    }
    checks(own, &mut out);
    if let Some(advice) = advice {
        rules::add(union, own, advice, path, &mut out);
    }
    Value::Object(out)
}

fn structure(schema: &Schema, inner: &mut dyn FnMut(&Schema) -> Value) -> Map<String, Value> {
    let mut out = Map::new();
    let mut set = |key: &str, value: Value| drop(out.insert(key.to_owned(), value));
    match &schema.structure {
        Structure::Object { properties, .. } => {
            set("type", json!("object"));
            if !properties.is_empty() {
                let properties = properties.iter().map(|(name, schema)| (name.clone(), inner(schema)));
                set("properties", Value::Object(properties.collect()));
            }
        }
        Structure::Map(values) => {
            set("type", json!("object"));
            set("additionalProperties", inner(values));
        }
        Structure::List(items) => {
            set("type", json!("array"));
            set("items", inner(items));
        }
        Structure::String(format) | Structure::Integer(format) => {
            set("type", json!(if matches!(schema.structure, Structure::String(_)) { "string" } else { "integer" }));
            if let Some(format) = format {
                set("format", json!(format));
            }
        }
        Structure::Number => set("type", json!("number")),
        Structure::Boolean => set("type", json!("boolean")),
        Structure::Any => out = anything(0),
        Structure::AnyFollowed => out = anything(DEPTH),
    }
    out
}

/// Any value, with a schema for the members of objects in it.
///
/// The API server forgives what a version refuses in a part of an object that a request leaves alone. To see that it is left alone it follows the
/// schema into maps; a map whose members have none counts as changed, with everything around it. Lists are compared as they are.
fn anything(depth: usize) -> Map<String, Value> {
    let mut out = Map::from_iter([("x-kubernetes-preserve-unknown-fields".to_owned(), json!(true))]);
    if depth > 0 {
        out.insert("additionalProperties".to_owned(), Value::Object(anything(depth - 1)));
    }
    out
}

fn checks(own: &Schema, out: &mut Map<String, Value>) {
    for (keyword, value) in &own.checks {
        out.insert(keyword.clone(), value.clone());
    }
    if let Structure::Object { required, .. } = &own.structure
        && !required.is_empty()
    {
        out.insert("required".to_owned(), required.iter().cloned().collect());
    }
}
