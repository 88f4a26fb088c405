//! What a PUT body states that Azure has otherwise.
//!
//! *Equal all the same*: ids, enums and locations in other letter case, locations with or without spaces (`West US 2`, `westus2`), numbers written
//! otherwise, scalars of a list in another order. *No drift*: values the service adds (properties, entries of maps with properties, items of lists of
//! objects), and what a GET never returns (secrets, write-only properties, stated nulls).
//!
//! *Caveat*: services leave out some properties in a GET that they accepted in a PUT, and the type data do not say which. So a property that is missing is reported
//! apart from one that has another value (`Change`); the caller may forgive one that was missing right after the last PUT.

use serde_json::{Map, Value};

use super::{FieldPath, below};
use crate::graph::{Flags, Graph, Node, NodeId, Prop};
use crate::kind::Version;

/// A stated value that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The property, as in `properties.template.containers[0].image`.
    pub path: FieldPath,
    /// How it differs.
    pub change: Change,
}

/// How a stated value differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Change {
    /// Azure has another value.
    Changed,
    /// Azure has none.
    Missing,
    /// Azure's list of plain values has more than the stated ones.
    Added,
}

impl Version {
    /// What `body` states and `live` has otherwise, by path.
    pub fn stated_differences(&self, body: &Value, live: &Value) -> Vec<Difference> {
        let (graph, root) = self.types();
        let mut compare = Compare { graph, found: Vec::new() };
        if let (Some(body), Some(live)) = (body.as_object(), live.as_object()) {
            let given: Map<String, Value> =
                body.iter().filter(|(k, _)| *k != "name" && *k != "id" && *k != "type").map(clone).collect();
            compare.object(root, &given, live, "");
        }
        compare.found
    }
}

fn clone((key, value): (&String, &Value)) -> (String, Value) {
    (key.clone(), value.clone())
}

struct Compare<'a> {
    graph: &'a Graph,
    found: Vec<Difference>,
}

impl<'a> Compare<'a> {
    fn report(&mut self, path: &str, change: Change) {
        let path = path.strip_prefix('.').unwrap_or(path).to_owned();
        self.found.push(Difference { path, change });
    }

    /// The properties of an object, those of the alternative that it is included.
    fn props(&self, id: NodeId, given: &Map<String, Value>) -> (Vec<&'a Prop>, Option<NodeId>) {
        match self.graph.node(id) {
            Node::Object { props, extra } => (props.iter().collect(), *extra),
            Node::Union { discriminator, base, cases } => {
                let chosen = given.get(&**discriminator).and_then(Value::as_str).unwrap_or_default();
                let mut props: Vec<&Prop> = Vec::new();
                let mut extra = None;
                if let Some(case) = cases.iter().find(|c| c.value.eq_ignore_ascii_case(chosen)) {
                    (props, extra) = self.props(case.node, given);
                }
                props.extend(base);
                (props, extra)
            }
            _ => (Vec::new(), None),
        }
    }

    fn object(&mut self, id: NodeId, body: &Map<String, Value>, live: &Map<String, Value>, path: &str) {
        let (props, extra) = self.props(id, body);
        for (name, stated) in body {
            let prop = props.iter().find(|p| *p.name == **name);
            let flags = prop.map_or(Flags::default(), |p| p.flags);
            if stated.is_null() || flags.has(Flags::WRITE_ONLY) || flags.has(Flags::SECRET) {
                continue;
            }
            let node = prop.map(|p| p.node).or(extra);
            let at = below(path, name);
            // Some services answer with other capitals in property names, mostly in maps.
            let found =
                live.get(name).or_else(|| live.iter().find(|(k, _)| k.eq_ignore_ascii_case(name)).map(|(_, v)| v));
            match found {
                None | Some(Value::Null) if self.is_empty(node, stated) => {}
                None | Some(Value::Null) => self.report(&at, Change::Missing),
                Some(found) => self.value(node, stated, found, &at, is_location(name)),
            }
        }
    }

    /// Whether a stated value says nothing: empty, or only of things that a GET never returns.
    fn is_empty(&self, node: Option<NodeId>, stated: &Value) -> bool {
        match stated {
            Value::Null => true,
            Value::Array(items) => items.is_empty(),
            Value::Object(entries) => {
                let (props, _) = node.map_or((Vec::new(), None), |id| self.props(id, entries));
                entries.iter().all(|(name, value)| {
                    let prop = props.iter().find(|p| *p.name == **name);
                    prop.is_some_and(|p| p.flags.has(Flags::SECRET) || p.flags.has(Flags::WRITE_ONLY))
                        || self.is_empty(prop.map(|p| p.node), value)
                })
            }
            // False and a missing property are the same to most services.
            Value::Bool(stated) => !stated,
            _ => false,
        }
    }

    fn value(&mut self, node: Option<NodeId>, stated: &Value, live: &Value, path: &str, location: bool) {
        match (stated, live) {
            (Value::Object(stated), Value::Object(live)) => {
                self.object(node.unwrap_or(NodeId::MAX), stated, live, path);
            }
            (Value::Array(stated), Value::Array(live)) => {
                let item = match node.map(|id| self.graph.node(id)) {
                    Some(Node::Array { item, .. }) => Some(*item),
                    _ => None,
                };
                self.list(item, stated, live, path, location);
            }
            _ if same(self.is_enum(node), stated, live, location) => {}
            _ => self.report(path, Change::Changed),
        }
    }

    fn is_enum(&self, node: Option<NodeId>) -> bool {
        node.is_some_and(|id| matches!(self.graph.node(id), Node::Enum { .. }))
    }

    fn list(&mut self, item: Option<NodeId>, stated: &[Value], live: &[Value], path: &str, location: bool) {
        let plain = |items: &[Value]| items.iter().all(|v| !v.is_object() && !v.is_array());
        if plain(stated) && plain(live) {
            let is_enum = self.is_enum(item);
            let mut left: Vec<&Value> = live.iter().collect();
            for (i, value) in stated.iter().enumerate() {
                match left.iter().position(|found| same(is_enum, value, found, location)) {
                    Some(at) => drop(left.swap_remove(at)),
                    None => self.report(&format!("{path}[{i}]"), Change::Missing),
                }
            }
            if !left.is_empty() && stated.len() < live.len() {
                self.report(path, Change::Added);
            }
            return;
        }
        let key = identity(stated);
        for (i, value) in stated.iter().enumerate() {
            let at = format!("{path}[{i}]");
            let found = match key {
                Some(key) => live.iter().find(|l| same(true, &value[key], &l[key], false)),
                None => live.get(i),
            };
            match found {
                Some(found) => self.value(item, value, found, &at, false),
                None => self.report(&at, Change::Missing),
            }
        }
    }
}

/// The member by which the objects of a list can be told apart, if they have one.
fn identity(items: &[Value]) -> Option<&'static str> {
    ["name", "id", "key"].into_iter().find(|key| {
        let mut seen = std::collections::BTreeSet::new();
        items.iter().all(|item| {
            item.get(key).and_then(Value::as_str).is_some_and(|text| seen.insert(text.to_ascii_lowercase()))
        })
    })
}

fn is_location(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    lower.ends_with("location")
        || lower.ends_with("locationname")
        || lower.ends_with("locations")
        || lower.ends_with("region")
        || lower.ends_with("regions")
}

fn same(ignore_case: bool, stated: &Value, live: &Value, location: bool) -> bool {
    match (stated, live) {
        (Value::String(a), Value::String(b)) => {
            let lower = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>().to_lowercase();
            let id = a.starts_with('/') && b.starts_with('/');
            a == b
                || (ignore_case || id) && a.trim_end_matches('/').eq_ignore_ascii_case(b.trim_end_matches('/'))
                || location && lower(a) == lower(b)
        }
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        _ => stated == live,
    }
}
