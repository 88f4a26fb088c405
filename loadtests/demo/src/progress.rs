//! Live progress over many objects.

use std::time::Duration;

use anyhow::{Result, bail};
use futures::future::try_join_all;
use indicatif::{ProgressBar, ProgressStyle};
use kube::api::DynamicObject;
use tokio::time::{Instant, sleep};

use super::stage::say;
use flotilla_testbed::cluster::{Cluster, Named, Ready};

const POLL: Duration = Duration::from_millis(300);

/// A bar, or without a terminal a line now and then.
#[derive(Debug)]
pub(super) struct Progress {
    bar: ProgressBar,
}

/// Counts objects that are Ready.
pub(super) fn creations(total: usize) -> Progress {
    Progress::new(total, "Ready")
}

/// Counts objects that are gone.
pub(super) fn deletions(total: usize) -> Progress {
    Progress::new(total, "gone")
}

pub(super) fn is_ready(object: Option<&DynamicObject>) -> bool {
    object.is_some_and(|object| Ready::of(object).is_some_and(|ready| ready.is_current(object)))
}

pub(super) fn is_gone(object: Option<&DynamicObject>) -> bool {
    object.is_none()
}

impl Progress {
    fn new(total: usize, what: &str) -> Self {
        let bar = ProgressBar::new(total as u64);
        let style = ProgressStyle::with_template("  {elapsed:>4} [{bar:40}] {pos}/{len} {prefix}  {msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style.progress_chars("=> "));
        bar.set_prefix(what.to_owned());
        Self { bar }
    }

    /// A line above the bar.
    pub(super) fn note(&self, text: &str) {
        self.bar.suspend(|| say(text));
    }

    /// Shows progress until `found` has something to say.
    pub(super) async fn until<T>(
        &self,
        cluster: &Cluster,
        objects: &[DynamicObject],
        within: Duration,
        mut found: impl FnMut() -> Option<T>,
    ) -> Result<T> {
        let deadline = Instant::now() + within;
        loop {
            if let Some(found) = found() {
                return Ok(found);
            }
            if Instant::now() > deadline {
                bail!("no worker had operations under way within {within:?}");
            }
            self.show(&read(cluster, objects).await?, is_ready);
            sleep(POLL).await;
        }
    }

    /// Shows progress until all objects are done; on timeout says which are not, and why.
    pub(super) async fn watch(
        &self,
        cluster: &Cluster,
        objects: &[DynamicObject],
        within: Duration,
        done: fn(Option<&DynamicObject>) -> bool,
    ) -> Result<()> {
        let deadline = Instant::now() + within;
        loop {
            let found = read(cluster, objects).await?;
            self.show(&found, done);
            let missing: Vec<_> = objects.iter().zip(&found).filter(|(_, found)| !done(found.as_ref())).collect();
            if missing.is_empty() {
                self.bar.finish();
                return Ok(());
            }
            if Instant::now() > deadline {
                self.bar.abandon();
                let list: Vec<String> = missing
                    .iter()
                    .map(|(object, found)| format!("{}: {}", Named::of(object), why(found.as_ref())))
                    .collect();
                bail!("not {} within {within:?}:\n  {}", self.bar.prefix(), list.join("\n  "));
            }
            sleep(POLL).await;
        }
    }

    fn show(&self, found: &[Option<DynamicObject>], done: fn(Option<&DynamicObject>) -> bool) {
        let count = found.iter().filter(|found| done(found.as_ref())).count();
        self.bar.set_position(count as u64);
        let mut waiting = found.iter().flatten().filter(|object| !done(Some(object)));
        if let Some(object) = waiting.next_back() {
            self.bar.set_message(format!("{}: {}", Named::of(object), reason(object)));
        }
    }
}

async fn read(cluster: &Cluster, objects: &[DynamicObject]) -> Result<Vec<Option<DynamicObject>>> {
    try_join_all(objects.iter().map(|object| cluster.get(object))).await
}

fn reason(object: &DynamicObject) -> String {
    Ready::of(object).map_or_else(|| "not reconciled yet".to_owned(), |ready| ready.reason)
}

fn why(object: Option<&DynamicObject>) -> String {
    match object.map(Ready::of) {
        None => "is not there".to_owned(),
        Some(None) => "has no Ready condition".to_owned(),
        Some(Some(ready)) => ready.to_string(),
    }
}
