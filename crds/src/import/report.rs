//! What an import made, and how it differs from the catalog that is committed.

use std::collections::BTreeMap;
use std::fmt;

use crate::catalog::{Catalog, KindEntry};

/// What is in a catalog, in numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Kinds.
    pub kinds: usize,
    /// Served versions of all kinds.
    pub versions: usize,
    /// Nodes of all types.
    pub nodes: usize,
    /// Size of the nodes' text.
    pub text: usize,
}

impl Report {
    pub(super) fn new(entries: &[KindEntry], blocks: &[String]) -> Self {
        Self {
            kinds: entries.len(),
            versions: entries.iter().map(|e| e.versions.len()).sum(),
            nodes: blocks.iter().map(|b| b.lines().count()).sum(),
            text: blocks.iter().map(String::len).sum(),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kinds, versions, nodes, text } = self;
        write!(f, "{kinds} kinds, {versions} versions, {nodes} types, {text} bytes of text")
    }
}

/// The lines that say what is new, gone or changed from `old` to `new`.
pub fn changes(old: &Catalog, new: &Catalog) -> Vec<String> {
    let (old, new) = (shapes(old), shapes(new));
    let mut lines = Vec::new();
    for (name, shape) in &new {
        match old.get(name) {
            None => lines.push(format!("new      {name}")),
            Some(before) if before != shape => lines.push(format!("changed  {name}")),
            Some(_) => {}
        }
    }
    lines.extend(old.keys().filter(|name| !new.contains_key(*name)).map(|name| format!("gone     {name}")));
    lines
}

/// Everything that users see of each version.
fn shapes(catalog: &Catalog) -> BTreeMap<String, String> {
    let mut shapes = BTreeMap::new();
    for entry in catalog.kinds() {
        let Some(Ok(kind)) = catalog.try_load(&entry.group, &entry.kind) else { continue };
        for version in kind.versions() {
            let name = format!("{}/{} {}", entry.group, entry.kind, version.name());
            shapes.insert(name, format!("{:?}{:?}{:?}", version.spec(), version.status_shape(), entry.exports));
        }
    }
    shapes
}
