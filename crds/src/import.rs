//! Makes the catalog from Azure's type data, a table of kinds and tables of facts.
//!
//! *Flow*: `kinds` says which ARM types at which api-versions are wanted under which names, `further` names all others by rule; `raw` reads the
//! `types.json` that has them; `block` goes through a provider; `convert` turns each root into nodes,
//! with the facts of `facts` written on the properties and other resources cut down to their ids (`embedded`); `minimise` merges equal nodes of
//! a provider; `archive` writes the bytes.
//!
//! *Guarantees*: the same inputs give the same bytes. An error names the file, the type or line, and the rule.

mod block;
mod convert;
mod embedded;
mod exports;
mod facts;
mod further;
mod guess;
mod kinds;
mod minimise;
mod owners;
mod raw;
mod report;
mod types;
mod unfold;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::archive;
use crate::entry::KindEntry;

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
    let facts = facts::Facts::read(&data.join("facts"))?;
    let own = types::OwnTypes::read(&data.join("types"))?;
    let mut library = raw::Library::index(types)?;
    own.files().for_each(|file| library.add(file));

    // One block per ARM provider, in the order of their names.
    let mut blocks: BTreeMap<String, Vec<kinds::Wanted>> = BTreeMap::new();
    if groups.is_empty() {
        blocks.extend(library.providers().into_iter().map(|provider| (provider, Vec::new())));
    }
    for kind in wanted {
        let provider = kind.entry.arm_type.split('/').next().unwrap_or_default().to_ascii_lowercase();
        blocks.entry(provider).or_default().push(kind);
    }
    let mut exceptions = further::Exceptions::read(data)?;
    let mut maker = block::Maker {
        library: &mut library,
        facts: &facts,
        own: &own,
        table: data.join("kinds.tsv"),
        exceptions: &mut exceptions,
    };
    let mut texts = Vec::new();
    let mut entries: Vec<KindEntry> = Vec::new();
    for (provider, kinds) in blocks {
        let mut block = maker.make(&provider, u32::try_from(texts.len()).unwrap_or(u32::MAX), kinds)?;
        texts.push(block.text);
        entries.append(&mut block.entries);
    }
    entries.sort_by(|a, b| (&a.group, &a.kind).cmp(&(&b.group, &b.kind)));
    unique(&entries, data)?;
    exports::check(data, &entries, &mut library)?;
    if groups.is_empty() {
        facts.check_kinds(&data.join("facts"), &entries)?;
    }
    let report = Report::new(&entries, &texts);
    let bytes = archive::write(entries, &texts)?;
    let unused = if groups.is_empty() { [facts.unused(), exceptions.unused()].concat() } else { Vec::new() };
    Ok(Imported { bytes, unused_facts: unused, report })
}

/// Refuses two kinds, or two plurals, of one name in a group.
fn unique(entries: &[KindEntry], data: &Path) -> Result<(), Error> {
    let mut seen: BTreeMap<(&str, String), &str> = BTreeMap::new();
    for entry in entries {
        for name in [entry.kind.to_lowercase(), format!("{} (plural)", entry.plural)] {
            if let Some(other) = seen.insert((&entry.group, name.clone()), &entry.arm_type) {
                let rule = format!(
                    "{other} and {} are both {name} in {}: give one another name in further.tsv",
                    entry.arm_type, entry.group
                );
                return Err(Error::Type { path: data.join("kinds.tsv"), arm_type: entry.arm_type.clone(), rule });
            }
        }
    }
    Ok(())
}

/// The cells of a table's lines, with their numbers.
fn table(path: &Path, columns: usize) -> Result<Vec<(usize, Vec<String>)>, Error> {
    let text = std::fs::read_to_string(path).map_err(|source| Error::File {
        action: "read",
        path: path.to_owned(),
        source,
    })?;
    let row = |(line, cells): (usize, Vec<&str>)| {
        if cells.len() == columns {
            return Ok((line, cells.into_iter().map(str::to_owned).collect()));
        }
        let rule = format!("expected {columns} columns separated by tabs, found {}", cells.len());
        Err(Error::Line { path: path.to_owned(), line, rule })
    };
    crate::table::rows(&text).map(row).collect()
}
