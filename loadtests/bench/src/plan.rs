//! What `flotilla plan` takes for many manifests, start and end of the program included.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::report::Figure;
use flotilla_testbed::fleet::program;

/// Manifests of our own, where the recorded cases are missing.
const OWN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../demo/manifests");

/// Plans all manifests in one process, so many times.
pub(super) fn measure(runs: usize, say: &impl Fn(&str)) -> Result<[Figure; 1]> {
    let cases = cases()?;
    let (files, what, target) = if cases.is_empty() {
        say("NO RECORDED CASES: planning the demo's manifests; set FLOTILLA_SHARED to the folder that has parity/");
        (manifests(Path::new(OWN))?, "the demo's manifests".to_owned(), None)
    } else {
        let what = format!("{} recorded cases", cases.len());
        (cases, what, Some(1.0))
    };
    let program = program()?;
    let mut seconds = Vec::new();
    for _ in 0..runs.max(1) {
        let mut command = Command::new(&program);
        command.args(["plan", "-o", "json"]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        for file in &files {
            command.arg("-f").arg(file);
        }
        let started = Instant::now();
        let output = command.output().context("failed to start flotilla plan")?;
        seconds.push(started.elapsed().as_secs_f64());
        // Some of the recorded cases must be refused.
        let planned = matches!(output.status.code(), Some(0 | 1));
        ensure!(planned, "flotilla plan: {}", String::from_utf8_lossy(&output.stderr));
        let requests: Vec<Value> = serde_json::from_slice(&output.stdout).context("the plan is not a list")?;
        ensure!(requests.len() >= files.len(), "only {} requests", requests.len());
    }
    let figure = Figure::new(format!("`flotilla plan` of {what} in one process"), "s", seconds);
    Ok([match target {
        Some(most) => figure.at_most(most),
        None => figure,
    }])
}

/// The manifest of every recorded case, from `FLOTILLA_SHARED` or beside the repository.
fn cases() -> Result<Vec<PathBuf>> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let folder = std::env::var_os("FLOTILLA_SHARED").map_or(beside, PathBuf::from).join("parity/conformance/cases");
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let manifests = entries(&folder)?.into_iter().map(|case| case.join("manifest.yaml"));
    Ok(manifests.filter(|path| path.is_file()).collect())
}

fn manifests(folder: &Path) -> Result<Vec<PathBuf>> {
    Ok(entries(folder)?.into_iter().filter(|path| path.extension().is_some_and(|e| e == "yaml")).collect())
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let list = || std::fs::read_dir(folder)?.map(|entry| entry.map(|e| e.path())).collect::<std::io::Result<Vec<_>>>();
    let mut paths = list().with_context(|| format!("failed to list {}", folder.display()))?;
    paths.sort();
    Ok(paths)
}
