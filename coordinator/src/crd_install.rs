//! Installs CRDs and admission policies: the leader's work beside the fleet's.
//!
//! It keeps true that every kind of the pattern, and every kind of ours or of ASO's that is installed already, has this
//! version's CRD. What is unchanged is told by a hash on the CRD and costs no write. Nothing is ever deleted: a kind taken
//! off the pattern keeps its CRD and its objects.

mod render;

use std::collections::BTreeMap;
use std::time::Duration;

use flotilla_crds::{Catalog, KindEntry, Pattern, admission};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DynamicObject, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::core::{GroupVersionKind, PartialObjectMeta};
use kube::{Api, Client, ResourceExt};
use serde_json::Value;
use tokio::sync::watch;

pub use self::render::HASH;
use self::render::{hashed, is_managed, take_over, with_stored_versions};
use crate::installed::Installed;
use crate::metrics::Metrics;
use crate::store::names::FIELD_MANAGER;

/// Between two passes when all is well: a CRD that somebody deleted comes back.
const PASS_EVERY: Duration = Duration::from_mins(10);
/// After a pass with failures.
const AGAIN_AFTER: Duration = Duration::from_secs(15);
/// CRDs in one page of the list; only their metadata.
const PAGE: u32 = 500;
/// Progress is told so often.
const TELL_EVERY: Duration = Duration::from_secs(5);

/// A kind or policy that could not be installed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The cluster did not say which CRDs it has.
    #[error("failed to list CRDs")]
    List(#[source] kube::Error),
    /// The catalog's entry could not be unpacked or printed.
    #[error("failed to make the CRD {name}: {reason}")]
    Render {
        /// The CRD.
        name: String,
        /// Why.
        reason: String,
    },
    /// The API server refused it or was not reached.
    #[error("failed to install {name}")]
    Install {
        /// The CRD or policy.
        name: String,
        /// Cause.
        #[source]
        source: Box<kube::Error>,
    },
}

/// Installs while we lead.
pub(crate) struct Installer {
    pub(crate) client: Client,
    pub(crate) catalog: &'static Catalog,
    pub(crate) pattern: Pattern,
    pub(crate) metrics: Metrics,
    pub(crate) installed: watch::Sender<Installed>,
}

/// What happened to one CRD.
enum Outcome {
    Unchanged,
    Written,
}

impl Installer {
    /// Makes pass after pass until dropped.
    pub(crate) async fn run(self) {
        self.warn_of_typing_errors();
        loop {
            let pause = match self.pass().await {
                Ok(0) => PASS_EVERY,
                Ok(_) => AGAIN_AFTER,
                Err(error) => {
                    tracing::warn!(error = &error as &dyn std::error::Error, "Did not install CRDs");
                    AGAIN_AFTER
                }
            };
            tokio::time::sleep(pause).await;
        }
    }

    fn warn_of_typing_errors(&self) {
        let kinds = self.catalog.kinds().map(|entry| (entry.group.as_str(), entry.kind.as_str()));
        for part in self.pattern.unused(&kinds) {
            tracing::warn!(pattern = part, "No kind matches this part of the CRD pattern");
        }
    }

    /// One look at everything. Returns how many could not be installed.
    async fn pass(&self) -> Result<usize, Error> {
        let existing = self.existing().await?;
        let first = !self.installed.borrow().complete;
        if first {
            self.installed.send_replace(Installed::seen(self.catalog, &existing));
        }
        let wanted: Vec<&KindEntry> = self
            .catalog
            .kinds()
            .filter(|entry| {
                let ours = existing.get(&entry.crd_name()).is_some_and(is_managed);
                ours || self.pattern.matches(&entry.group, &entry.kind)
            })
            .collect();
        let (mut written, mut failed) = (0_usize, 0_usize);
        let mut told = tokio::time::Instant::now();
        for (done, entry) in wanted.iter().enumerate() {
            let name = entry.crd_name();
            match self.install(entry, existing.get(&name)).await {
                Ok(Outcome::Unchanged) => self.metrics.crd_write("unchanged"),
                Ok(Outcome::Written) => {
                    written += 1;
                    self.metrics.crd_write("written");
                }
                Err(error) => {
                    failed += 1;
                    self.metrics.crd_write("failed");
                    tracing::error!(crd = %name, error = &error as &dyn std::error::Error, "Did not install a CRD");
                    continue;
                }
            }
            self.installed.send_if_modified(|installed| installed.names.insert(name));
            if told.elapsed() >= TELL_EVERY {
                told = tokio::time::Instant::now();
                tracing::info!(done = done + 1, of = wanted.len(), written, failed, "Installing CRDs");
            }
        }
        failed += self.policies(&wanted).await;
        if first || written + failed > 0 {
            tracing::info!(crds = wanted.len(), written, failed, "Installed CRDs");
        }
        Ok(failed)
    }

    async fn existing(&self) -> Result<BTreeMap<String, ObjectMeta>, Error> {
        let api: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        let mut crds = BTreeMap::new();
        let mut page = ListParams::default().limit(PAGE);
        loop {
            let list = api.list_metadata(&page).await.map_err(Error::List)?;
            let next = list.metadata.continue_.clone().filter(|token| !token.is_empty());
            crds.extend(list.items.into_iter().map(|crd| (crd.name_any(), crd.metadata)));
            match next {
                Some(token) => page = ListParams::default().limit(PAGE).continue_token(&token),
                None => return Ok(crds),
            }
        }
    }

    async fn install(&self, entry: &KindEntry, existing: Option<&ObjectMeta>) -> Result<Outcome, Error> {
        let name = entry.crd_name();
        let (group, kind) = (entry.group.clone(), entry.kind.clone());
        let catalog = self.catalog;
        let failed = |reason: String| Error::Render { name: name.clone(), reason };
        // Loaded for this one use: the catalog keeps nothing of it in memory.
        let rendered = tokio::task::spawn_blocking(move || {
            let kind = catalog.try_load(&group, &kind).ok_or_else(|| "the catalog does not have it".to_owned())?;
            Ok::<_, String>(hashed(kind.map_err(|error| error.to_string())?.crd()))
        });
        let rendered = rendered.await.map_err(|error| failed(error.to_string()))?.map_err(failed)?;
        let hash = rendered["metadata"]["annotations"][HASH].as_str();
        let current = existing.and_then(|metadata| metadata.annotations.as_ref()?.get(HASH)).map(String::as_str);
        if current == hash && existing.is_some_and(is_managed) {
            return Ok(Outcome::Unchanged);
        }
        let refused = |source| Error::Install { name: name.clone(), source: Box::new(source) };
        let api: Api<DynamicObject> =
            Api::all_with(self.client.clone(), &ApiResource::erase::<CustomResourceDefinition>(&()));
        let Some(stored) = self.stored(&api, &name, existing).await.map_err(refused)? else {
            apply(&api, &name, &rendered).await.map_err(refused)?;
            return Ok(Outcome::Written);
        };
        let rendered = with_stored_versions(rendered, &stored);
        match take_over(&rendered, &stored) {
            // Server-side apply can't turn a conversion webhook off: fields that it needs belong to another manager.
            Some(whole) => {
                let whole: DynamicObject = serde_json::from_value(whole).map_err(|error| failed(error.to_string()))?;
                let post = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
                api.replace(&name, &post, &whole).await.map_err(refused)?;
            }
            None => apply(&api, &name, &rendered).await.map_err(refused)?,
        }
        Ok(Outcome::Written)
    }

    async fn stored(
        &self,
        api: &Api<DynamicObject>,
        name: &str,
        existing: Option<&ObjectMeta>,
    ) -> Result<Option<Value>, kube::Error> {
        if existing.is_none() {
            return Ok(None);
        }
        let stored = api.get_opt(name).await?;
        stored.map(|crd| serde_json::to_value(crd).map_err(kube::Error::SerdeError)).transpose()
    }

    /// Installs the admission policies of these kinds. Returns how many could not be.
    async fn policies(&self, wanted: &[&KindEntry]) -> usize {
        let mut failed = 0;
        for policy in admission::policies(wanted.iter().copied()) {
            let policy = hashed(policy);
            let name = policy["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            let kind = policy["kind"].as_str().unwrap_or_default();
            match self.policy(kind, &name, &policy).await {
                Ok(Outcome::Unchanged) => self.metrics.crd_write("unchanged"),
                Ok(Outcome::Written) => self.metrics.crd_write("written"),
                Err(error) => {
                    failed += 1;
                    self.metrics.crd_write("failed");
                    let error = Error::Install { name: format!("{kind} {name}"), source: Box::new(error) };
                    tracing::error!(error = &error as &dyn std::error::Error, "Did not install an admission policy");
                }
            }
        }
        failed
    }

    async fn policy(&self, kind: &str, name: &str, policy: &Value) -> Result<Outcome, kube::Error> {
        let gvk = GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", kind);
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &ApiResource::from_gvk(&gvk));
        let existing: Option<PartialObjectMeta<DynamicObject>> = api.get_metadata_opt(name).await?;
        let current = existing.and_then(|policy| policy.metadata.annotations?.remove(HASH));
        if current.as_deref() == policy["metadata"]["annotations"][HASH].as_str() {
            return Ok(Outcome::Unchanged);
        }
        apply(&api, name, policy).await?;
        Ok(Outcome::Written)
    }
}

/// Server-side apply. Only metadata comes back: a CRD can have a megabyte.
async fn apply(api: &Api<DynamicObject>, name: &str, object: &Value) -> Result<(), kube::Error> {
    api.patch_metadata(name, &PatchParams::apply(FIELD_MANAGER).force(), &Patch::Apply(object)).await?;
    Ok(())
}
