//! Schemas as far as CRDs need them: a structure, and value validation on it.
//!
//! *The union*: properties of all versions; where two versions give a place different types, the wider one: any before everything, number before
//! integer. A version with the narrower type keeps it as a rule.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

/// A schema.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Schema {
    pub(super) structure: Structure,
    /// Value validation: keywords as in `OpenAPI`, none of which is structural.
    pub(super) checks: Map<String, Value>,
}

/// The part that decides what is pruned.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Structure {
    Object {
        properties: BTreeMap<String, Schema>,
        required: BTreeSet<String>,
        /// Pairs of fields that exclude each other.
        exclusive: Vec<(String, String)>,
    },
    Map(Box<Schema>),
    List(Box<Schema>),
    String(Option<&'static str>),
    Integer(Option<&'static str>),
    Number,
    Boolean,
    Any,
    /// Anything, and the API server looks for changes within.
    AnyFollowed,
}

impl Schema {
    pub(super) fn of(structure: Structure) -> Self {
        Self { structure, checks: Map::new() }
    }

    pub(super) fn string() -> Self {
        Self::of(Structure::String(None))
    }

    pub(super) fn map(values: Self) -> Self {
        Self::of(Structure::Map(Box::new(values)))
    }

    pub(super) fn list(items: Self) -> Self {
        Self::of(Structure::List(Box::new(items)))
    }

    pub(super) fn object() -> Self {
        Self::of(Structure::Object { properties: BTreeMap::new(), required: BTreeSet::new(), exclusive: Vec::new() })
    }

    pub(super) fn check(mut self, keyword: &str, value: impl Into<Value>) -> Self {
        self.checks.insert(keyword.to_owned(), value.into());
        self
    }

    /// The same, where the API server is to see what a request leaves alone in untyped values.
    pub(super) fn followed(mut self) -> Self {
        self.structure = match self.structure {
            Structure::Any => Structure::AnyFollowed,
            Structure::Map(values) => Structure::Map(Box::new(values.followed())),
            Structure::List(items) => Structure::List(Box::new(items.followed())),
            Structure::Object { properties, required, exclusive } => {
                let properties = properties.into_iter().map(|(name, schema)| (name, schema.followed())).collect();
                Structure::Object { properties, required, exclusive }
            }
            other => other,
        };
        self
    }

    /// Adds a property to an object.
    pub(super) fn property(&mut self, name: &str, schema: Self) {
        if let Structure::Object { properties, .. } = &mut self.structure {
            properties.insert(name.to_owned(), schema);
        }
    }

    /// Adds a required property to an object.
    pub(super) fn required(&mut self, name: &str, schema: Self) {
        self.property(name, schema);
        if let Structure::Object { required, .. } = &mut self.structure {
            required.insert(name.to_owned());
        }
    }

    /// An object with these optional string members.
    pub(super) fn strings(optional: &[&str], needed: &[&str]) -> Self {
        let mut schema = Self::object();
        for name in optional {
            schema.property(name, Self::string());
        }
        for name in needed {
            schema.required(name, Self::string());
        }
        schema
    }

    pub(super) fn properties(&self) -> Option<&BTreeMap<String, Self>> {
        match &self.structure {
            Structure::Object { properties, .. } => Some(properties),
            _ => None,
        }
    }

    /// The schema at a path of properties, items (`[]`) and values (`{}`).
    pub(super) fn at(&self, path: &[&str]) -> Option<&Self> {
        path.iter().try_fold(self, |schema, &segment| match (&schema.structure, segment) {
            (Structure::List(item), "[]") | (Structure::Map(item), "{}") => Some(&**item),
            (Structure::Object { properties, .. }, name) => properties.get(name),
            _ => None,
        })
    }
}

/// The structure that has all of theirs. It carries no checks.
pub(super) fn union(schemas: &[Schema]) -> Schema {
    let mut schemas = schemas.iter();
    let first = schemas.next().map_or_else(Schema::object, bare);
    schemas.fold(first, |union, schema| Schema::of(merge(union.structure, &schema.structure)))
}

fn bare(schema: &Schema) -> Schema {
    let structure = match &schema.structure {
        Structure::Object { properties, .. } => Structure::Object {
            properties: properties.iter().map(|(name, schema)| (name.clone(), bare(schema))).collect(),
            required: BTreeSet::new(),
            exclusive: Vec::new(),
        },
        Structure::Map(values) => Structure::Map(Box::new(bare(values))),
        Structure::List(items) => Structure::List(Box::new(bare(items))),
        other => other.clone(),
    };
    Schema::of(structure)
}

fn merge(a: Structure, b: &Structure) -> Structure {
    match (a, b) {
        (Structure::Object { mut properties, .. }, Structure::Object { properties: more, .. }) => {
            for (name, schema) in more {
                let merged = match properties.remove(name) {
                    Some(known) => Schema::of(merge(known.structure, &schema.structure)),
                    None => bare(schema),
                };
                properties.insert(name.clone(), merged);
            }
            Structure::Object { properties, required: BTreeSet::new(), exclusive: Vec::new() }
        }
        (Structure::Map(a), Structure::Map(b)) => {
            Structure::Map(Box::new(Schema::of(merge(a.structure, &b.structure))))
        }
        (Structure::List(a), Structure::List(b)) => {
            Structure::List(Box::new(Schema::of(merge(a.structure, &b.structure))))
        }
        (Structure::String(a), Structure::String(b)) => Structure::String(if a == *b { a } else { None }),
        (Structure::Integer(a), Structure::Integer(b)) => Structure::Integer(if a == *b { a } else { None }),
        (Structure::Number | Structure::Integer(_), Structure::Number) | (Structure::Number, Structure::Integer(_)) => {
            Structure::Number
        }
        (Structure::Boolean, Structure::Boolean) => Structure::Boolean,
        _ => Structure::Any,
    }
}
