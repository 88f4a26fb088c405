//! The modules of a crate, and who among siblings uses whom.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::circles::Graph;
use crate::uses::{self, ModulePath, Uses};

/// A name that is exported again and again ends somewhere; this is for those that lead back to themselves.
const EXPORTS: usize = 8;

type Modules = BTreeMap<ModulePath, Uses>;

/// One graph for each module that has others inside of it, over these.
pub(crate) fn siblings(src: &Path) -> Result<Vec<Graph>> {
    let mut texts = BTreeMap::new();
    read(src, &mut Vec::new(), &mut texts)?;
    let mut modules = Modules::new();
    for (at, text) in &texts {
        let inside = |path: &&ModulePath| path.len() == at.len() + 1 && path.starts_with(at);
        let children: Vec<String> = texts.keys().filter(inside).filter_map(|path| path.last().cloned()).collect();
        modules.insert(at.clone(), uses::read(text, at, &children));
    }
    let excluded: Vec<ModulePath> = modules
        .iter()
        .flat_map(|(at, uses)| uses.tests.iter().map(|name| at.iter().chain([name]).cloned().collect()))
        .collect();
    modules.retain(|at, _| !excluded.iter().any(|test| at.starts_with(test)));

    let mut graphs: BTreeMap<ModulePath, Graph> = BTreeMap::new();
    for (at, uses) in &modules {
        for path in &uses.paths {
            let target = resolve(&modules, path);
            let common = at.iter().zip(&target).take_while(|(a, b)| a == b).count();
            let (Some(from), Some(to)) = (at.get(common), target.get(common)) else { continue };
            let graph = graphs.entry(at[..common].to_vec()).or_default();
            let prefix = |name: &String| at[..common].iter().chain([name]).cloned().collect::<Vec<_>>().join("::");
            let place = format!("{} ({})", at.join("::"), path.join("::"));
            graph.entry(prefix(from)).or_default().entry(prefix(to)).or_default().insert(place);
        }
    }
    Ok(graphs.into_values().collect())
}

/// The module that a path leads to, through what others export again.
fn resolve(modules: &Modules, path: &[String]) -> ModulePath {
    let mut path = path.to_vec();
    for _ in 0..EXPORTS {
        let length = (0..=path.len()).rev().find(|length| modules.contains_key(&path[..*length])).unwrap_or_default();
        let exported = path.get(length).and_then(|name| modules.get(&path[..length])?.names.get(name));
        match exported.filter(|target| !target.starts_with(&path[..=length])) {
            Some(target) => path = target.iter().chain(&path[length + 1..]).cloned().collect(),
            None => return path[..length].to_vec(),
        }
    }
    path
}

/// The texts of all files below a folder, by module. `lib.rs` and `main.rs` are the root.
fn read(folder: &Path, at: &mut ModulePath, texts: &mut BTreeMap<ModulePath, String>) -> Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("failed to read {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        if path.is_dir() && (name != "bin" || !at.is_empty()) {
            at.push(name);
            read(&path, at, texts)?;
            at.pop();
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let own = at.is_empty() && (name == "lib" || name == "main");
            let module = at.iter().cloned().chain((!own).then_some(name)).collect();
            texts.entry(module).or_default().push_str(&fs::read_to_string(&path)?);
        }
    }
    Ok(())
}
