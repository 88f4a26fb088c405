//! What a version refuses, as rules on the union's structure.
//!
//! A rule costs the API server memory and a share of a budget per CRD, so each is the plainest that does: `!has(self.x)` for a property that the
//! version lacks. CEL can't see untyped properties nor names outside its alphabet; those are refused by `not: {required: [x]}`, whose
//! message is the API server's.

use serde_json::{Map, Value, json};

use super::schema::{Schema, Structure};
use crate::shape::{Object, Role};

/// What a message says beside the fact: which version to use.
pub(super) struct Advice<'a> {
    /// The version whose schema is made.
    pub(super) version: &'a str,
    pub(super) plural: &'a str,
    pub(super) group: &'a str,
    /// All versions, oldest first, with their own schemas.
    pub(super) versions: &'a [(&'a str, &'a Schema)],
}

impl Advice<'_> {
    /// The newest version that has this path.
    fn newest_with(&self, path: &[&str]) -> Option<&str> {
        self.versions.iter().rev().find(|(_, schema)| schema.at(path).is_some()).map(|(name, _)| *name)
    }

    fn missing(&self, path: &[&str]) -> String {
        let field = readable(path);
        let fact = format!("{field} does not exist in {}", self.version);
        match self.newest_with(path) {
            Some(version) => {
                format!("{fact}, but in {version}: use kubectl edit {}.{version}.{} NAME", self.plural, self.group)
            }
            None => fact,
        }
    }
}

/// The fields that every version keeps for objects that ASO stored.
const KEPT: [&str; 2] = ["originalVersion", "$propertyBag"];

/// Adds to `out`, the schema of one version at `path`, what `own` has less than `union`.
pub(super) fn add(union: &Schema, own: &Schema, advice: &Advice<'_>, path: &[&str], out: &mut Map<String, Value>) {
    let mut rules: Vec<Value> = Vec::new();
    let mut refused: Vec<Value> = Vec::new();
    match (&union.structure, &own.structure) {
        (Structure::Object { properties, .. }, Structure::Object { properties: known, exclusive, .. }) => {
            for (name, schema) in properties.iter().filter(|(name, _)| !known.contains_key(*name)) {
                if path.is_empty() && KEPT.contains(&name.as_str()) {
                    continue;
                }
                let mut full = path.to_vec();
                full.push(name);
                match cel_name(name) {
                    Some(cel) if is_visible(schema) => {
                        rules.push(json!({"rule": format!("!has(self.{cel})"), "message": advice.missing(&full)}));
                    }
                    _ => refused.push(json!({"required": [name]})),
                }
            }
            for (a, b) in exclusive {
                if let (Some(x), Some(y)) = (cel_name(a), cel_name(b)) {
                    let message =
                        format!("{} and {b} exclude each other: set one of them", readable(&[path, &[a]].concat()));
                    rules.push(json!({"rule": format!("!has(self.{x}) || !has(self.{y})"), "message": message}));
                }
            }
        }
        (Structure::Number, Structure::Integer(_)) => {
            let message = format!("{} must be a whole number in {}", readable(path), advice.version);
            rules.push(json!({"rule": "self == double(int(self))", "message": message}));
        }
        _ => {}
    }
    if !rules.is_empty() {
        out.insert("x-kubernetes-validations".to_owned(), Value::Array(rules));
    }
    match refused.len() {
        0 => {}
        1 => drop(out.insert("not".to_owned(), refused.remove(0))),
        _ => drop(out.insert("not".to_owned(), json!({"anyOf": refused}))),
    }
}

/// Adds to the schema of a spec whose alternative decides the resource's name that there is one, and that it stays.
pub(super) fn keep_alternative(schema: &mut Value, spec: &Object) {
    let alternatives = spec.fields.iter().filter(|field| matches!(field.role, Role::Alternative(_)));
    let names: Vec<(&str, String)> = alternatives.filter_map(|f| Some((&*f.name, cel_name(&f.name)?))).collect();
    let set: Vec<String> = names.iter().map(|(_, cel)| format!("has(self.{cel})")).collect();
    let all: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
    let mut rules = vec![json!({
        "rule": format!("[{}].filter(is, is).size() == 1", set.join(", ")),
        "message": format!("set exactly one of {}: it determines which resource this is", all.join(", ")),
    })];
    rules.extend(names.iter().map(|(name, cel)| {
        let message = format!(
            "{name} decides the resource's name, so it cannot be added or removed later. Create a second object instead"
        );
        json!({"rule": format!("has(self.{cel}) == has(oldSelf.{cel})"), "message": message})
    }));
    match &mut schema["x-kubernetes-validations"] {
        Value::Array(there) => there.extend(rules),
        none => *none = Value::Array(rules),
    }
}

/// Whether CEL knows a property of this schema: what is untyped, or a list or map of it, it does not.
fn is_visible(schema: &Schema) -> bool {
    match &schema.structure {
        Structure::Any | Structure::AnyFollowed => false,
        Structure::List(inner) | Structure::Map(inner) => is_visible(inner),
        _ => true,
    }
}

/// A path as people write it: `ipRules[].value`.
fn readable(path: &[&str]) -> String {
    let mut text = String::new();
    for segment in path {
        if !text.is_empty() && *segment != "[]" && *segment != "{}" {
            text.push('.');
        }
        text.push_str(segment);
    }
    text
}

/// A property's name in CEL: some characters and words are escaped. None where CEL has no name for it.
fn cel_name(name: &str) -> Option<String> {
    const WORDS: [&str; 21] = [
        "true",
        "false",
        "null",
        "in",
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    ];
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '/');
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) || !name.chars().all(fits) {
        return None;
    }
    if WORDS.contains(&name) {
        return Some(format!("__{name}__"));
    }
    let escaped = name
        .replace("__", "__underscores__")
        .replace('.', "__dot__")
        .replace('-', "__dash__")
        .replace('/', "__slash__");
    Some(escaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_as_the_api_server_does() {
        assert_eq!(cel_name("tags").as_deref(), Some("tags"));
        assert_eq!(cel_name("namespace").as_deref(), Some("__namespace__"));
        assert_eq!(cel_name("max-age").as_deref(), Some("max__dash__age"));
        assert_eq!(cel_name("$propertyBag"), None);
    }

    #[test]
    fn paths_are_readable() {
        assert_eq!(readable(&["a", "[]", "b", "{}", "c"]), "a[].b{}.c");
    }
}
