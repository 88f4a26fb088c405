//! Installs CRDs and admission policies: the leader's work beside the fleet's.
//!
//! It keeps true that every kind of the pattern, and every kind of ours or of ASO's that is installed already, has this
//! version's CRD. What is unchanged is told by a hash and the generation noted on the CRD, and costs no write. Nothing is ever
//! deleted: a kind taken off the pattern keeps its CRD and its objects, and a version that is in use keeps being served.
//!
//! *Flow.* One list of metadata, the policies, then the CRDs, several at once. A CRD counts as installed when it is served;
//! its kind is looked for from then on, whatever becomes of the others.
//! *Caveats.* An object may be written through a version between our look at the objects and the write of the CRD that
//! drops this version. So a kind that lost versions is looked at again soon after, and gets those back that are in use. A
//! leader may end before it does so; the next one looks in its first pass, at every kind that may lack versions. (That costs half
//! a second of the API server's CPU for 294 kinds without objects. It misses an api-version that is served only if the
//! pattern names it and that was taken off the pattern just then.)

mod conditions;
mod foreign;
mod install;
mod look;
mod pages;
mod present;
mod progress;
mod render;
mod serving;
mod usage;
mod versions;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use flotilla_crds::{Catalog, KindEntry, Pattern, UnknownVersion, admission};
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

use self::look::{Look, Step};
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
/// How often CRDs that others install are looked at.
const LOOK_ON_EVERY: Duration = Duration::from_secs(30);
/// How often objects of kinds that serve more than is asked for are looked at, whether they still use it.
const LOOK_EVERY: Duration = Duration::from_hours(1);
/// CRDs on their way at a time, from our look until they are served. An installation takes the API server's CPU, so more of
/// them take no less time, and the first are served later (docs/benchmarks.md).
const AT_ONCE: usize = 32;
/// Of them, those that are being printed and sent: each may take a few megabytes of ours.
const SENDING: usize = 4;

/// A kind or policy that could not be installed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The cluster did not say which CRDs it has.
    #[error("failed to list CRDs")]
    List(#[source] kubernetes::Error),
    /// The catalog's entry could not be unpacked or printed.
    #[error("failed to make the CRD {name}: {reason}")]
    Render {
        /// The CRD.
        name: String,
        /// Why.
        reason: String,
    },
    /// The cluster did not say which CRDs it serves.
    #[error("failed to ask which CRDs are served")]
    Discover(#[source] kubernetes::Error),
    /// The pattern names an api-version that the kind does not have.
    #[error("failed to choose the versions of {name}")]
    UnknownVersion {
        /// The CRD.
        name: String,
        /// Which there are.
        #[source]
        source: UnknownVersion,
    },
    /// The API server accepted it and does not serve it, or not in every version.
    #[error("{name} was accepted, but is not served: {why}")]
    NotServed {
        /// The CRD.
        name: String,
        /// What its status says.
        why: String,
    },
    /// There is a CRD of this name that has nothing to do with ours. It is not touched.
    #[error(
        "the CRD {name} is somebody else's: it has versions that the kind does not have ({versions}), and its objects would \
         lose data; take the kind off the CRD pattern, or delete this CRD if nobody needs it"
    )]
    Foreign {
        /// The CRD.
        name: String,
        /// Its versions.
        versions: String,
    },
    /// The API server refused it or was not reached.
    #[error("failed to install {name}")]
    Install {
        /// The CRD or policy.
        name: String,
        /// Cause.
        #[source]
        source: kubernetes::Error,
    },
}

impl Error {
    /// Whether another pass may go well, with the pattern and the catalog as they are.
    pub(crate) fn may_pass(&self) -> bool {
        !matches!(self, Self::UnknownVersion { .. })
    }
}

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

/// What happened to a CRD or a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// It was as it should be.
    Unchanged,
    /// It was written.
    Written,
}

/// What an installer remembers from one pass to the next.
#[derive(Default)]
struct Memory {
    /// CRDs whose objects are to be looked at in the next pass: versions were or may have been dropped, or no look was possible.
    again: BTreeSet<String>,
    /// When all kinds that serve more than is asked for were last looked at.
    looked: Option<Instant>,
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
                    tracing::warn!(error = &error as &dyn std::error::Error, "Did not install CRDs");
                    AGAIN_AFTER
                }
            };
            tokio::time::sleep(pause).await;
        }
    }

    /// Looks at which CRDs there are, where somebody else installs them.
    pub(crate) async fn look_on(self) {
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
                    tracing::warn!(error = &error as &dyn std::error::Error, "Did not look at the CRDs");
                }
            }
            tokio::time::sleep(LOOK_ON_EVERY).await;
        }
    }

    fn warn_of_typing_errors(&self) {
        for part in self.pattern.unused(self.catalog) {
            tracing::warn!(pattern = part, "No kind matches this part of the CRD pattern");
        }
    }

    /// One look at everything. Returns how many could not be installed and may be in another pass.
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
        let first_look = memory.looked.is_none();
        let due = memory.looked.is_none_or(|looked| looked.elapsed() >= LOOK_EVERY);
        if due {
            memory.looked = Some(Instant::now());
        }
        let again = std::mem::take(&mut memory.again);
        let mut progress = Progress::begin(wanted.len(), first, self.metrics.clone());
        // They come first: an object may be created as soon as its CRD is there.
        for result in self.policies(&wanted).await {
            progress.policy(result);
        }
        let sending = Semaphore::new(SENDING);
        let mut steps = Vec::with_capacity(wanted.len());
        for &entry in &wanted {
            let name = entry.crd_name();
            let looks_again = again.contains(&name) || first_look && self.may_lack_versions(entry);
            let look = if looks_again { Look::Again } else { Look::when(due) };
            let (existing, serving, sending) = (existing.get(&name), &serving, &sending);
            steps.push(async move {
                let permit = sending.acquire().await;
                let done = self.install(entry, existing, look).await;
                drop(permit);
                let unserved = match &done {
                    Ok(done) if !serving.serves(&name, &done.serves).await => Some(self.why_unserved(&name).await),
                    _ => None,
                };
                let step = Step::after(&name, look, done, unserved);
                (name, step)
            });
        }
        let mut steps = stream::iter(steps).buffer_unordered(AT_ONCE);
        while let Some((name, Step { result, look_again })) = steps.next().await {
            if look_again {
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
    async fn policies(&self, wanted: &[&KindEntry]) -> Vec<Result<Outcome, Error>> {
        let mut results = Vec::new();
        for policy in admission::policies(wanted.iter().copied()) {
            let policy = hashed(policy);
            let name = policy["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            let kind = policy["kind"].as_str().unwrap_or_default();
            let result = self.policy(kind, &name, &policy).await;
            results.push(result.map_err(|source| {
                let name = format!("{kind} {name}");
                Error::Install { name, source: source.into() }
            }));
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
