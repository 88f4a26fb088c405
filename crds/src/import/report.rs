//! What an import made, and how it differs from the catalog that is committed.

use std::collections::BTreeMap;
use std::fmt;

use crate::archive;
use crate::catalog::Catalog;
use crate::entry::KindEntry;

/// What is in a catalog, in numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Kinds.
    pub kinds: usize,
    /// How many of them are outside the table of kinds.
    pub further: usize,
    /// Served versions of all kinds.
    pub versions: usize,
    /// Other api-versions of them.
    pub others: usize,
    /// Nodes of all types.
    pub nodes: usize,
    /// Size of the nodes' text.
    pub text: usize,
}

impl Report {
    pub(super) fn new(entries: &[KindEntry], blocks: &[archive::Block]) -> Self {
        let texts = || blocks.iter().flat_map(|block| &block.tiers);
        let others: usize = blocks.iter().flat_map(|block| block.others.values()).map(Vec::len).sum();
        Self {
            kinds: entries.len(),
            further: entries.iter().filter(|e| e.further).count(),
            versions: entries.iter().map(|e| e.versions.len()).sum(),
            others,
            nodes: texts().map(|text| text.lines().count()).sum(),
            text: texts().map(String::len).sum(),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kinds, further, versions, others, nodes, text } = self;
        write!(
            f,
            "{kinds} kinds ({further} further ones), {versions} served versions, {others} others, {nodes} types, {text} bytes of text"
        )
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

/// Everything that users see of each version; of those that are served only when a pattern names them, that they are there.
fn shapes(catalog: &Catalog) -> BTreeMap<String, String> {
    let mut shapes = BTreeMap::new();
    for entry in catalog.kinds() {
        let Some(Ok(kind)) = catalog.try_load(&entry.group, &entry.kind) else { continue };
        for version in kind.versions() {
            let name = format!("{}/{} {}", entry.group, entry.kind, version.name());
            shapes.insert(name, format!("{:?}{:?}{:?}", version.spec(), version.status_shape(), entry.exports));
        }
        for (name, _) in kind.other_versions() {
            shapes.insert(format!("{}/{} {name} (served when named)", entry.group, entry.kind), String::new());
        }
    }
    shapes
}
