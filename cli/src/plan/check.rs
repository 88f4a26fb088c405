//! Checks a spec as the API server will, against the schema of the version it is written in, and says where each mistake is.
//!
//! The schema is the catalog's own, so what passes here is what the CRD accepts, but for what the CRD says with CEL.

use std::collections::HashMap;
use std::sync::Arc;

use regex::Regex;
use serde_json::{Map, Value};

use super::manifest::Resource;
use super::problem::{Place, Problem};
use super::yaml::{Content, Entry, Node};
use crate::suggest::{LISTED, listed, nearest};

/// 2^63: the API server's whole numbers are smaller.
const TOO_LARGE: f64 = 9_223_372_036_854_775_808.0;

/// Checks specs. Schemas and patterns are made once.
#[derive(Debug, Default)]
pub struct Checker {
    schemas: HashMap<(String, String, String), Option<Arc<Value>>>,
    patterns: HashMap<String, Option<Regex>>,
}

impl Checker {
    /// What is wrong with the spec of a resource.
    pub fn check(&mut self, resource: &Resource) -> Vec<Problem> {
        let kind = &resource.kind;
        let Some(version) = resource.version() else { return Vec::new() };
        let key = (kind.group().to_owned(), kind.name().to_owned(), version.name().to_owned());
        let schema = self.schemas.entry(key).or_insert_with(|| kind.own_spec_schema(version.name()).map(Arc::new));
        let Some(schema) = schema.clone() else { return Vec::new() };
        let mut walk = Walk { checker: self, resource, problems: Vec::new() };
        match resource.node.get("spec").filter(|spec| !spec.is_null()) {
            Some(spec) => walk.value(&schema, spec, "spec", true),
            None => walk.required(&schema, &[], "spec", (resource.node.line, resource.node.column)),
        }
        walk.problems
    }

    fn matches(&mut self, pattern: &str, text: &str) -> bool {
        // A pattern that is none of this engine's is left to the API server.
        let regex = self.patterns.entry(pattern.to_owned()).or_insert_with(|| Regex::new(pattern).ok());
        regex.as_ref().is_none_or(|regex| regex.is_match(text))
    }
}

struct Walk<'a> {
    checker: &'a mut Checker,
    resource: &'a Resource,
    problems: Vec<Problem>,
}

impl Walk<'_> {
    fn problem(&self, (line, column): (u64, u64), path: &str, message: String) -> Problem {
        let place = Place { file: Arc::clone(&self.resource.file), line, column };
        Problem::error(place, message).of(self.resource.label()).at(path)
    }

    fn report(&mut self, node: &Node, path: &str, message: String) {
        let problem = self.problem((node.line, node.column), path, message);
        self.problems.push(problem);
    }

    fn value(&mut self, schema: &Value, node: &Node, path: &str, at_root: bool) {
        // Null is the same as nothing, as for kubectl.
        if node.is_null() || schema["x-kubernetes-preserve-unknown-fields"] == true {
            return;
        }
        match (schema["type"].as_str().unwrap_or_default(), &node.content) {
            ("object", Content::Map(entries)) => self.map(schema, node, entries, path, at_root),
            ("array", Content::List(items)) => {
                self.count(schema, node, path, items.len(), ("minItems", "maxItems"), "items");
                for (i, item) in items.iter().enumerate() {
                    self.value(&schema["items"], item, &format!("{path}[{i}]"), false);
                }
            }
            ("string", Content::Scalar(Value::String(text))) => self.text(schema, node, text, path),
            ("boolean", Content::Scalar(Value::Bool(_))) => {}
            ("number", Content::Scalar(Value::Number(number))) => self.number(schema, node, number.as_f64(), path),
            ("integer", Content::Scalar(Value::Number(number)))
                if number.as_f64().is_some_and(|n| n.fract() == 0.0) =>
            {
                if number.as_f64().is_some_and(|n| n.abs() >= TOO_LARGE) {
                    self.report(node, path, format!("must be a whole number of 64 bits, not {number}"));
                }
                self.number(schema, node, number.as_f64(), path);
            }
            (wanted, found) => self.wrong_type(wanted, found, node, path),
        }
    }

    fn wrong_type(&mut self, wanted: &str, found: &Content, node: &Node, path: &str) {
        let noun = match wanted {
            "object" => "a map",
            "array" => "a list",
            "string" => "a string",
            "boolean" => "true or false",
            "integer" => "a whole number",
            _ => "a number",
        };
        let (is, help) = match (found, wanted) {
            (Content::Map(_), _) => ("a map".to_owned(), None),
            (Content::List(_), _) => ("a list".to_owned(), None),
            (Content::Scalar(value @ (Value::Number(_) | Value::Bool(_))), "string") => {
                // Not the value: `010` or `1.10` were read as a number and can't be told from others any more.
                (value.to_string(), Some("write it in quotes".to_owned()))
            }
            (Content::Scalar(Value::String(text)), "boolean" | "integer" | "number") if reads_as(text, wanted) => {
                (format!("the string {text:?}"), Some("leave the quotes out".to_owned()))
            }
            (Content::Scalar(Value::String(text)), _) => (format!("the string {:?}", shortened(text)), None),
            (Content::Scalar(value), _) => (value.to_string(), None),
        };
        let problem = self.problem((node.line, node.column), path, format!("must be {noun}, not {is}"));
        self.problems.push(Problem { help: help.map(Into::into), ..problem });
    }

    fn map(&mut self, schema: &Value, node: &Node, entries: &[Entry], path: &str, at_root: bool) {
        if let Some(inner) = schema.get("additionalProperties") {
            for entry in entries {
                self.value(inner, &entry.value, &below(path, &entry.key), false);
            }
            return;
        }
        let nothing = Map::new();
        let properties = schema["properties"].as_object().unwrap_or(&nothing);
        for entry in entries {
            let at = below(path, &entry.key);
            match properties.get(&entry.key) {
                Some(inner) => self.value(inner, &entry.value, &at, false),
                // What ASO stored has these.
                None if at_root && ["originalVersion", "$propertyBag"].contains(&entry.key.as_str()) => {}
                None => {
                    let problem = self.unknown(entry, properties, &at);
                    self.problems.push(problem);
                }
            }
        }
        let set: Vec<&str> = entries.iter().filter(|e| !e.value.is_null()).map(|e| e.key.as_str()).collect();
        self.required(schema, &set, path, (node.line, node.column));
        self.forms(schema, node, &set, path);
    }

    fn unknown(&self, entry: &Entry, properties: &Map<String, Value>, path: &str) -> Problem {
        let version = &self.resource.version;
        let problem = self.problem((entry.line, entry.column), path, format!("no such field in {version}"));
        let names: Vec<&str> = properties.keys().map(String::as_str).collect();
        if let Some(near) = nearest(&entry.key, names.iter().copied()) {
            return problem.meant(Some(near));
        }
        // Perhaps another version has it.
        let own = |v: &flotilla_crds::Version| self.resource.kind.own_spec_schema(v.name());
        let relative = path.strip_prefix("spec").unwrap_or(path);
        let newer = self.resource.kind.versions().iter().rev().find(|v| own(v).is_some_and(|s| has(&s, relative)));
        match newer {
            Some(newer) => problem.help(format!("{} has it", newer.name())),
            None if names.len() <= LISTED => problem.help(format!("there are {}", listed(&names, "and"))),
            None => problem,
        }
    }

    fn required(&mut self, schema: &Value, set: &[&str], path: &str, place: (u64, u64)) {
        let names = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        for name in names.filter(|name| !set.contains(name)) {
            let problem = self.problem(place, &below(path, name), "is required".to_owned());
            self.problems.push(problem);
        }
    }

    /// `oneOf` of lists of required fields: the forms of a reference.
    fn forms(&mut self, schema: &Value, node: &Node, set: &[&str], path: &str) {
        let Some(forms) = schema["oneOf"].as_array() else { return };
        let names = |form: &Value| -> Vec<String> {
            form["required"].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let complete = forms.iter().filter(|form| names(form).iter().all(|name| set.contains(&name.as_str()))).count();
        if complete != 1 {
            let texts: Vec<String> = forms.iter().map(|form| listed(&names(form), "and")).collect();
            let say = if complete == 0 { "set either" } else { "set only one of" };
            self.report(node, path, format!("{say} {}", texts.join(if complete == 0 { ", or " } else { ": " })));
        }
    }

    fn text(&mut self, schema: &Value, node: &Node, text: &str, path: &str) {
        if let Some(values) = schema["enum"].as_array() {
            let values: Vec<&str> = values.iter().filter_map(Value::as_str).collect();
            if !values.contains(&text) {
                let known = match values.len() {
                    n if n > LISTED => format!("one of {n} values"),
                    _ => listed(&values, "or"),
                };
                let near = nearest(text, values.iter().copied());
                let problem = self.problem((node.line, node.column), path, format!("must be {known}, not {text:?}"));
                self.problems.push(problem.meant(near));
            }
        }
        if let Some(pattern) = schema["pattern"].as_str()
            && !self.checker.matches(pattern, text)
        {
            self.report(node, path, format!("{:?} does not match {pattern}", shortened(text)));
        }
        self.count(schema, node, path, text.chars().count(), ("minLength", "maxLength"), "characters");
    }

    fn count(&mut self, schema: &Value, node: &Node, path: &str, count: usize, bounds: (&str, &str), what: &str) {
        let count = count as u64;
        if let Some(least) = schema[bounds.0].as_u64().filter(|&least| count < least) {
            self.report(node, path, format!("must have at least {least} {what}, not {count}"));
        }
        if let Some(most) = schema[bounds.1].as_u64().filter(|&most| count > most) {
            self.report(node, path, format!("must have at most {most} {what}, not {count}"));
        }
    }

    fn number(&mut self, schema: &Value, node: &Node, number: Option<f64>, path: &str) {
        let Some(number) = number else { return };
        if let Some(values) = schema["enum"].as_array()
            && !values.iter().any(|value| value.as_f64() == Some(number))
        {
            let values: Vec<String> = values.iter().map(ToString::to_string).collect();
            self.report(node, path, format!("must be {}, not {number}", listed(&values, "or")));
        }
        if let Some(least) = schema["minimum"].as_f64().filter(|&least| number < least) {
            self.report(node, path, format!("must be at least {least}, not {number}"));
        }
        if let Some(most) = schema["maximum"].as_f64().filter(|&most| number > most) {
            self.report(node, path, format!("must be at most {most}, not {number}"));
        }
    }
}

fn below(path: &str, name: &str) -> String {
    let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-$".contains(&b));
    if plain { format!("{path}.{name}") } else { format!("{path}[{name}]") }
}

fn reads_as(text: &str, wanted: &str) -> bool {
    match wanted {
        "boolean" => ["true", "false"].contains(&text),
        "integer" => text.parse::<i64>().is_ok(),
        _ => text.parse::<f64>().is_ok(),
    }
}

fn shortened(text: &str) -> String {
    if text.chars().count() <= 80 { text.to_owned() } else { text.chars().take(79).chain(['…']).collect() }
}

/// Whether a schema has this path.
fn has(schema: &Value, path: &str) -> bool {
    let found = super::yaml::segments(path).try_fold(schema, |schema, segment| {
        let inner = ["items", "additionalProperties"].iter().find_map(|k| schema.get(k));
        schema["properties"].get(segment).or(inner)
    });
    found.is_some()
}
