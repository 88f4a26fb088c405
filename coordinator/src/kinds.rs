//! Which kinds have objects, so that workers watch those and no others.
//!
//! *Flow.* Known kinds come from the shard map and from the workers' reports. The first object of another kind is noticed by
//! the API server's own request counters and confirmed by a metadata list of one object. A slow round over all installed
//! kinds is the net below. A kind that no worker has reported for a while, and of which none is left, is dropped.
//!
//! *Caveats.* Counters are per API server, so behind a load balancer the one that took the object may be asked a few
//! scrapes later. Where `/metrics` is forbidden the round alone finds kinds. `docs/decisions/004` has the reasons.

mod counters;

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::time::{Duration, Instant};

use flotilla_crds::Catalog;
use flotilla_proto::{GroupKind, kubernetes};
use futures::{AsyncBufReadExt, TryStreamExt};
use kube::api::{DynamicObject, ListParams};
use kube::{Api, Client};
use tokio::sync::watch;

use self::counters::{Counters, Resource, Scrape};
use crate::installed::Installed;
use crate::metrics::Metrics;

/// How discovery finds kinds.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Least time between two scrapes of the API server's metrics.
    pub scrape_every: Duration,
    /// A scrape may take up one part in so many of the time, so that a busy server is asked less often.
    pub scrape_share: u32,
    /// Time for one round over all installed kinds.
    pub round_within: Duration,
    /// Between two checks of the first round on a cluster that has objects already.
    pub first_round_pause: Duration,
    /// A kind is dropped when no worker has reported it for so long.
    pub forget_after: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            scrape_every: Duration::from_secs(1),
            scrape_share: 20,
            round_within: Duration::from_mins(15),
            first_round_pause: Duration::from_millis(50),
            forget_after: Duration::from_mins(10),
        }
    }
}

/// Finds kinds with objects while we lead.
pub(crate) struct Discovery {
    pub(crate) client: Client,
    pub(crate) catalog: &'static Catalog,
    pub(crate) settings: Settings,
    pub(crate) metrics: Metrics,
    /// CRDs that are installed, by plural and group.
    pub(crate) installed: watch::Receiver<Installed>,
    /// Kinds that workers report objects of.
    pub(crate) reported: watch::Receiver<BTreeSet<GroupKind>>,
    /// The result.
    pub(crate) kinds: watch::Sender<BTreeSet<GroupKind>>,
}

/// Why a kind was checked; a metric's label.
#[derive(Clone, Copy)]
enum Cause {
    Counter,
    Round,
    Forget,
}

impl Cause {
    fn as_str(self) -> &'static str {
        match self {
            Cause::Counter => "counter",
            Cause::Round => "round",
            Cause::Forget => "forget",
        }
    }
}

impl Discovery {
    /// Runs until dropped. `first_round`: there was no map, so objects from before us may be stored anywhere.
    pub(crate) async fn run(mut self, first_round: bool) {
        let mut counters = Counters::default();
        let mut last_reported: BTreeMap<GroupKind, Instant> = BTreeMap::new();
        let mut queue: Vec<GroupKind> = Vec::new();
        let mut hurried = first_round;
        let mut scrape_at = Instant::now();
        let mut check_at = Instant::now();
        let mut complained = false;
        loop {
            let next = scrape_at.min(check_at);
            tokio::select! {
                () = tokio::time::sleep_until(next.into()) => {}
                Ok(()) = self.reported.changed() => {}
            }
            let now = Instant::now();
            self.take_reports(&mut last_reported, now);
            if now >= scrape_at {
                match self.scrape().await {
                    Ok(scrape) => {
                        for resource in counters.hints(scrape) {
                            self.follow(&resource).await;
                        }
                        complained = false;
                    }
                    Err(error) => {
                        if !std::mem::replace(&mut complained, true) {
                            tracing::warn!(
                                error = &kubernetes::Error::from(error) as &dyn std::error::Error,
                                "Failed to read the API server's metrics; new kinds are found more slowly"
                            );
                        }
                        self.metrics.kind_check("no_metrics");
                    }
                }
                let took = now.elapsed();
                scrape_at = Instant::now() + self.settings.scrape_every.max(took * self.settings.scrape_share);
            }
            if now >= check_at {
                if queue.is_empty() {
                    queue = self.installed.borrow().kinds(self.catalog, hurried);
                    hurried &= !self.installed.borrow().complete;
                }
                if let Some(kind) = queue.pop() {
                    self.check(&kind, Cause::Round).await;
                }
                self.forget(&mut last_reported, now).await;
                check_at = now + self.pause(first_round && hurried, queue.len());
            }
        }
    }

    fn pause(&self, hurried: bool, left: usize) -> Duration {
        if hurried && left > 0 {
            return self.settings.first_round_pause;
        }
        let kinds = u32::try_from(self.installed.borrow().names.len().max(1)).unwrap_or(u32::MAX);
        (self.settings.round_within / kinds).clamp(Duration::from_millis(100), Duration::from_mins(1))
    }

    fn take_reports(&mut self, last_reported: &mut BTreeMap<GroupKind, Instant>, now: Instant) {
        let reported = self.reported.borrow_and_update().clone();
        for kind in &reported {
            last_reported.insert(kind.clone(), now);
        }
        self.kinds.send_if_modified(|kinds| {
            let before = kinds.len();
            kinds.extend(reported);
            kinds.len() > before
        });
    }

    /// Reads the metrics line by line: the text has megabytes on a large cluster.
    async fn scrape(&self) -> Result<Scrape, kube::Error> {
        let request = http::Request::get("/metrics").body(Vec::new()).map_err(kube::Error::HttpError)?;
        let mut lines = pin!(self.client.request_stream(request).await?.lines());
        let mut scrape = Scrape::default();
        while let Some(line) = lines.try_next().await.map_err(kube::Error::ReadEvents)? {
            scrape.line(&line);
        }
        Ok(scrape)
    }

    async fn follow(&self, (group, plural): &Resource) {
        if let Some(entry) = self.catalog.kind_of_crd(&format!("{plural}.{group}")) {
            self.check(&GroupKind::new(&entry.group, &entry.kind), Cause::Counter).await;
        }
    }

    /// Checks whether a kind that is not known to have objects has one.
    async fn check(&self, kind: &GroupKind, cause: Cause) {
        if self.kinds.borrow().contains(kind) {
            return;
        }
        self.metrics.kind_check(cause.as_str());
        match self.has_objects(kind).await {
            Ok(true) => {
                tracing::info!(%kind, cause = cause.as_str(), "Found the first object of a kind");
                self.kinds.send_if_modified(|kinds| kinds.insert(kind.clone()));
            }
            Ok(false) => {}
            Err(error) => {
                let error = kubernetes::Error::from(error);
                tracing::debug!(%kind, error = &error as &dyn std::error::Error, "Failed to list a kind");
            }
        }
    }

    /// Drops kinds that nobody has reported for long, if they have no objects either.
    async fn forget(&self, last_reported: &mut BTreeMap<GroupKind, Instant>, now: Instant) {
        let kinds = self.kinds.borrow().clone();
        for kind in kinds {
            let since = *last_reported.entry(kind.clone()).or_insert(now);
            if now < since + self.settings.forget_after {
                continue;
            }
            last_reported.insert(kind.clone(), now);
            self.metrics.kind_check(Cause::Forget.as_str());
            let gone = match self.has_objects(&kind).await {
                Ok(has) => !has,
                Err(kube::Error::Api(status)) => status.is_not_found(),
                Err(_) => false,
            };
            if gone && !self.reported.borrow().contains(&kind) {
                tracing::info!(%kind, "Kind has no more objects");
                last_reported.remove(&kind);
                self.kinds.send_if_modified(|kinds| kinds.remove(&kind));
            }
        }
    }

    async fn has_objects(&self, kind: &GroupKind) -> Result<bool, kube::Error> {
        let Some(entry) = self.catalog.entry(&kind.group, &kind.kind) else { return Ok(false) };
        // Through its storage version: which others it serves is a setting.
        let resource = kubernetes::resource(&entry.group, &entry.storage_version(), &entry.kind, &entry.plural);
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource);
        let found = api.list_metadata(&ListParams::default().limit(1)).await?;
        Ok(!found.items.is_empty())
    }
}
