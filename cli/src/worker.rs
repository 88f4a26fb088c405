//! `flotilla worker`.

use anyhow::{Context as _, Result};
use flotilla_worker::Config;

use crate::args;
use crate::{cluster, stop, telemetry, tls};

/// Runs until a signal asks it to stop.
pub(crate) async fn run(args: args::Worker) -> Result<()> {
    let telemetry = telemetry::init("flotilla-worker", &args.member)?;
    let process = stop::on_signal()?;
    let kube = cluster::infer("worker", &args.member).await?;
    let config = config(&args, kube)?;
    let ready = config.ready.subscribe();
    telemetry.serve(&process, args.member.telemetry.metrics_addr.0, move || *ready.borrow()).await?;
    let ended = flotilla_worker::run(config, process.stopping().clone()).await.context("worker ended");
    telemetry.flush().await;
    ended?;
    Ok(process.outcome()?)
}

fn config(args: &args::Worker, kube: kube::Config) -> Result<Config> {
    let member = &args.member;
    let credentials = args.credential.settings(args.azure.cloud()?)?;
    let arm = args.azure.client(&member.pod_name);
    let mut config = Config::new(kube, &member.namespace, &member.pod_name, arm, credentials);
    config.engine.policy = args.reconcile.policy;
    config.engine.resync = args.reconcile.period.0;
    config.engine.namespaces = args.reconcile.namespaces();
    config.tls = tls::read(&member.tls)?;
    Ok(config)
}
