//! The one binary: `flotilla coordinator`, `flotilla worker`, and the tools.

mod args;
mod cluster;
mod coordinator;
#[cfg(test)]
mod page;
mod stop;
mod telemetry;
mod tls;
mod worker;

use std::process::ExitCode;

use anyhow::{Result, anyhow};

use crate::args::Command;

/// Many small objects, many threads: mimalloc gives memory back sooner than the system's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> Result<ExitCode> {
    rustls::crypto::aws_lc_rs::default_provider()
        .install_default()
        .map_err(|_| anyhow!("another TLS provider was installed first"))?;
    match args::parse().command {
        Command::Coordinator(args) => coordinator::run(args).await?,
        Command::Worker(args) => worker::run(args).await?,
        Command::Plan(args) => return Ok(reported(flotilla::plan::run(args).await)),
        Command::Crds(args) => return Ok(reported(flotilla::crds::run(args).await)),
    }
    Ok(ExitCode::SUCCESS)
}

/// A tool's errors are for people: the chain of causes, and no backtrace.
fn reported(result: Result<ExitCode>) -> ExitCode {
    result.unwrap_or_else(|error| flotilla::fail(&error))
}
