//! Runs the local control plane in the foreground for people: prints how to reach it and stops it on Ctrl-C.
#![expect(clippy::print_stdout, reason = "what it prints is for the person at the terminal")]

use std::time::Instant;

use anyhow::Context;
use clap::Parser;
use flotilla_testbed::control_plane::{ControlPlane, Options};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Starts etcd and kube-apiserver on free loopback ports and stops them on Ctrl-C.
#[derive(Parser)]
struct Arguments {
    /// A feature gate to turn on in the API server, such as `ShardedListAndWatch`; may be repeated.
    #[arg(long = "feature-gate", value_name = "NAME")]
    feature_gates: Vec<String>,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    tracing_subscriber::fmt().with_env_filter(tracing_subscriber::EnvFilter::from_default_env()).init();
    let mut stop = Stop::listen()?;
    let options = arguments.feature_gates.iter().fold(Options::default(), |options, gate| options.with_feature(gate));

    println!("Starting etcd and kube-apiserver ...");
    let started = Instant::now();
    let control_plane = tokio::select! {
        control_plane = ControlPlane::start(options) => control_plane?,
        // The servers that were started are killed with the future that held them.
        () = stop.asked() => return Ok(()),
    };
    let version = control_plane.client().apiserver_version().await.context("failed to ask for the version")?;
    println!(
        "Kubernetes {} is ready at {} after {:.1} s.

  export KUBECONFIG={}
  kubectl get namespaces

Its audit log and the servers' logs are in {}.
Press Ctrl-C to stop it; everything in it is then gone.",
        version.git_version,
        control_plane.url(),
        started.elapsed().as_secs_f64(),
        control_plane.kubeconfig_path().display(),
        control_plane.directory().display(),
    );

    stop.asked().await;
    println!("Stopping; once more to kill it.");
    tokio::select! {
        stopped = control_plane.stop() => stopped?,
        () = stop.asked() => {}
    }
    Ok(())
}

/// Ctrl-C, or the signal that a supervisor sends.
struct Stop {
    interrupt: Signal,
    terminate: Signal,
}

impl Stop {
    fn listen() -> anyhow::Result<Self> {
        let listen = |kind| signal(kind).context("failed to listen for signals");
        Ok(Self { interrupt: listen(SignalKind::interrupt())?, terminate: listen(SignalKind::terminate())? })
    }

    async fn asked(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
