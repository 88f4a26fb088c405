//! The edge to the Kubernetes API server.
//!
//! Each write is made once, under a claim that is checked right before it; the retry is the next reconcile's.

use std::sync::Arc;
use std::time::{Duration, Instant};

use flotilla_crds::{Catalog, Kind, KindEntry};
use flotilla_proto::{GroupKind, kubernetes};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube::api::{Api, ApiResource, DynamicObject, Patch};
use kube::{Client, ResourceExt};
use serde_json::Value;

use super::names;
use super::object::Id;
use crate::fleet::Claim;
use crate::metrics::{Metrics, Write};

/// A write or read that failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The claim on the object has ended: another worker may own it.
    #[error("the claim on {0} has ended")]
    Lost(Id),
    /// The object has changed or gone since it was read.
    #[error("{0} has changed meanwhile")]
    Conflict(Id),
    /// The kind is not in the catalog.
    #[error("{0} is not a known kind")]
    UnknownKind(GroupKind),
    /// The API server refused, or can't be reached.
    #[error("failed to {what} {id}")]
    Api {
        /// What was tried.
        what: &'static str,
        /// On which object.
        id: Id,
        /// Cause.
        #[source]
        source: kubernetes::Error,
    },
    /// The API server did not answer in time.
    #[error("failed to {what} {id} in time")]
    TimedOut {
        /// What was tried.
        what: &'static str,
        /// On which object.
        id: Id,
    },
}

impl Error {
    /// The object would be larger than the API server's store takes; no other try helps.
    pub(crate) fn is_too_large(&self) -> bool {
        let Self::Api { source, .. } = self else { return false };
        let Some(status) = source.status() else { return false };
        let said = |words| status.message.contains(words);
        status.code == 413 || said("request is too large") || said("message larger than max")
    }
}

/// No request takes longer unless something is broken; the next reconcile asks again.
const TIMEOUT: Duration = Duration::from_secs(15);

/// The API server.
#[derive(Clone)]
pub(crate) struct Cluster {
    client: Client,
    catalog: &'static Catalog,
    metrics: Arc<Metrics>,
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").finish_non_exhaustive()
    }
}

impl Cluster {
    /// An edge that uses this client, which must not retry on its own.
    pub(crate) fn new(client: Client, catalog: &'static Catalog, metrics: Arc<Metrics>) -> Self {
        Self { client, catalog, metrics }
    }

    /// The client.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// How a kind is read. The storage version shows also what only that version has.
    pub(crate) fn read_as(&self, kind: &GroupKind) -> Option<ApiResource> {
        let entry = self.catalog.entry(&kind.group, &kind.kind)?;
        Some(resource(entry, &entry.storage_version()))
    }

    /// Reads an object; none if it does not exist.
    pub(crate) async fn get(&self, id: &Id) -> Result<Option<DynamicObject>, Error> {
        let resource = self.read_as(&id.kind).ok_or_else(|| Error::UnknownKind((*id.kind).clone()))?;
        let api = Api::<DynamicObject>::namespaced_with(self.client.clone(), &id.namespace, &resource);
        self.answer("read", id, api.get_opt(&id.name)).await
    }

    /// Changes an object's metadata by a merge patch, through one of its versions.
    pub(crate) async fn patch(
        &self,
        claim: &Claim,
        id: &Id,
        kind: &Kind,
        version: &str,
        patch: &Value,
        write: Write,
    ) -> Result<DynamicObject, Error> {
        let api = self.write_to(claim, id, kind, version)?;
        let params = kubernetes::patch();
        self.metrics.wrote(write);
        self.answer(write.as_str(), id, api.patch(&id.name, &params, &Patch::Merge(patch))).await
    }

    /// Changes an object's status by a merge patch, through the version that the status is made for.
    pub(crate) async fn patch_status(
        &self,
        claim: &Claim,
        id: &Id,
        kind: &Kind,
        version: &str,
        status: &Value,
    ) -> Result<DynamicObject, Error> {
        let api = self.write_to(claim, id, kind, version)?;
        let params = kubernetes::patch();
        let patch = Patch::Merge(serde_json::json!({ "status": status }));
        self.metrics.wrote(Write::Status);
        self.answer("write the status of", id, api.patch_status(&id.name, &params, &patch)).await
    }

    fn write_to(&self, claim: &Claim, id: &Id, kind: &Kind, version: &str) -> Result<Api<DynamicObject>, Error> {
        if !claim.valid(Instant::now()) {
            self.metrics.dropped();
            return Err(Error::Lost(id.clone()));
        }
        let resource = resource(kind.entry(), version);
        Ok(Api::namespaced_with(self.client.clone(), &id.namespace, &resource))
    }

    /// Reads a Secret. Only those that an object names are ever read.
    pub(crate) async fn secret(&self, id: &Id) -> Result<Option<Secret>, Error> {
        let api = Api::<Secret>::namespaced(self.client.clone(), &id.namespace);
        self.answer("read", id, api.get_opt(&id.name)).await
    }

    /// Reads a ConfigMap.
    pub(crate) async fn config_map(&self, id: &Id) -> Result<Option<ConfigMap>, Error> {
        let api = Api::<ConfigMap>::namespaced(self.client.clone(), &id.namespace);
        self.answer("read", id, api.get_opt(&id.name)).await
    }

    /// The reconcile policy that a Namespace states for its objects.
    pub(crate) async fn namespace_policy(&self, name: &str) -> Result<Option<String>, kubernetes::Error> {
        let namespace = Api::<Namespace>::all(self.client.clone()).get_metadata_opt(name).await?;
        Ok(namespace.and_then(|namespace| namespace.annotations().get(names::RECONCILE_POLICY).cloned()))
    }

    /// Writes an event.
    pub(crate) async fn event(
        &self,
        namespace: &str,
        event: &k8s_openapi::api::events::v1::Event,
    ) -> Result<(), kubernetes::Error> {
        self.metrics.wrote(Write::Event);
        Api::namespaced(self.client.clone(), namespace).create(&kubernetes::post(), event).await?;
        Ok(())
    }

    async fn answer<T>(
        &self,
        what: &'static str,
        id: &Id,
        call: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, Error> {
        match tokio::time::timeout(TIMEOUT, call).await.map(|answer| answer.map_err(kubernetes::Error::from)) {
            Err(_) => Err(Error::TimedOut { what, id: id.clone() }),
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) if error.is_conflict() || error.is_not_found() => Err(Error::Conflict(id.clone())),
            Ok(Err(source)) => Err(Error::Api { what, id: id.clone(), source }),
        }
    }
}

/// A kind at a version.
pub(crate) fn resource(entry: &KindEntry, version: &str) -> ApiResource {
    kubernetes::resource(&entry.group, version, &entry.kind, &entry.plural)
}
