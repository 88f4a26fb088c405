//! One process of the fleet.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use super::Settings;
use crate::port;
use crate::process::Process;

/// What a member does; also the program's subcommand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Elects itself, or stands by.
    Coordinator,
    /// Reconciles.
    Worker,
}

impl Role {
    fn subcommand(self) -> &'static str {
        match self {
            Self::Coordinator => "coordinator",
            Self::Worker => "worker",
        }
    }
}

/// A started member.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) role: Role,
    pub(super) process: Process,
    pub(super) metrics: SocketAddr,
}

impl Member {
    pub(super) fn spawn(role: Role, name: &str, settings: &Settings) -> Result<Self> {
        let program = settings.program.clone().map_or_else(program, Ok)?;
        let [metrics, grpc] = port::free()?.map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        let mut command = Command::new(program);
        command
            .arg(role.subcommand())
            .args(["--namespace", &settings.namespace, "--pod-name", name])
            .args(["--metrics-addr", &metrics.to_string(), "--log-level", &settings.log_level])
            .env("KUBECONFIG", &settings.kubeconfig)
            .env("AZURE_SYNC_PERIOD", format!("{}ms", settings.sync_period.as_millis()))
            .envs(settings.environment.iter().map(|(name, value)| (name, value)));
        if role == Role::Coordinator {
            let address = grpc.to_string();
            command
                .args(["--listen", &address, "--advertise-address", &address])
                .args(["--crd-pattern", &settings.crd_pattern]);
        }
        let process = Process::spawn(name, command, &settings.log_path(name))?;
        Ok(Self { role, process, metrics })
    }
}

/// The `flotilla` program of the same build: beside this program, or above it for a test in `deps/`.
pub fn program() -> Result<PathBuf> {
    let here = std::env::current_exe().context("failed to find this program's own path")?;
    let beside = here.parent().and_then(|dir| if dir.ends_with("deps") { dir.parent() } else { Some(dir) });
    let program = beside.unwrap_or(Path::new(".")).join("flotilla");
    ensure!(program.exists(), "{} is missing: run `cargo build -p flotilla` (`make build`)", program.display());
    Ok(program)
}
