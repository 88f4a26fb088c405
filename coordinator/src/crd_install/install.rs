//! One kind: what its CRD should be, what it is, and the write between the two.

use std::collections::BTreeSet;
use std::sync::Arc;

use flotilla_crds::{Kind, KindEntry};
use flotilla_proto::{kubernetes, names};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DynamicObject, ObjectMeta};
use kube::{Api, ResourceExt};
use serde_json::Value;
use tokio::task::spawn_blocking;

use super::error::Error;
use super::inspection::Inspection;
use super::outcome::{Done, Outcome};
use super::present::Present;
use super::render::{self, hash, leads_to, noting_generation, replacement};
use super::versions::{Asked, Offer, Versions, in_use, known, served};
use super::{Installer, conditions, foreign, usage};

impl Installer {
    pub(super) async fn install(
        &self,
        entry: &KindEntry,
        existing: Option<&ObjectMeta>,
        inspection: Inspection,
    ) -> Result<Done, Error> {
        let kind = self.load(entry).await?;
        let (asked, offer) = (self.asked(&kind)?, Offer::of(&kind));
        let mut present = match existing {
            None => None,
            Some(metadata) => match Present::noted(metadata, &entry.storage_version()) {
                Some(noted) => Some(noted),
                None => self.read(&kind).await?,
            },
        };

        let wanted = served(&offer, self.versions, &asked, &BTreeSet::new());
        let used = match &present {
            Some(present) => self.used(&kind, present, &wanted, inspection).await,
            None => Used::default(),
        };
        let versions = served(&offer, self.versions, &asked, &used.versions);
        let mut serves = versions.clone();
        serves.insert(entry.storage_version());

        let stored = present.as_ref().map(|present| present.stored.clone()).unwrap_or_default();
        let rendered = self.render(&kind, &versions, stored).await?;
        let is_same = |present: &Present| present.unchanged && present.hash.as_deref() == hash(&rendered);
        if present.as_ref().is_some_and(is_same) {
            return Ok(Done { outcome: Outcome::Unchanged, inspect_again: used.unsure, serves });
        }
        // Notes are enough to see that nothing is to be done, and too little to write by.
        if present.as_ref().is_some_and(|present| present.whole.is_none()) {
            present = self.read(&kind).await?;
        }
        let dropped = present.as_ref().is_some_and(|present| {
            present.served.iter().any(|version| known(&kind, version).is_some() && !versions.contains(version))
        });
        self.write(&kind, &versions, present, rendered).await?;
        Ok(Done { outcome: Outcome::Written, inspect_again: dropped || used.unsure, serves })
    }

    /// Loaded for this one use: the catalog keeps nothing of it in memory.
    async fn load(&self, entry: &KindEntry) -> Result<Arc<Kind>, Error> {
        let (group, kind, catalog) = (entry.group.clone(), entry.kind.clone(), self.catalog);
        let loaded = spawn_blocking(move || {
            let kind = catalog.try_load(&group, &kind).ok_or_else(|| "the catalog does not have it".to_owned())?;
            kind.map_err(|error| error.to_string())
        });
        let failed = |reason| Error::Render { name: entry.crd_name(), reason };
        Ok(Arc::new(loaded.await.map_err(|error| failed(error.to_string()))?.map_err(failed)?))
    }

    async fn render(
        &self,
        kind: &Arc<Kind>,
        versions: &BTreeSet<String>,
        stored: BTreeSet<String>,
    ) -> Result<Value, Error> {
        let (of, versions) = (Arc::clone(kind), versions.clone());
        let rendered = spawn_blocking(move || render::crd(&of, &versions, &stored)).await;
        rendered.map_err(|error| Error::Render { name: kind.entry().crd_name(), reason: error.to_string() })
    }

    /// Reads what is to be replaced, if it may be.
    async fn read(&self, kind: &Kind) -> Result<Option<Present>, Error> {
        let name = kind.entry().crd_name();
        let Some(crd) = self.whole(&name).await.map_err(|source| failed(&name, source))? else { return Ok(None) };
        match foreign::versions(&crd, |version| kind.version(version).is_some()) {
            Some(versions) => Err(Error::Foreign { name, versions }),
            None => Ok(Some(Present::read(crd))),
        }
    }

    async fn whole(&self, name: &str) -> Result<Option<Value>, kube::Error> {
        let crd = self.crds().get_opt(name).await?;
        crd.map(|crd| serde_json::to_value(crd).map_err(kube::Error::SerdeError)).transpose()
    }

    /// What the status of a CRD says that was not served in time.
    pub(super) async fn why_unserved(&self, name: &str) -> String {
        match self.whole(name).await {
            Ok(Some(crd)) => conditions::failing(&crd).unwrap_or_else(|| "its status gives no reason".to_owned()),
            Ok(None) => "somebody deleted it".to_owned(),
            Err(error) => format!("failed to read why: {}", kubernetes::Error::from(error)),
        }
    }

    /// As plain objects: a typed CRD loses what the types do not know.
    fn crds(&self) -> Api<DynamicObject> {
        Api::all_with(self.client.clone(), &ApiResource::erase::<CustomResourceDefinition>(&()))
    }

    /// What the pattern asks of a kind: versions as `flotilla crds print` chooses them. A kind that is installed and no longer in the
    /// pattern is kept as the setting says.
    fn asked(&self, kind: &Kind) -> Result<Asked, Error> {
        let Some(flotilla_crds::Asked { default, api_versions }) = self.pattern.asks(kind.entry()) else {
            return Ok(Asked { default: true, named: BTreeSet::new() });
        };
        if api_versions.is_empty() {
            return Ok(Asked { default, named: BTreeSet::new() });
        }
        let named = kind.versions_asked(&flotilla_crds::Asked { default: false, api_versions });
        let named = named.map_err(|source| Error::UnknownVersion { name: kind.entry().crd_name(), source })?;
        Ok(Asked { default, named: named.into_iter().map(str::to_owned).collect() })
    }

    /// Whether a leader before us may have dropped versions of a kind and not inspected its objects again. With every version of a kind served,
    /// there was nothing to drop.
    pub(super) fn may_lack_versions(&self, entry: &KindEntry) -> bool {
        let by_name = || self.pattern.asks(entry).is_some_and(|asked| !asked.api_versions.is_empty());
        self.versions == Versions::Newest || by_name()
    }

    /// The versions of a kind that may not be dropped.
    async fn used(&self, kind: &Kind, present: &Present, wanted: &BTreeSet<String>, inspection: Inspection) -> Used {
        let is_known = |name: &&String| known(kind, name).is_some();
        // Whoever made a version the storage version meant it to be used.
        let stored: BTreeSet<String> = present.stored.iter().filter(is_known).cloned().collect();
        let served: BTreeSet<String> = present.served.iter().filter(is_known).cloned().collect();
        let more = !served.is_subset(wanted);
        if inspection == Inspection::No || (!more && inspection != Inspection::Again) {
            return Used { versions: &served | &stored, unsure: false };
        }
        let Some(through) = &present.through else {
            // The webhook goes first, with everything that is served; then objects can be listed.
            return Used { versions: &served | &stored, unsure: true };
        };
        match usage::usage(&self.client, kind.entry(), through).await {
            Ok(found) => {
                let strange = |name: &&String| present.served.contains(*name) && !is_known(name);
                for version in found.versions.iter().filter(strange).filter(|name| !name.ends_with("storage")) {
                    tracing::warn!(kind = kind.name(), version, "Objects use a version that the catalog does not have");
                }
                Used { versions: &stored | &in_use(kind, &served, &found), unsure: false }
            }
            Err(error) => {
                tracing::warn!(
                    kind = kind.name(),
                    error = &kubernetes::Error::from(error) as &dyn std::error::Error,
                    "Failed to find out which versions objects use; all are kept"
                );
                Used { versions: &served | &stored, unsure: true }
            }
        }
    }

    async fn write(
        &self,
        kind: &Arc<Kind>,
        versions: &BTreeSet<String>,
        present: Option<Present>,
        rendered: Value,
    ) -> Result<(), Error> {
        let name = kind.entry().crd_name();
        let existing = present.and_then(|present| Some((present.stored, present.whole?)));
        let replaces = existing.is_some();
        let (whole, generation) = match existing {
            None => {
                let generation = leads_to(&rendered, None);
                (rendered, generation)
            }
            Some((stored, existing)) => {
                let whole = replacement(&self.render(kind, versions, stored).await?, &existing);
                let generation = leads_to(&whole, Some(&existing));
                (whole, generation)
            }
        };
        let refused = |source| failed(&name, source);
        let object = serde_json::from_value::<DynamicObject>(noting_generation(whole, generation));
        let object = object.map_err(|error| refused(kube::Error::SerdeError(error)))?;
        let post = kubernetes::post();
        let written = if replaces {
            // Under the resource version of what was read, so nothing that others wrote meanwhile is lost.
            self.crds().replace(&name, &post, &object).await
        } else {
            self.crds().create(&post, &object).await
        };
        let written = written.map_err(refused)?;
        match written.metadata.generation {
            Some(led_to) if led_to != generation => self.correct_note(written, led_to).await.map_err(refused),
            _ => Ok(()),
        }
    }

    /// Notes the generation that a write led to, where it is not the expected one: the API server may think two specs
    /// equal that we do not. Without it the CRD would be written in each pass.
    async fn correct_note(&self, mut written: DynamicObject, led_to: i64) -> Result<(), kube::Error> {
        let name = written.name_any();
        tracing::debug!(crd = name, generation = led_to, "A write led to an unexpected generation");
        written.annotations_mut().insert(names::GENERATION.to_owned(), led_to.to_string());
        written.metadata.managed_fields = None;
        match self.crds().replace(&name, &kubernetes::post(), &written).await {
            // Its status was written meanwhile, or something else: the next pass corrects it.
            Err(kube::Error::Api(status)) if status.is_conflict() => Ok(()),
            corrected => corrected.map(drop),
        }
    }
}

fn failed(name: &str, source: kube::Error) -> Error {
    Error::Install { name: name.to_owned(), source: source.into() }
}

/// Versions in use.
#[derive(Default)]
struct Used {
    versions: BTreeSet<String>,
    /// They are all that are served, because the objects could not be listed.
    unsure: bool,
}
