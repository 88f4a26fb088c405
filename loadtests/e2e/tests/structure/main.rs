//! The shape of the code: crates depend on each other in one direction, and so do the modules beside each other.
//!
//! A module and the modules inside of it are one thing, so only circles between siblings count: each stands for
//! everything below it. Code for tests does not count.

mod circles;
mod modules;
mod uses;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use self::circles::Graph;

/// Circles that stay: the folder of the crate, the modules, and why.
const ACCEPTED: &[(&str, &str, &str)] = &[];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Everything cargo says about the packages of the workspace.
fn packages() -> Result<Vec<Value>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let arguments = ["metadata", "--offline", "--no-deps", "--format-version=1"];
    let output = Command::new(cargo).args(arguments).current_dir(root()).output().context("failed to start cargo")?;
    ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    Ok(metadata["packages"].as_array().cloned().unwrap_or_default())
}

/// Cargo sees to it for what is built; tests could still depend on what depends on them.
#[test]
fn crates_depend_in_one_direction() -> Result<()> {
    let packages = packages()?;
    let name = |value: &Value| value["name"].as_str().unwrap_or_default().to_owned();
    let ours: BTreeSet<String> = packages.iter().map(name).collect();
    let mut graph = Graph::new();
    for package in &packages {
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            if ours.contains(&name(dependency)) {
                graph
                    .entry(name(package))
                    .or_default()
                    .entry(name(dependency))
                    .or_default()
                    .insert("Cargo.toml".into());
            }
        }
    }
    let circles = circles::find(&graph);
    ensure!(circles.is_empty(), "crates depend on each other in circles: {circles:?}");
    Ok(())
}

#[test]
fn modules_depend_in_one_direction() -> Result<()> {
    let mut found: BTreeMap<(String, String), String> = BTreeMap::new();
    for package in packages()? {
        let manifest = PathBuf::from(package["manifest_path"].as_str().unwrap_or_default());
        let folder = manifest.parent().context("a manifest is in a folder")?;
        let place = folder.strip_prefix(std::fs::canonicalize(root())?)?.display().to_string();
        for graph in modules::siblings(&folder.join("src"))? {
            for circle in circles::find(&graph) {
                found.insert((place.clone(), circle.join(" ")), circles::explain(&graph, &circle));
            }
        }
    }
    let accepted = |(place, circle): &(String, String)| ACCEPTED.iter().any(|(a, b, _)| a == place && b == circle);
    let new: Vec<String> = found
        .iter()
        .filter(|(key, _)| !accepted(key))
        .map(|((place, circle), uses)| format!("{place}: {circle}\n{uses}"))
        .collect();
    ensure!(new.is_empty(), "{} circles between modules; untie them:\n\n{}", new.len(), new.join("\n"));
    for (place, circle, _) in ACCEPTED {
        let still = found.contains_key(&((*place).to_owned(), (*circle).to_owned()));
        ensure!(still, "{place}: {circle}: this circle is gone; take it off the list");
    }
    Ok(())
}
