//! What tests and the demo do with a cluster: apply manifests, read conditions, wait and say what is missing.

mod discovery;
mod manifest;
mod ready;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use flotilla_crds::{Catalog, KindEntry, Pattern};
use futures::future::try_join_all;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::discovery::ApiResource;
use kube::{Client, ResourceExt};
use serde_json::Value;
use tokio::time::{Instant, sleep};

pub use self::discovery::served;
pub use self::manifest::{Named, parse};
pub use self::ready::Ready;

const POLL: Duration = Duration::from_millis(100);
/// For what is served: asking often takes the CPU that serving waits for.
const POLL_KINDS: Duration = Duration::from_millis(400);

/// A cluster as its users see it.
#[derive(Clone)]
pub struct Cluster {
    client: Client,
}

impl Cluster {
    /// Acts with the rights of this client.
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// The client it acts with.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Applies server-side as `kubectl` does, in the object's own version.
    pub async fn apply(&self, object: &DynamicObject) -> Result<DynamicObject> {
        let params = PatchParams::apply("kubectl").validation_strict();
        let named = Named::of(object);
        self.api(object)?
            .patch(&object.name_any(), &params, &Patch::Apply(object))
            .await
            .with_context(|| format!("failed to apply {named}"))
    }

    /// Changes some fields by JSON merge patch.
    pub async fn patch(&self, object: &DynamicObject, merge: &Value) -> Result<DynamicObject> {
        let named = Named::of(object);
        self.api(object)?
            .patch(&object.name_any(), &PatchParams::default(), &Patch::Merge(merge))
            .await
            .with_context(|| format!("failed to patch {named}"))
    }

    /// The object as it is now.
    pub async fn get(&self, object: &DynamicObject) -> Result<Option<DynamicObject>> {
        let named = Named::of(object);
        self.api(object)?.get_opt(&object.name_any()).await.with_context(|| format!("failed to read {named}"))
    }

    /// Asks for deletion and returns at once.
    pub async fn delete(&self, object: &DynamicObject) -> Result<()> {
        match self.api(object)?.delete(&object.name_any(), &DeleteParams::background()).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            Err(error) => Err(error).with_context(|| format!("failed to delete {}", Named::of(object))),
        }
    }

    /// The object's Ready condition.
    async fn ready(&self, object: &DynamicObject) -> Result<Option<Ready>> {
        Ok(self.get(object).await?.as_ref().and_then(Ready::of))
    }

    /// Waits until every object is Ready for its present generation.
    pub async fn wait_ready(&self, objects: &[DynamicObject], within: Duration) -> Result<()> {
        self.wait("Ready", objects, within, |object| {
            object.is_some_and(|object| Ready::of(object).is_some_and(|ready| ready.is_current(object)))
        })
        .await
    }

    /// Waits until the Ready condition of an object satisfies the test, and returns it.
    pub async fn wait_condition(
        &self,
        object: &DynamicObject,
        within: Duration,
        wanted: impl Fn(&Ready) -> bool,
    ) -> Result<Ready> {
        let deadline = Instant::now() + within;
        loop {
            let ready = self.ready(object).await?;
            match ready {
                Some(ready) if wanted(&ready) => return Ok(ready),
                seen if Instant::now() > deadline => {
                    bail!("{} did not get the wanted condition within {within:?}; it has {seen:?}", Named::of(object))
                }
                _ => sleep(POLL).await,
            }
        }
    }

    /// Waits until the API server serves every kind of the pattern; returns how many there are.
    pub async fn wait_kinds(&self, pattern: &str, within: Duration) -> Result<usize> {
        let pattern = Pattern::parse(pattern)?;
        let wanted: BTreeSet<String> = Catalog::embedded().matching(&pattern).map(KindEntry::crd_name).collect();
        let deadline = Instant::now() + within;
        loop {
            let served = discovery::served(&self.client).await?;
            let missing: Vec<_> = wanted.iter().filter(|name| !served.contains_key(*name)).collect();
            if missing.is_empty() {
                return Ok(wanted.len());
            }
            if Instant::now() > deadline {
                bail!("{} of {} CRDs are not served within {within:?}: {missing:?}", missing.len(), wanted.len());
            }
            sleep(POLL_KINDS).await;
        }
    }

    /// Waits until none of the objects exists any more.
    pub async fn wait_gone(&self, objects: &[DynamicObject], within: Duration) -> Result<()> {
        self.wait("gone", objects, within, |object| object.is_none()).await
    }

    async fn wait(
        &self,
        what: &str,
        objects: &[DynamicObject],
        within: Duration,
        done: impl Fn(Option<&DynamicObject>) -> bool,
    ) -> Result<()> {
        let deadline = Instant::now() + within;
        loop {
            let found = try_join_all(objects.iter().map(|object| self.get(object))).await?;
            let missing: Vec<_> = objects.iter().zip(&found).filter(|(_, found)| !done(found.as_ref())).collect();
            if missing.is_empty() {
                return Ok(());
            }
            if Instant::now() > deadline {
                let mut list = String::new();
                for (object, found) in missing {
                    let ready = found.as_ref().and_then(Ready::of);
                    write!(
                        list,
                        "\n  {}: {}",
                        Named::of(object),
                        ready.map_or("no condition".into(), |ready| ready.to_string())
                    )?;
                }
                bail!("not {what} within {within:?}:{list}");
            }
            sleep(POLL).await;
        }
    }

    fn api(&self, object: &DynamicObject) -> Result<Api<DynamicObject>> {
        let resource = resource_of(object)?;
        Ok(match object.namespace() {
            Some(namespace) => Api::namespaced_with(self.client.clone(), &namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        })
    }
}

/// Where the API serves objects of this kind and version.
pub fn resource_of(object: &DynamicObject) -> Result<ApiResource> {
    let types = object.types.as_ref().context("a manifest without apiVersion and kind")?;
    let kind = GroupVersionKind::try_from(types)?;
    Ok(match Catalog::embedded().entry(&kind.group, &kind.kind) {
        Some(known) => ApiResource::from_gvk_with_plural(&kind, &known.plural),
        None => ApiResource::from_gvk(&kind), // core kinds: Secret, Namespace, …
    })
}
