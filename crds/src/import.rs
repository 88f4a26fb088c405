//! Makes the catalog from Azure's type data, a table of kinds and tables of facts.
//!
//! *Flow*: `kinds` says which ARM types at which api-versions are wanted; `raw` reads the `types.json` that has them; `convert` turns each root into nodes,
//! with the facts of `facts` written on the properties and other resources cut down to their ids (`embedded`); `minimise` merges equal nodes of
//! a provider; `archive` writes the bytes.
//!
//! *Guarantees*: the same inputs give the same bytes. An error names the file, the type or line, and the rule.

mod convert;
mod embedded;
mod exports;
mod facts;
mod kinds;
mod minimise;
mod raw;
mod report;
mod types;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::archive;
use crate::catalog::{KindEntry, VersionEntry};
use crate::graph::{Node, NodeId};

pub use report::{Report, changes};

/// An import that can't go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file can't be read or written.
    #[error("failed to {action} {}", path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// Why it failed.
        #[source]
        source: std::io::Error,
    },
    /// A `types.json` is not what it should be.
    #[error("{}: not a list of types", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// Where and why.
        #[source]
        source: serde_json::Error,
    },
    /// A type does not follow a rule.
    #[error("{}: type {arm_type}: {rule}", path.display())]
    Type {
        /// The file.
        path: PathBuf,
        /// The ARM type and api-version.
        arm_type: String,
        /// The rule.
        rule: String,
    },
    /// A line of one of our tables does not follow a rule.
    #[error("{}:{line}: {rule}", path.display())]
    Line {
        /// The table.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The rule.
        rule: String,
    },
    /// No file has a wanted type.
    #[error("{}:{line}: no types.json has {arm_type}@{api_version}", path.display())]
    NoType {
        /// The table of kinds.
        path: PathBuf,
        /// The line.
        line: usize,
        /// The ARM type.
        arm_type: String,
        /// The api-version.
        api_version: String,
    },
    /// The catalog can't be written or the old one not read.
    #[error("failed to write the catalog")]
    Archive(#[from] archive::Error),
}

/// The catalog's bytes and what went into them.
#[derive(Debug)]
pub struct Imported {
    /// The catalog file.
    pub bytes: Vec<u8>,
    /// Facts that no type has: probably outdated.
    pub unused_facts: Vec<String>,
    /// What is in it.
    pub report: Report,
}

/// Makes the catalog from the folder of Azure's type data and the folder with our tables. `groups` restricts it; empty means all of the table.
pub fn run(types: &Path, data: &Path, groups: &[String]) -> Result<Imported, Error> {
    let mut wanted = kinds::read(data)?;
    wanted.retain(|k| groups.is_empty() || groups.contains(&k.entry.group));
    kinds::link_owners(&mut wanted);
    let facts = facts::Facts::read(&data.join("facts"))?;
    let mut library = raw::Library::index(types)?;
    let own = types::OwnTypes::read(&data.join("types"))?;
    own.files().for_each(|file| library.add(file));

    // One block per ARM provider, in the order of their names.
    let mut blocks: BTreeMap<String, Vec<kinds::Wanted>> = BTreeMap::new();
    for kind in wanted {
        let provider = kind.entry.arm_type.split('/').next().unwrap_or_default().to_ascii_lowercase();
        blocks.entry(provider).or_default().push(kind);
    }
    let mut texts = Vec::new();
    let mut entries: Vec<KindEntry> = Vec::new();
    for (number, kinds) in blocks.into_values().enumerate() {
        let block = u32::try_from(number).unwrap_or(u32::MAX);
        let (text, mut kinds) = make_block(&mut library, &facts, &own, data, block, kinds)?;
        texts.push(text);
        entries.append(&mut kinds);
    }
    entries.sort_by(|a, b| (&a.group, &a.kind).cmp(&(&b.group, &b.kind)));
    exports::check(data, &entries, &mut library)?;
    let report = Report::new(&entries, &texts);
    let bytes = archive::write(entries, &texts)?;
    Ok(Imported { bytes, unused_facts: if groups.is_empty() { facts.unused() } else { Vec::new() }, report })
}

fn make_block(
    library: &mut raw::Library,
    facts: &facts::Facts,
    own: &types::OwnTypes,
    data: &Path,
    block: u32,
    kinds: Vec<kinds::Wanted>,
) -> Result<(String, Vec<KindEntry>), Error> {
    let mut nodes: Vec<Node> = Vec::new();
    let mut roots: Vec<NodeId> = Vec::new();
    let mut entries = Vec::new();
    for kind in kinds {
        let mut entry = kind.entry;
        entry.block = block;
        for wanted in &kind.versions {
            let found = library.find(&entry.arm_type, &wanted.types_of)?;
            let (file, resource) = found.ok_or_else(|| Error::NoType {
                path: data.join("kinds.tsv"),
                line: kind.line,
                arm_type: entry.arm_type.clone(),
                api_version: wanted.types_of.clone(),
            })?;
            let resource = resource.clone();
            entry.arm_type.clone_from(&resource.arm_type);
            entry.scopes = resource.writable;
            let about = facts::About { group: &entry.group, kind: &entry.kind, api_version: &wanted.types_of };
            let root = convert::root(&file, &resource, facts, own, &about, &mut nodes)?;
            roots.push(root);
            entry.versions.push(VersionEntry {
                name: wanted.name.clone(),
                api_version: wanted.api_version.clone(),
                root,
            });
        }
        if !entry.manager.is_arm() {
            entry.arm_type = String::new();
            entries.push(entry);
            continue;
        }
        // A kind that extends any resource, or is of a subscription or the tenant, has no owner of one kind.
        let extends = entry.scopes & 16 != 0 && entry.arm_type.matches('/').count() == 1;
        if entry.scopes & 8 == 0 || extends {
            entry.owner = None;
        }
        entries.push(entry);
    }
    let (nodes, roots) = minimise::minimise(nodes, &roots);
    let mut roots = roots.into_iter();
    for version in entries.iter_mut().flat_map(|e| &mut e.versions) {
        version.root = roots.next().unwrap_or_default();
    }
    let mut text = String::new();
    for node in &nodes {
        text.push_str(&node.to_line().to_string());
        text.push('\n');
    }
    Ok((text, entries))
}

/// The columns of a table's lines, with their numbers; `#` begins a comment line.
fn table(path: &Path, columns: usize) -> Result<Vec<(usize, Vec<String>)>, Error> {
    let text = std::fs::read_to_string(path).map_err(|source| Error::File {
        action: "read",
        path: path.to_owned(),
        source,
    })?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    lines
        .map(|(i, line)| {
            let cells: Vec<String> = line.split('\t').map(|c| c.trim().to_owned()).collect();
            if cells.len() == columns {
                return Ok((i + 1, cells));
            }
            let rule = format!("expected {columns} columns separated by tabs, found {}", cells.len());
            Err(Error::Line { path: path.to_owned(), line: i + 1, rule })
        })
        .collect()
}
