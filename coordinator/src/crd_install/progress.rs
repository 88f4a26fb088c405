//! What people see of an installation: a line every few seconds, and a gauge.

use std::time::Duration;

use tokio::time::Instant;

use super::error::Error;
use super::news::News;
use super::outcome::Outcome;
use super::versions::Versions;
use crate::metrics::Metrics;

/// Progress is logged this often.
const LOG_EVERY: Duration = Duration::from_secs(3);

/// How far a pass has come.
pub(super) struct Progress<'a> {
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
    /// Failures that were logged before.
    news: &'a mut News,
    /// Whether something failed anew or works again.
    changed: bool,
    started: Instant,
    told: Instant,
    metrics: Metrics,
}

impl<'a> Progress<'a> {
    /// A pass over so many CRDs begins.
    pub(super) fn begin(of: usize, first: bool, news: &'a mut News, metrics: Metrics) -> Self {
        let now = Instant::now();
        if first {
            metrics.crds(0, of);
        }
        let [installed, written, failed, settled] = [0; 4];
        Self { of, installed, written, failed, settled, first, news, changed: false, started: now, told: now, metrics }
    }

    /// A policy's part of the pass is over.
    pub(super) fn policy(&mut self, name: &str, result: Result<Outcome, Error>) {
        if let Err(error) = self.count(result)
            && self.is_news(name, Some(&error))
        {
            tracing::error!(error = &error as &dyn std::error::Error, "Failed to install an admission policy");
        }
    }

    /// A CRD's part of the pass is over. Says whether it is installed.
    pub(super) fn crd(&mut self, name: &str, result: Result<Outcome, Error>) -> bool {
        let result = self.count(result);
        let is_news = self.is_news(name, result.as_ref().err());
        let installed = result.is_ok();
        self.installed += usize::from(installed);
        if let Err(error) = result
            && is_news
        {
            tracing::error!(crd = name, error = &error as &dyn std::error::Error, "Failed to install a CRD");
        }
        if self.first {
            self.metrics.crds(self.installed, self.of);
        }
        if self.told.elapsed() >= LOG_EVERY {
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
        if self.first || self.changed || written > 0 {
            let seconds = self.started.elapsed().as_secs_f32();
            if failed > 0 {
                tracing::warn!(installed, of, written, failed, %versions, seconds, "Failed to install some CRDs");
            } else {
                tracing::info!(installed, of, written, failed, %versions, seconds, "Installed CRDs");
            }
        }
        failed - settled
    }

    /// Whether the log should hear of it.
    fn is_news(&mut self, name: &str, error: Option<&Error>) -> bool {
        let is_news = match error {
            Some(error) => self.news.failed(name, error),
            None => self.news.succeeded(name),
        };
        self.changed |= is_news;
        is_news
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

    fn begin(first: bool, news: &mut News) -> Progress<'_> {
        Progress::begin(3, first, news, Metrics::new(&opentelemetry::global::meter("test")))
    }

    fn not_served() -> Error {
        Error::NotServed { name: "z".to_owned(), why: "no".to_owned() }
    }

    #[test]
    fn another_pass_is_for_what_it_may_install() {
        let mut news = News::default();
        let mut progress = begin(true, &mut news);
        assert!(!progress.crd("x", Err(unknown())));
        assert!(progress.crd("y", Ok(Outcome::Written)));
        assert!(!progress.crd("z", Err(not_served())));
        assert_eq!((progress.installed, progress.failed), (1, 2));
        assert_eq!(progress.end(Versions::All), 1);
    }

    #[test]
    fn failure_that_stays_is_told_once_by_a_leader() {
        let mut news = News::default();
        let mut first = begin(true, &mut news);
        assert!(first.is_news("x", Some(&unknown())) && first.changed);
        let mut second = begin(false, &mut news);
        assert!(!second.is_news("x", Some(&unknown())) && !second.changed);
        assert!(second.is_news("z", Some(&not_served())));
        assert!(second.is_news("x", None) && second.changed, "it works again");
    }
}
