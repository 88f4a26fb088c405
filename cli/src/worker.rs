//! `flotilla worker`.

use anyhow::{Context as _, Result};
use flotilla_worker::Config;

use crate::args;
use crate::{cluster, stop, telemetry, tls};

/// Runs until a signal asks it to stop.
pub(crate) async fn run(args: args::Worker) -> Result<()> {
    let telemetry = telemetry::init("flotilla-worker", &args.member)?;
    let shutdown = stop::on_signal()?;
    let kube = cluster::infer("worker", &args.member).await?;
    let variable = |name: &str| std::env::var(name).ok();
    let mut config = Config::from_env(kube, &args.member.namespace, &args.member.pod_name, variable)?;
    config.tls = tls::read(&args.member.tls)?;
    let ready = config.ready.subscribe();
    telemetry.serve(args.member.metrics_addr.0, move || *ready.borrow()).await?;
    let ended = flotilla_worker::run(config, shutdown).await.context("worker ended");
    telemetry.flush().await;
    ended
}
