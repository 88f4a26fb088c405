//! Where and of what the figures were taken.

use std::fmt;
use std::fs;
use std::process::Command;

use serde::Serialize;

/// The machine and the commit.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Machine {
    /// Short hash, with `-changed` if the tree differs from it; `unknown` outside of a clone.
    commit: String,
    time: jiff::Timestamp,
    cores: usize,
    processor: String,
    memory_gib: u64,
    kernel: String,
}

impl Machine {
    /// This one, now.
    pub(super) fn here() -> Self {
        let file = |path| fs::read_to_string(path).unwrap_or_default();
        let kibibytes = field(&file("/proc/meminfo"), "MemTotal").and_then(|text| text.split(' ').next()?.parse().ok());
        Self {
            commit: commit(),
            time: jiff::Timestamp::now(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            processor: field(&file("/proc/cpuinfo"), "model name").unwrap_or_default(),
            memory_gib: kibibytes.unwrap_or(0_u64).div_ceil(1024 * 1024),
            kernel: file("/proc/sys/kernel/osrelease").trim().to_owned(),
        }
    }

    pub(super) fn commit(&self) -> &str {
        &self.commit
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { commit, time, cores, processor, memory_gib, kernel } = self;
        write!(
            f,
            "Commit {commit}, {}: {cores} cores ({processor}), {memory_gib} GiB, Linux {kernel}.",
            time.strftime("%Y-%m-%d")
        )
    }
}

fn commit() -> String {
    let Some(hash) = git(&["rev-parse", "--short", "HEAD"]) else { return "unknown".to_owned() };
    let changed = git(&["status", "--porcelain", "--untracked-files=no"]).is_some_and(|list| !list.is_empty());
    if changed { format!("{hash}-changed") } else { hash }
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The value in a line such as `model name : x`.
fn field(text: &str, name: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}
