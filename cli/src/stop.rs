//! Signals: the first one asks the process to stop in order, the second one ends the wait.

use anyhow::{Context as _, Result};
use flotilla_proto::task::{Kind, Process};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// A process that SIGTERM or SIGINT asks to stop. A second signal ends it at once.
pub(crate) fn on_signal() -> Result<Process> {
    let terminate = signal(SignalKind::terminate()).context("failed to listen for SIGTERM")?;
    let interrupt = signal(SignalKind::interrupt()).context("failed to listen for SIGINT")?;
    let token = CancellationToken::new();
    let process = Process::new(&token);
    process.start(Kind::SignalListener, |_| listen(terminate, interrupt, token)).detach();
    Ok(process)
}

async fn listen(mut terminate: Signal, mut interrupt: Signal, token: CancellationToken) {
    loop {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        if token.is_cancelled() {
            tracing::warn!("Second signal: exiting without waiting");
            std::process::exit(130);
        }
        tracing::info!("Stopping");
        token.cancel();
    }
}
