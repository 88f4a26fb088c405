//! Signals: the first one asks everybody to stop in order, the second one ends the wait.

use anyhow::{Context as _, Result};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// A token that is cancelled by SIGTERM or SIGINT. A second signal ends the process.
pub(crate) fn on_signal() -> Result<CancellationToken> {
    let mut terminate = signal(SignalKind::terminate()).context("failed to listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("failed to listen for SIGINT")?;
    let token = CancellationToken::new();
    let stopping = token.clone();
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            if stopping.is_cancelled() {
                tracing::warn!("Second signal: leaving without waiting");
                std::process::exit(130);
            }
            tracing::info!("Stopping");
            stopping.cancel();
        }
    });
    Ok(token)
}
