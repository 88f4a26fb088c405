//! Installs CRDs and admission policies: the leader's work beside the fleet's.
//!
//! It keeps true that every kind of the pattern, and every kind of ours or of ASO's that is installed already, has this
//! version's CRD. A hash and the generation noted on the CRD tell what is unchanged, which costs no write. Nothing is ever
//! deleted: a kind taken off the pattern keeps its CRD and its objects, and a version that is in use keeps being served.
//!
//! *Flow.* One list of metadata, the policies, then the CRDs, several at once. A CRD counts as installed when it is served;
//! discovery looks for objects of its kind from then on, whatever becomes of the others.
//! *Caveats.* An object may be written through a version between our inspection of the objects and the write of the CRD that
//! drops this version. So a kind that lost versions is inspected again soon after, and gets those back that are in use. A
//! leader may end before it does so; the next one inspects, in its first pass, every kind that may lack versions. (That costs half
//! a second of the API server's CPU for 294 kinds without objects. It misses an api-version that is served only if the
//! pattern names it and that was taken off the pattern just then.)
//!
//! [`Installer`] is the one type here with two rooms: this file makes the passes, `install` does one kind.

mod conditions;
mod error;
mod foreign;
mod inspection;
mod install;
mod news;
mod outcome;
mod pages;
mod present;
mod progress;
mod render;
mod serving;
mod usage;
mod versions;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use flotilla_crds::{Catalog, KindEntry, Pattern, admission_policies};
use flotilla_proto::task::Process;
use flotilla_proto::{kubernetes, names};
use futures::{StreamExt, stream};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DynamicObject, ObjectMeta, Patch};
use kube::core::{GroupVersionKind, PartialObjectMeta};
use kube::{Api, Client, ResourceExt};
use serde_json::Value;
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;

pub(crate) use self::error::Error;
use self::inspection::{Inspection, Step};
use self::news::News;
use self::outcome::Outcome;
use self::progress::Progress;
use self::render::{hash, hashed, is_managed};
use self::serving::Serving;
pub use self::versions::Versions;
use crate::installed::Installed;
use crate::metrics::Metrics;

/// Between two passes when all is well: a CRD that somebody deleted comes back.
const PASS_EVERY: Duration = Duration::from_mins(10);
/// After a pass with failures, or one that dropped versions.
const AGAIN_AFTER: Duration = Duration::from_secs(15);
/// How often the CRDs that others install are listed.
const FOLLOW_EVERY: Duration = Duration::from_secs(30);
/// How often the objects of kinds that serve more than is asked for are inspected, in case they no longer use it.
const INSPECT_EVERY: Duration = Duration::from_hours(1);
/// CRDs on their way at a time, from the first call until they are served. An installation takes the API server's CPU, so more of
/// them take no less time, and the first are served later (docs/benchmarks.md).
const AT_ONCE: usize = 32;
/// Of them, those that are being printed and sent: each may take a few megabytes of ours.
const SENDING: usize = 4;

/// Installs while we lead.
pub(crate) struct Installer {
    pub(crate) client: Client,
    pub(crate) catalog: &'static Catalog,
    pub(crate) pattern: Pattern,
    pub(crate) versions: Versions,
    pub(crate) metrics: Metrics,
    pub(crate) installed: watch::Sender<Installed>,
    pub(crate) process: Process,
}

/// What an installer remembers from one pass to the next.
#[derive(Default)]
struct Memory {
    /// CRDs whose objects have to be inspected in the next pass: versions were or may have been dropped, or they could not be listed.
    again: BTreeSet<String>,
    /// When all kinds that serve more than is asked for were last inspected.
    inspected: Option<Instant>,
    /// Failures that were logged.
    news: News,
}

impl Installer {
    /// Makes pass after pass until dropped.
    pub(crate) async fn run(self) {
        self.warn_of_typing_errors();
        let mut memory = Memory::default();
        loop {
            let pause = match self.pass(&mut memory).await {
                Ok(0) if memory.again.is_empty() => PASS_EVERY,
                Ok(_) => AGAIN_AFTER,
                Err(error) => {
                    tracing::warn!(error = &error as &dyn std::error::Error, "Failed to install CRDs");
                    AGAIN_AFTER
                }
            };
            tokio::time::sleep(pause).await;
        }
    }

    /// Follows which CRDs exist, where somebody else installs them.
    pub(crate) async fn follow(self) {
        loop {
            match self.existing().await {
                Ok(existing) => {
                    let seen = Installed::seen(self.catalog, &existing);
                    self.installed.send_if_modified(|installed| {
                        let changed = installed.names != seen.names || !installed.complete;
                        *installed = Installed { from_before: seen.names.clone(), ..seen };
                        changed
                    });
                }
                Err(error) => {
                    tracing::warn!(error = &error as &dyn std::error::Error, "Failed to list the CRDs");
                }
            }
            tokio::time::sleep(FOLLOW_EVERY).await;
        }
    }

    fn warn_of_typing_errors(&self) {
        for part in self.pattern.unused(self.catalog) {
            tracing::warn!(pattern = part, "No kind matches this part of the CRD pattern");
        }
    }

    /// One pass over everything. Returns how many could not be installed and may be in another pass.
    async fn pass(&self, memory: &mut Memory) -> Result<usize, Error> {
        let existing = self.existing().await?;
        let serving =
            Serving::begin(self.client.clone(), &self.process).await.map_err(|error| Error::Discover(error.into()))?;
        let first = !self.installed.borrow().complete;
        if first {
            self.installed.send_replace(Installed::seen(self.catalog, &existing));
        }
        let wanted: Vec<&KindEntry> = self
            .catalog
            .kinds()
            .filter(|entry| {
                let ours = existing.get(&entry.crd_name()).is_some_and(is_managed);
                ours || self.pattern.matches(entry)
            })
            .collect();
        let first_pass = memory.inspected.is_none();
        let due = memory.inspected.is_none_or(|inspected| inspected.elapsed() >= INSPECT_EVERY);
        if due {
            memory.inspected = Some(Instant::now());
        }
        let again = std::mem::take(&mut memory.again);
        let mut progress = Progress::begin(wanted.len(), first, &mut memory.news, self.metrics.clone());
        // They come first: an object may be created as soon as its CRD is there.
        for (name, result) in self.policies(&wanted).await {
            progress.policy(&name, result);
        }
        let sending = Semaphore::new(SENDING);
        let mut steps = Vec::with_capacity(wanted.len());
        for &entry in &wanted {
            let name = entry.crd_name();
            let once_more = again.contains(&name) || first_pass && self.may_lack_versions(entry);
            let inspection = if once_more { Inspection::Again } else { Inspection::when(due) };
            let (existing, serving, sending) = (existing.get(&name), &serving, &sending);
            steps.push(async move {
                let permit = sending.acquire().await;
                let done = self.install(entry, existing, inspection).await;
                drop(permit);
                let unserved = match &done {
                    Ok(done) if !serving.serves(&name, &done.serves).await => Some(self.why_unserved(&name).await),
                    _ => None,
                };
                let step = Step::after(&name, inspection, done, unserved);
                (name, step)
            });
        }
        let mut steps = stream::iter(steps).buffer_unordered(AT_ONCE);
        while let Some((name, Step { result, inspect_again })) = steps.next().await {
            if inspect_again {
                memory.again.insert(name.clone());
            }
            if progress.crd(&name, result) {
                self.installed.send_if_modified(|installed| installed.names.insert(name));
            }
        }
        Ok(progress.end(self.versions))
    }

    async fn existing(&self) -> Result<BTreeMap<String, ObjectMeta>, Error> {
        let api: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        let mut crds = BTreeMap::new();
        let listed = pages::each(&api, |crd| drop(crds.insert(crd.name_any(), crd.metadata))).await;
        listed.map_err(|error| Error::List(error.into()))?;
        Ok(crds)
    }

    /// Installs the admission policies of these kinds.
    async fn policies(&self, wanted: &[&KindEntry]) -> Vec<(String, Result<Outcome, Error>)> {
        let mut results = Vec::new();
        for policy in admission_policies(wanted.iter().copied()) {
            let policy = hashed(policy);
            let name = policy["metadata"]["name"].as_str().unwrap_or_default();
            let kind = policy["kind"].as_str().unwrap_or_default();
            let result = self.policy(kind, name, &policy).await;
            let name = format!("{kind} {name}");
            let failed = |source: kube::Error| Error::Install { name: name.clone(), source: source.into() };
            results.push((name.clone(), result.map_err(failed)));
        }
        results
    }

    async fn policy(&self, kind: &str, name: &str, policy: &Value) -> Result<Outcome, kube::Error> {
        let gvk = GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", kind);
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &ApiResource::from_gvk(&gvk));
        let existing: Option<PartialObjectMeta<DynamicObject>> = api.get_metadata_opt(name).await?;
        let current = existing.and_then(|policy| policy.metadata.annotations?.remove(names::HASH));
        if current.as_deref() == hash(policy) {
            return Ok(Outcome::Unchanged);
        }
        api.patch_metadata(name, &kubernetes::apply(), &Patch::Apply(policy)).await?;
        Ok(Outcome::Written)
    }
}
