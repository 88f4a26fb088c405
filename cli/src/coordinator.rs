//! `flotilla coordinator`.

use anyhow::{Context as _, Result};
use flotilla_coordinator::{Config, Coordinator, Versions};

use crate::args::{self, CrdManagement, CrdVersions};
use crate::{cluster, stop, telemetry, tls};

/// Runs until a signal asks it to stop.
pub(crate) async fn run(args: args::Coordinator) -> Result<()> {
    let telemetry = telemetry::init("flotilla-coordinator", &args.member)?;
    let process = stop::on_signal()?;
    let kube = cluster::infer("coordinator", &args.member).await?;
    let mut config = Config::new(kube, &args.member.namespace, &args.member.pod_name, args.listen);
    config.advertise = args.advertise_address;
    config.tls = tls::read(&args.member.tls)?;
    config.manage_crds = args.crd_management == CrdManagement::Auto;
    config.crd_pattern = args.crd_pattern;
    config.crd_versions = match args.crd_versions {
        CrdVersions::All => Versions::All,
        CrdVersions::Newest => Versions::Newest,
    };
    config.budget.time_scale = args.simulation.time_scale.factor();
    let coordinator = Coordinator::new(config);
    // A standby is ready too: it can take over at any time.
    telemetry.serve(&process, args.member.telemetry.metrics_addr.0, || true).await?;
    let ended = coordinator.run(process.stopping().clone()).await.context("coordinator ended");
    telemetry.flush().await;
    ended?;
    Ok(process.outcome()?)
}
