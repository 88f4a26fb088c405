//! Whether a body is what the service accepts, as far as its type data say.

use serde_json::{Map, Value};

use super::{FieldPath, below};
use crate::graph::{Flags, Graph, Node, NodeId, Prop};
use crate::kind::Version;

/// Something in a body that the type does not allow.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {problem}")]
pub struct Violation {
    /// Where, as in `properties.ipRules[0].value`.
    pub path: FieldPath,
    /// What.
    pub problem: Problem,
}

/// What is wrong with a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// A required property is missing.
    #[error("is required")]
    Missing,
    /// It has another type.
    #[error("must be {0}")]
    WrongType(&'static str),
    /// The value is none of those listed.
    #[error("must be one of {0}")]
    NotAllowed(String),
    /// No such property. Services mostly ignore these.
    #[error("is not known")]
    Unknown,
    /// A bound is exceeded.
    #[error("is out of bounds: {0}")]
    OutOfBounds(String),
}

impl Version {
    /// Checks a PUT body: required properties, types and closed enums, unknown properties, bounds of numbers and lengths. Null counts as absent.
    pub fn validate_body(&self, body: &Value) -> Result<(), Vec<Violation>> {
        let (graph, root) = self.types();
        let mut check = Check { graph, violations: Vec::new() };
        check.value(root, body, "", true);
        if check.violations.is_empty() { Ok(()) } else { Err(check.violations) }
    }
}

struct Check<'a> {
    graph: &'a Graph,
    violations: Vec<Violation>,
}

impl Check<'_> {
    fn report(&mut self, path: &str, problem: Problem) {
        let path = path.strip_prefix('.').unwrap_or(path).to_owned();
        self.violations.push(Violation { path, problem });
    }

    fn value(&mut self, id: NodeId, value: &Value, path: &str, at_root: bool) {
        let wrong = |noun| Problem::WrongType(noun);
        match self.graph.node(id) {
            Node::Object { props, extra } => match value.as_object() {
                Some(given) => self.object(&[props], *extra, given, path, at_root),
                None => self.report(path, wrong("an object")),
            },
            Node::Union { discriminator, base, cases } => {
                let Some(given) = value.as_object() else { return self.report(path, wrong("an object")) };
                let at = below(path, discriminator);
                let Some(chosen) = given.get(&**discriminator).and_then(Value::as_str) else {
                    return self.report(&at, Problem::Missing);
                };
                let case = cases.iter().find(|c| c.value.eq_ignore_ascii_case(chosen));
                match case.map(|case| self.graph.node(case.node)) {
                    Some(Node::Object { props, extra }) => self.object(&[base, props], *extra, given, path, at_root),
                    Some(_) => self.value(case.map_or(id, |c| c.node), value, path, at_root),
                    None => {
                        let values: Vec<&str> = cases.iter().map(|c| &*c.value).collect();
                        self.report(&at, Problem::NotAllowed(values.join(", ")));
                    }
                }
            }
            Node::Array { item, min, max } => match value.as_array() {
                Some(items) => {
                    let length = items.len() as u64;
                    if min.is_some_and(|min| length < min) || max.is_some_and(|max| length > max) {
                        self.report(path, Problem::OutOfBounds(format!("{length} items")));
                    }
                    for (i, value) in items.iter().enumerate() {
                        self.value(*item, value, &format!("{path}[{i}]"), false);
                    }
                }
                None => self.report(path, wrong("a list")),
            },
            Node::Enum { values, open } => match value.as_str() {
                Some(text) if *open || values.iter().any(|v| v.eq_ignore_ascii_case(text)) => {}
                Some(_) => self.report(path, Problem::NotAllowed(values.join(", "))),
                None => self.report(path, wrong("a string")),
            },
            Node::String { min, max, .. } => match value.as_str() {
                Some(text) => {
                    let length = text.chars().count() as u64;
                    if min.is_some_and(|min| length < min) || max.is_some_and(|max| length > max) {
                        self.report(path, Problem::OutOfBounds(format!("{length} characters")));
                    }
                }
                None => self.report(path, wrong("a string")),
            },
            Node::Integer { min, max } | Node::Number { min, max } => match value.as_f64() {
                #[expect(clippy::cast_precision_loss, reason = "bounds in the type data are small")]
                Some(n) if min.is_some_and(|min| n < min as f64) || max.is_some_and(|max| n > max as f64) => {
                    self.report(path, Problem::OutOfBounds(value.to_string()));
                }
                Some(_) => {}
                None => self.report(path, wrong("a number")),
            },
            Node::Integers(values) => match value.as_i64() {
                Some(n) if values.contains(&n) => {}
                Some(_) => self.report(
                    path,
                    Problem::NotAllowed(values.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")),
                ),
                None => self.report(path, wrong("a whole number")),
            },
            Node::Boolean if !value.is_boolean() => self.report(path, wrong("true or false")),
            Node::AnyMap | Node::Resource { .. } if !value.is_object() => self.report(path, wrong("an object")),
            Node::Boolean | Node::Any | Node::AnyMap | Node::Resource { .. } => {}
        }
    }

    fn object(
        &mut self,
        props: &[&Vec<Prop>],
        extra: Option<NodeId>,
        given: &Map<String, Value>,
        path: &str,
        at_root: bool,
    ) {
        const ENVELOPE: [&str; 4] = ["id", "name", "type", "apiVersion"];
        let props = || props.iter().flat_map(|p| p.iter());
        for prop in props() {
            let written = !prop.flags.has(Flags::READ_ONLY) && !prop.flags.has(Flags::NOT_IN_SPEC);
            let needed = prop.flags.has(Flags::REQUIRED) && written;
            // The URL says these.
            let in_url = at_root && ENVELOPE.contains(&&*prop.name);
            if needed && !in_url && given.get(&*prop.name).is_none_or(Value::is_null) {
                self.report(&below(path, &prop.name), Problem::Missing);
            }
        }
        for (name, value) in given.iter().filter(|(_, value)| !value.is_null()) {
            // Where a GET returns another type than a PUT takes, there are two of the name.
            let named = || props().filter(|p| *p.name == **name);
            let prop = named().rfind(|p| !p.flags.has(Flags::NOT_IN_SPEC)).or_else(|| named().next_back());
            match (prop, extra) {
                // What is read-only is ignored by ARM, whatever it holds.
                (Some(prop), _) if prop.flags.has(Flags::READ_ONLY) && !prop.flags.has(Flags::IN_SPEC) => {}
                (Some(prop), _) => self.value(prop.node, value, &below(path, name), false),
                (None, Some(extra)) => self.value(extra, value, &below(path, name), false),
                (None, None) if at_root && ENVELOPE.contains(&name.as_str()) => {}
                (None, None) => self.report(&below(path, name), Problem::Unknown),
            }
        }
    }
}
