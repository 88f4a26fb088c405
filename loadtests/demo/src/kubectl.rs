//! The user's own tool.

use std::ffi::OsStr;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

/// Calls kubectl against the demo's API server.
#[derive(Debug)]
pub(super) struct Kubectl {
    program: PathBuf,
    kubeconfig: PathBuf,
    cache: PathBuf,
}

impl Kubectl {
    pub(super) fn new(kubeconfig: PathBuf, directory: &Path) -> Self {
        let program = std::env::var_os("KUBECTL").map_or_else(|| PathBuf::from("kubectl"), PathBuf::from);
        Self { program, kubeconfig, cache: directory.join("kubectl-cache") }
    }

    pub(super) fn apply(&self, yaml: &str) -> Result<()> {
        self.run(["apply", "--filename", "-"], yaml)
    }

    pub(super) fn delete(&self, yaml: &str) -> Result<()> {
        self.run(["delete", "--wait=false", "--filename", "-"], yaml)
    }

    /// What to type to call it by hand.
    pub(super) fn command(&self) -> String {
        format!("{} --kubeconfig {}", self.program.display(), self.kubeconfig.display())
    }

    fn run<I: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = I>, input: &str) -> Result<()> {
        let mut child = Command::new(&self.program)
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .arg("--cache-dir")
            .arg(&self.cache)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("failed to start {}; `make setup` installs kubectl", self.program.display()))?;
        // kubectl reads everything before it writes anything, so neither pipe can fill up and block the other.
        child.stdin.take().context("kubectl has no standard input")?.write_all(input.as_bytes())?;
        let output = child.wait_with_output()?;
        if !output.status.success() {
            bail!("kubectl: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(())
    }
}
