//! The ARM simulator as a program.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Parser;
use flotilla_armsim::load::{self, Load};
use flotilla_armsim::{Armsim, DEMO_CLIENT_ID, DEMO_SUBSCRIPTION, DEMO_TENANT, Options};
use serde_json::json;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Simulates Azure Resource Manager and its token endpoint. Prints one line of JSON that says where everything is, and runs
/// until it is interrupted.
#[derive(Parser)]
struct Arguments {
    /// Where ARM and Entra listen, over HTTPS.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Where the admin API listens, over plain HTTP.
    #[arg(long, default_value = "127.0.0.1:0")]
    admin: SocketAddr,
    /// Where to write the certificate that clients have to trust [default: a temporary directory].
    #[arg(long)]
    ca_file: Option<PathBuf>,
    /// How many simulated seconds pass in a real one.
    #[arg(long, default_value_t = 1.0)]
    time_scale: f64,
    /// What random values are made from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Do not throttle.
    #[arg(long)]
    no_buckets: bool,
    /// Measure how many calls one core answers, print the figures as JSON, and end.
    #[arg(long)]
    self_load: bool,
    /// With --self-load: resources that exist at the start.
    #[arg(long, default_value_t = 10_000)]
    resources: usize,
    /// With --self-load: clients that call at once.
    #[arg(long, default_value_t = 16)]
    clients: usize,
    /// With --self-load: how many seconds they call.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    if arguments.self_load {
        let load = Load {
            resources: arguments.resources,
            clients: arguments.clients,
            time: Duration::from_secs(arguments.seconds),
        };
        return say(&json!(load::run(load).await?));
    }
    let defaults = Options::default();
    let armsim = Armsim::start(Options {
        listen: arguments.listen,
        admin: arguments.admin,
        ca_file: arguments.ca_file,
        time_scale: arguments.time_scale,
        seed: arguments.seed,
        rates: defaults.rates.filter(|_| !arguments.no_buckets),
        ..defaults
    })
    .await?;
    say(&json!({
        "endpoint": armsim.endpoint(),
        "admin": armsim.admin_url(),
        "caFile": armsim.ca_pem_path(),
        "tenant": DEMO_TENANT,
        "clientId": DEMO_CLIENT_ID,
        "subscription": DEMO_SUBSCRIPTION,
        "timeScale": arguments.time_scale,
    }))?;
    interrupted().await?;
    armsim.stop().await;
    Ok(())
}

fn say(line: &serde_json::Value) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).context("failed to print")
}

/// Ctrl-C, or the signal that ends a process.
async fn interrupted() -> Result<()> {
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    tokio::select! {
        _ = terminate.recv() => Ok(()),
        interrupt = tokio::signal::ctrl_c() => interrupt.context("failed to listen for signals"),
    }
}
