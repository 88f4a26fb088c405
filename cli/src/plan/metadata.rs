//! Checks the metadata of an object as the API server will.

use std::sync::Arc;

use super::problem::{Place, Problem};
use super::yaml::{Content, Entry, Node};
use crate::names::{name, namespace};
use crate::suggest::nearest;

const KNOWN: [&str; 14] = [
    "name",
    "namespace",
    "labels",
    "annotations",
    "finalizers",
    "ownerReferences",
    "generateName",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "uid",
];

/// What is wrong with the metadata of the object that `label` names.
pub(super) fn check(file: &Arc<str>, metadata: &Node, label: &str) -> Vec<Problem> {
    let walk = Walk { file, label };
    let Content::Map(entries) = &metadata.content else {
        return vec![walk.wrong(metadata, "metadata", "a map")];
    };
    entries.iter().flat_map(|entry| walk.entry(entry)).collect()
}

struct Walk<'a> {
    file: &'a Arc<str>,
    label: &'a str,
}

impl Walk<'_> {
    fn problem(&self, (line, column): (u64, u64), path: &str, message: impl Into<String>) -> Problem {
        let place = Place { file: Arc::clone(self.file), line, column };
        Problem::error(place, message.into()).of(self.label).at(path)
    }

    fn wrong(&self, node: &Node, path: &str, wanted: &str) -> Problem {
        let problem = self.problem((node.line, node.column), path, format!("must be {wanted}, not {}", found(node)));
        let quotes = wanted == "a string" && matches!(node.content, Content::Scalar(_));
        if quotes { problem.help("write it in quotes") } else { problem }
    }

    fn entry(&self, entry: &Entry) -> Vec<Problem> {
        let path = format!("metadata.{}", entry.key);
        let refused = |why: &str| vec![self.problem((entry.value.line, entry.value.column), &path, why)];
        match (entry.key.as_str(), entry.value.as_str()) {
            (key, _) if !KNOWN.contains(&key) => {
                let problem = self.problem((entry.line, entry.column), &path, "no such field");
                vec![problem.meant(nearest(key, KNOWN))]
            }
            _ if entry.value.is_null() => Vec::new(),
            // What is left over of a template is told already.
            (_, Some(text)) if text.contains("${") || text.contains("{{") => Vec::new(),
            ("name", Some(text)) if !text.is_empty() => name(text).err().map(refused).unwrap_or_default(),
            ("namespace", Some(text)) if !text.is_empty() => namespace(text).err().map(refused).unwrap_or_default(),
            ("labels" | "annotations", _) => self.texts(&entry.value, &path),
            ("finalizers", _) => self.items(&entry.value, &path, "a string", |item| item.as_str().is_some()),
            ("ownerReferences" | "managedFields", _) => {
                self.items(&entry.value, &path, "a map", |item| matches!(item.content, Content::Map(_)))
            }
            _ => Vec::new(),
        }
    }

    /// A map from text to text.
    fn texts(&self, node: &Node, path: &str) -> Vec<Problem> {
        let Content::Map(entries) = &node.content else { return vec![self.wrong(node, path, "a map")] };
        let others = entries.iter().filter(|e| e.value.as_str().is_none() && !e.value.is_null());
        others.map(|e| self.wrong(&e.value, &format!("{path}[{}]", e.key), "a string")).collect()
    }

    fn items(&self, node: &Node, path: &str, wanted: &str, fits: impl Fn(&Node) -> bool) -> Vec<Problem> {
        let Content::List(items) = &node.content else { return vec![self.wrong(node, path, "a list")] };
        let others = items.iter().enumerate().filter(|(_, item)| !fits(item));
        others.map(|(i, item)| self.wrong(item, &format!("{path}[{i}]"), wanted)).collect()
    }
}

/// What a value is, for messages.
pub(super) fn found(node: &Node) -> String {
    match &node.content {
        Content::Scalar(serde_json::Value::String(text)) => format!("the string {text:?}"),
        Content::Scalar(value) => value.to_string(),
        Content::List(_) => "a list".to_owned(),
        Content::Map(_) => "a map".to_owned(),
    }
}
