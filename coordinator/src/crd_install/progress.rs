//! What people see of an installation: a line every few seconds, and a gauge.

use std::time::Duration;

use tokio::time::Instant;

use super::versions::Versions;
use super::{Error, Outcome};
use crate::metrics::Metrics;

/// Progress is told so often.
const TELL_EVERY: Duration = Duration::from_secs(3);

/// How far a pass has come.
pub(super) struct Progress {
    of: usize,
    /// CRDs that are as they should be.
    installed: usize,
    /// Written objects, policies too.
    written: usize,
    failed: usize,
    /// Whether nobody has been told of this leader's CRDs yet.
    first: bool,
    started: Instant,
    told: Instant,
    metrics: Metrics,
}

impl Progress {
    /// A pass over so many CRDs begins.
    pub(super) fn begin(of: usize, first: bool, metrics: Metrics) -> Self {
        let now = Instant::now();
        if first {
            metrics.crds(0, of);
        }
        Self { of, installed: 0, written: 0, failed: 0, first, started: now, told: now, metrics }
    }

    /// A policy is done with.
    pub(super) fn policy(&mut self, result: Result<Outcome, Error>) {
        if let Err(error) = self.count(result) {
            tracing::error!(error = &error as &dyn std::error::Error, "Did not install an admission policy");
        }
    }

    /// A CRD is done with. Says whether it is installed.
    pub(super) fn crd(&mut self, name: &str, result: Result<Outcome, Error>) -> bool {
        let installed = match self.count(result) {
            Ok(()) => {
                self.installed += 1;
                true
            }
            Err(error) => {
                tracing::error!(crd = name, error = &error as &dyn std::error::Error, "Did not install a CRD");
                false
            }
        };
        if self.first {
            self.metrics.crds(self.installed, self.of);
        }
        if self.told.elapsed() >= TELL_EVERY {
            self.told = Instant::now();
            let Self { installed, of, written, failed, .. } = *self;
            tracing::info!(installed, of, written, failed, "Installing CRDs");
        }
        installed
    }

    /// The pass is over. Returns how many failed.
    pub(super) fn end(self, versions: Versions) -> usize {
        let Self { installed, of, written, failed, .. } = self;
        self.metrics.crds(installed, of);
        if self.first || written + failed > 0 {
            let seconds = self.started.elapsed().as_secs_f32();
            tracing::info!(installed, of, written, failed, %versions, seconds, "Installed CRDs");
        }
        failed
    }

    fn count(&mut self, result: Result<Outcome, Error>) -> Result<(), Error> {
        let word = match &result {
            Ok(Outcome::Unchanged) => "unchanged",
            Ok(Outcome::Written) => "written",
            Err(_) => "failed",
        };
        self.metrics.crd_write(word);
        self.written += usize::from(matches!(result, Ok(Outcome::Written)));
        self.failed += usize::from(result.is_err());
        result.map(drop)
    }
}
