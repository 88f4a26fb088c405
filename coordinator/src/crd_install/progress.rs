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
    /// Of those that failed, the ones that fail again as long as the pattern and the catalog are what they are.
    settled: usize,
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
        Self { of, installed: 0, written: 0, failed: 0, settled: 0, first, started: now, told: now, metrics }
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
                if self.is_news(&error) {
                    tracing::error!(crd = name, error = &error as &dyn std::error::Error, "Did not install a CRD");
                }
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

    /// The pass is over. Returns how many failed that another pass may install.
    pub(super) fn end(self, versions: Versions) -> usize {
        let Self { installed, of, written, failed, settled, .. } = self;
        self.metrics.crds(installed, of);
        if self.first || written + failed > settled {
            let seconds = self.started.elapsed().as_secs_f32();
            if failed > 0 {
                tracing::warn!(installed, of, written, failed, %versions, seconds, "Did not install all CRDs");
            } else {
                tracing::info!(installed, of, written, failed, %versions, seconds, "Installed CRDs");
            }
        }
        failed - settled
    }

    /// What fails again with the same pattern and catalog was told in the first pass of this leader.
    fn is_news(&self, error: &Error) -> bool {
        self.first || error.may_pass()
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
        self.settled += usize::from(result.as_ref().is_err_and(|error| !error.may_pass()));
        result.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use flotilla_crds::UnknownVersion;

    use super::*;

    fn unknown() -> Error {
        let (arm_type, wanted, newest) = ("a/b".to_owned(), "1999-01-01".to_owned(), "2025-01-01".to_owned());
        Error::UnknownVersion { name: "x".to_owned(), source: UnknownVersion { arm_type, wanted, newest } }
    }

    fn begin(first: bool) -> Progress {
        Progress::begin(3, first, Metrics::new(&opentelemetry::global::meter("test")))
    }

    #[test]
    fn another_pass_is_for_what_it_may_install() {
        let mut progress = begin(true);
        assert!(!progress.crd("x", Err(unknown())));
        assert!(progress.crd("y", Ok(Outcome::Written)));
        assert!(!progress.crd("z", Err(Error::NotServed { name: "z".to_owned(), why: "no".to_owned() })));
        assert_eq!((progress.installed, progress.failed), (1, 2));
        assert_eq!(progress.end(Versions::All), 1);
    }

    #[test]
    fn failure_that_stays_is_told_once_by_a_leader() {
        assert!(begin(true).is_news(&unknown()) && !begin(false).is_news(&unknown()));
        assert!(begin(false).is_news(&Error::NotServed { name: "z".to_owned(), why: "no".to_owned() }));
    }
}
