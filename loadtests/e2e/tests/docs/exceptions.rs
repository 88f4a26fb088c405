//! The commands that do not run here, each with its reason and with what is checked in their place.

use std::collections::BTreeMap;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::markdown::root;
use crate::shell::Shell;

/// A command that is not run as it stands.
pub(crate) struct Listed {
    pub(crate) command: &'static str,
    pub(crate) instead: Instead,
}

/// What is checked instead.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Instead {
    /// Nothing can be.
    Nothing,
    /// The program takes these arguments: the same with `--help`.
    Arguments,
    /// Cargo knows the packages and test programs that it names.
    Targets,
    /// The program refuses it with these words.
    Refused(&'static str),
    /// Its calls to a forwarded port, sent to the fleet's coordinator.
    Calls,
    /// The script exists and has no syntax error.
    Syntax,
}

/// Where the coordinator serves its metrics.
const METRICS: &str = "$FLOTILLA_METRICS_ADDR";

/// The program does not know the subcommand yet, so the documents call it planned.
const PLANNED: Instead = Instead::Refused("unrecognized subcommand");

const LOG_LEVEL: &str = "\
kubectl -n flotilla-system port-forward pod/<pod> 8080
curl -X PUT --data info,flotilla_worker=debug localhost:8080/log-level
curl -X PUT --data info localhost:8080/log-level";

const fn listed(command: &'static str, instead: Instead) -> Listed {
    Listed { command, instead }
}

/// Recipes of make are not here: the `make` of these tests prints what it would do, which expands the recipe.
pub(crate) const LISTED: &[Listed] = &[
    // Fetches a database from GitHub.
    listed("cargo deny check advisories", Instead::Nothing),
    // Needs a subscription of Azure.
    listed("az ad sp create-for-rbac --role Contributor --scopes /subscriptions/…", Instead::Nothing),
    // Needs a database that is on GitHub only.
    // Needs a pod, and so a kubelet.
    listed(LOG_LEVEL, Instead::Calls),
    // Runs until it is stopped; the fleet of these tests runs with other settings.
    listed("flotilla coordinator --crd-versions newest", Instead::Arguments),
    // Takes minutes, and measures a release build.
    listed("target/release/bench --only decide", Instead::Arguments),
    listed("cargo run --release -p flotilla-armsim --bin armsim -- --self-load", Instead::Arguments),
    // Needs Azure's published type data, which is not in the tree.
    listed("target/debug/catalog TYPES --check", Instead::Refused("failed to find type data in TYPES")),
    // Tests that compile and run tests would wait for one another, and are run by `make test` anyway.
    listed("cargo test -p flotilla-worker", Instead::Targets),
    listed("cargo test -p flotilla-crds -p flotilla", Instead::Targets),
    listed("FLOTILLA_TEST_SEEDS=1000 cargo test -p flotilla-crds --test properties", Instead::Targets),
    listed("FLOTILLA_TEST_SEEDS=8 cargo test -p flotilla-e2e --test crds across", Instead::Targets),
    // Fetches and compiles what these tests need themselves.
    listed("scripts/setup", Instead::Syntax),
    // Planned.
    listed("flotilla dev", PLANNED),
    listed("flotilla status", PLANNED),
    listed("flotilla explain", PLANNED),
    listed("flotilla explain KIND/NAME", PLANNED),
    listed("flotilla import", PLANNED),
    listed("flotilla adopt-from-aso", PLANNED),
];

impl Instead {
    pub(crate) async fn check(self, command: &str, shell: &mut Shell) -> Result<()> {
        match self {
            Self::Nothing => Ok(()),
            Self::Arguments => {
                let command = command.replace("target/release/", "target/debug/");
                shell.run_apart(&command, &format!("{command} --help")).await.map(drop)
            }
            Self::Targets => targets_exist(command),
            Self::Refused(words) => {
                let output = shell.run_apart(command, &format!("! {command}")).await?;
                ensure!(output.contains(words), "`{command}` is not refused with `{words}` but prints\n{output}");
                Ok(())
            }
            Self::Calls => {
                let calls = command.lines().filter(|line| line.starts_with("curl "));
                let calls: Vec<String> = calls.map(|call| call.replace("localhost:8080", METRICS)).collect();
                let script = format!("curl() {{ command curl --fail-with-body \"$@\"; }}\n{}", calls.join("\n"));
                shell.run_apart(command, &script).await.map(drop)
            }
            Self::Syntax => {
                shell.run_apart(command, &format!("test -x {command} && bash -n {command}")).await.map(drop)
            }
        }
    }
}

/// Whether each `-p` is a package of ours and each `--test` a test program of one of them.
fn targets_exist(command: &str) -> Result<()> {
    let known = packages()?;
    let words: Vec<&str> = command.split_whitespace().collect();
    let named = |flag| words.windows(2).filter(move |pair| pair[0] == flag).map(|pair| pair[1]);
    for package in named("-p") {
        ensure!(known.contains_key(package), "`{command}`: there is no package {package}");
    }
    for test in named("--test") {
        let has = named("-p").any(|package| known[package].iter().any(|target| target == test));
        ensure!(has, "`{command}`: there is no test {test}");
    }
    Ok(())
}

/// The names of test programs by package.
fn packages() -> Result<BTreeMap<String, Vec<String>>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let arguments = ["metadata", "--offline", "--no-deps", "--format-version=1"];
    let output = Command::new(cargo).args(arguments).current_dir(root()).output().context("failed to start cargo")?;
    ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let name = |value: &Value| value["name"].as_str().unwrap_or_default().to_owned();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let tests = |package: &Value| {
        list(&package["targets"]).iter().filter(|target| target["kind"][0] == "test").map(name).collect()
    };
    Ok(list(&metadata["packages"]).iter().map(|package| (name(package), tests(package))).collect())
}
