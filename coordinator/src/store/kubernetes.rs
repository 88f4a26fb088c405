//! The store in the Kubernetes API: Leases, and one ConfigMap for the shard map.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use flotilla_proto::WorkerId;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::{DeleteParams, ListParams, PostParams, Preconditions};
use kube::{Api, Client};

use super::{Error, Found, LeaderLease, Store, Version};
use crate::api_server;
use crate::membership::LeaseSeen;
use crate::shard_map::ShardMap;

/// The names by which the fleet's members find each other.
pub mod names {
    /// The coordinators' lease.
    pub const LEADER_LEASE: &str = "flotilla-coordinator";
    /// The leader's gRPC address, on its lease.
    pub const ADDRESS: &str = "flotilla.dev/address";
    /// What a lease's holder is.
    pub const ROLE: &str = "flotilla.dev/role";
    /// The coordinator that took a worker's lease away, on that lease.
    pub const FENCED_BY: &str = "flotilla.dev/fenced-by";
    /// Before the pod's name in the name of a worker's lease.
    pub const WORKER_LEASE: &str = "flotilla-worker-";
    /// The ConfigMap with the shard map.
    pub const SHARD_MAP: &str = "flotilla-shard-map";
    /// The key in it.
    pub const MAP_KEY: &str = "map.json";
    /// Field manager of all our writes.
    pub const FIELD_MANAGER: &str = "flotilla";
}

/// No call may take longer: what needs the answer has a deadline of seconds.
const CALL_WITHIN: Duration = Duration::from_secs(3);

/// Leases and map in the operator's namespace.
#[derive(Clone)]
pub struct Kubernetes {
    leases: Api<Lease>,
    maps: Api<ConfigMap>,
}

impl std::fmt::Debug for Kubernetes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kubernetes").finish_non_exhaustive()
    }
}

impl Kubernetes {
    /// The client should not retry by itself: whoever asks has a deadline and asks again.
    pub fn new(client: Client, namespace: &str) -> Self {
        Self { leases: Api::namespaced(client.clone(), namespace), maps: Api::namespaced(client, namespace) }
    }
}

#[async_trait]
impl Store for Kubernetes {
    async fn leader(&self) -> Result<Option<Found<LeaderLease>>, Error> {
        let lease = call("read the leader's lease", self.leases.get_opt(names::LEADER_LEASE)).await?;
        Ok(lease.map(|lease| Found { version: version(&lease.metadata), record: leader(lease) }))
    }

    async fn put_leader(&self, lease: &LeaderLease, known: Option<&Version>) -> Result<Version, Error> {
        let now = MicroTime(Timestamp::now());
        let annotations = BTreeMap::from([(names::ADDRESS.to_owned(), lease.address.clone())]);
        let written = Lease {
            metadata: ObjectMeta {
                annotations: Some(annotations),
                ..metadata(names::LEADER_LEASE, "coordinator", known)
            },
            spec: Some(LeaseSpec {
                holder_identity: Some(lease.holder.clone().unwrap_or_default()),
                lease_duration_seconds: Some(i32::try_from(lease.duration.as_secs().max(1)).unwrap_or(i32::MAX)),
                lease_transitions: Some(i32::try_from(lease.term).unwrap_or(i32::MAX)),
                acquire_time: lease.acquired.map(MicroTime),
                renew_time: Some(now),
                ..LeaseSpec::default()
            }),
        };
        let written = match known {
            None => call("create the leader's lease", self.leases.create(&post(), &written)).await?,
            Some(_) => {
                call("write the leader's lease", self.leases.replace(names::LEADER_LEASE, &post(), &written)).await?
            }
        };
        Ok(version(&written.metadata))
    }

    async fn workers(&self) -> Result<Vec<LeaseSeen>, Error> {
        let workers = ListParams::default().labels("flotilla.dev/role=worker");
        let leases = call("list the workers' leases", self.leases.list(&workers)).await?;
        Ok(leases.items.into_iter().filter_map(worker).collect())
    }

    async fn fence(&self, pod: &str, known: &Version, by: &str) -> Result<(), Error> {
        let name = format!("{}{pod}", names::WORKER_LEASE);
        let Some(mut lease) = call("read a worker's lease", self.leases.get_opt(&name)).await? else {
            return Err(Error::Conflict { what: format!("lease {name}") });
        };
        if version(&lease.metadata) != *known {
            return Err(Error::Conflict { what: format!("lease {name}") });
        }
        lease.metadata.managed_fields = None;
        lease.metadata.annotations.get_or_insert_default().insert(names::FENCED_BY.to_owned(), by.to_owned());
        if let Some(spec) = &mut lease.spec {
            spec.holder_identity = None;
        }
        call("fence a worker's lease", self.leases.replace(&name, &post(), &lease)).await?;
        Ok(())
    }

    async fn forget(&self, pod: &str, known: &Version) -> Result<(), Error> {
        let name = format!("{}{pod}", names::WORKER_LEASE);
        let only_this = Preconditions { resource_version: Some(known.0.clone()), uid: None };
        let params = DeleteParams { preconditions: Some(only_this), ..DeleteParams::default() };
        call("delete a worker's lease", self.leases.delete(&name, &params)).await?;
        Ok(())
    }

    async fn map(&self) -> Result<Option<Found<Result<ShardMap, Error>>>, Error> {
        let Some(stored) = call("read the shard map", self.maps.get_opt(names::SHARD_MAP)).await? else {
            return Ok(None);
        };
        let text = stored.data.as_ref().and_then(|data| data.get(names::MAP_KEY)).map_or("", String::as_str);
        let corrupt =
            |source: serde_json::Error| Error::Corrupt { what: names::SHARD_MAP.into(), source: source.into() };
        Ok(Some(Found { record: serde_json::from_str(text).map_err(corrupt), version: version(&stored.metadata) }))
    }

    async fn put_map(&self, map: &ShardMap, known: Option<&Version>) -> Result<Version, Error> {
        let text = serde_json::to_string(map)
            .map_err(|source| Error::Corrupt { what: names::SHARD_MAP.into(), source: source.into() })?;
        let written = ConfigMap {
            metadata: metadata(names::SHARD_MAP, "shard-map", known),
            data: Some(BTreeMap::from([(names::MAP_KEY.to_owned(), text)])),
            ..ConfigMap::default()
        };
        let written = match known {
            None => call("create the shard map", self.maps.create(&post(), &written)).await?,
            Some(_) => call("write the shard map", self.maps.replace(names::SHARD_MAP, &post(), &written)).await?,
        };
        Ok(version(&written.metadata))
    }
}

fn post() -> PostParams {
    PostParams { field_manager: Some(names::FIELD_MANAGER.to_owned()), ..PostParams::default() }
}

fn metadata(name: &str, role: &str, known: Option<&Version>) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        labels: Some(BTreeMap::from([(names::ROLE.to_owned(), role.to_owned())])),
        resource_version: known.map(|version| version.0.clone()),
        ..ObjectMeta::default()
    }
}

fn version(metadata: &ObjectMeta) -> Version {
    Version(metadata.resource_version.clone().unwrap_or_default())
}

fn leader(lease: Lease) -> LeaderLease {
    let spec = lease.spec.unwrap_or_default();
    let seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or(0);
    LeaderLease {
        holder: spec.holder_identity.filter(|holder| !holder.is_empty()),
        address: lease.metadata.annotations.and_then(|mut all| all.remove(names::ADDRESS)).unwrap_or_default(),
        term: spec.lease_transitions.and_then(|term| u64::try_from(term).ok()).unwrap_or(0),
        duration: Duration::from_secs(seconds),
        acquired: spec.acquire_time.map(|time| time.0),
        renewal: spec.renew_time.map(|time| time.0.to_string()).unwrap_or_default(),
    }
}

fn worker(lease: Lease) -> Option<LeaseSeen> {
    let pod = lease.metadata.name.as_deref()?.strip_prefix(names::WORKER_LEASE)?.to_owned();
    let version = version(&lease.metadata).0;
    let fenced = lease.metadata.annotations.is_some_and(|all| all.contains_key(names::FENCED_BY));
    let spec = lease.spec.unwrap_or_default();
    let holder = spec.holder_identity.as_deref().filter(|holder| !holder.is_empty()).map(|holder| {
        let (pod, incarnation) = holder.split_once('/').unwrap_or((holder, ""));
        WorkerId::new(pod, incarnation)
    });
    let renewal = spec.renew_time.map(|time| time.0.to_string()).unwrap_or_default();
    Some(LeaseSeen { pod, holder, fenced, renewal, version })
}

/// One call with a deadline; a refused version is told from other failures.
async fn call<T>(what: &str, call: impl Future<Output = Result<T, kube::Error>>) -> Result<T, Error> {
    match tokio::time::timeout(CALL_WITHIN, call).await {
        Err(_) => Err(Error::TimedOut { what: what.to_owned() }),
        Ok(Ok(answer)) => Ok(answer),
        // Not found means that it was deleted, except where it was to be created: then the namespace is missing.
        Ok(Err(kube::Error::Api(status)))
            if status.code == 409 || (status.is_not_found() && !what.starts_with("create")) =>
        {
            Err(Error::Conflict { what: what.to_owned() })
        }
        Ok(Err(source)) => Err(Error::Call { what: what.to_owned(), source: api_server::Error::from(source).into() }),
    }
}
