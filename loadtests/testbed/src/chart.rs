//! The Helm chart, rendered by a real Helm.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{fs, io};

use anyhow::{Context as _, Result, ensure};
use flotilla_crds::Catalog;
use regex::Regex;

use crate::tools;

/// What is rendered and committed: the file, and what is given to Helm beside the chart's own values.
pub const RENDERED: [(&str, &[&str]); 2] = [("default.yaml", &[]), ("ha.yaml", &["--values=values-ha.yaml"])];

/// Release and namespace of what is rendered.
const RELEASE: &str = "flotilla";
/// The namespace that people install it in.
pub const NAMESPACE: &str = "flotilla-system";
/// The list of API groups that the members' rights are written for.
const GROUPS: &str = "files/api-groups.txt";

/// The chart in this tree.
pub fn path() -> PathBuf {
    deploy().join("helm/flotilla")
}

/// Where rendered output is committed.
pub fn rendered() -> PathBuf {
    deploy().join("rendered")
}

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy")
}

/// What an installation would apply, with these further arguments of `helm template`.
pub fn template(args: &[&str]) -> Result<String> {
    let output = helm(&["template", RELEASE, ".", "--namespace", NAMESPACE], args)?;
    Ok(String::from_utf8(output.stdout)?)
}

/// The same with certificates left out: they are new each time, and keys have no place in a repository.
pub fn template_without_keys(args: &[&str]) -> Result<String> {
    let keys = Regex::new(r"(?m)^(  (?:ca\.crt|tls\.crt|tls\.key)): \S+$")?;
    Ok(keys.replace_all(&template(args)?, "$1: bWFkZSBhdCBpbnN0YWxsYXRpb24=").into_owned())
}

/// What Helm's linter says against the chart; an error if it fails.
pub fn lint(args: &[&str]) -> Result<String> {
    let output = helm(&["lint", "--strict", "."], args)?;
    Ok(String::from_utf8(output.stdout)?)
}

fn helm(command: &[&str], args: &[&str]) -> Result<Output> {
    let mut helm = Command::new(tools::find("helm")?);
    let output = helm.args(command).args(args).current_dir(path()).output().context("failed to start helm")?;
    ensure!(output.status.success(), "helm {}: {}", command[0], String::from_utf8_lossy(&output.stderr).trim());
    Ok(output)
}

/// The API groups of all kinds, one a line.
pub fn api_groups() -> String {
    let mut groups: Vec<&str> = Catalog::embedded().kinds().map(|kind| kind.group.as_str()).collect();
    groups.sort_unstable();
    groups.dedup();
    groups.join("\n") + "\n"
}

/// Remakes everything in `deploy/` that is made by a program: the list of API groups, then what is rendered with it.
pub fn generate() -> Result<()> {
    write(&path().join(GROUPS), &api_groups())?;
    for (file, args) in RENDERED {
        write(&rendered().join(file), &template_without_keys(args)?)?;
    }
    Ok(())
}

/// The list of API groups as it is committed.
pub fn committed_groups() -> io::Result<String> {
    fs::read_to_string(path().join(GROUPS))
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
    fs::write(path, text).with_context(|| format!("failed to write {}", path.display()))
}
