//! The store in the Kubernetes API: Leases, and one ConfigMap for the shard map.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use flotilla_proto::timing::STORE_CALL_WITHIN;
use flotilla_proto::{WorkerId, kubernetes, names};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::{DeleteParams, ListParams, Preconditions};
use kube::{Api, Client};

use super::{Error, Found, LeaderLease, Store, Version};
use crate::membership::LeaseSeen;
use crate::shard_map::ShardMap;

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
    /// The client should not retry: the caller has a deadline and asks again.
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
        let annotations = BTreeMap::from([(names::LEADER_ADDRESS.to_owned(), lease.address.clone())]);
        let written = Lease {
            metadata: ObjectMeta {
                annotations: Some(annotations),
                ..metadata(names::LEADER_LEASE, names::ROLE_COORDINATOR, known)
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
            None => call("create the leader's lease", self.leases.create(&kubernetes::post(), &written)).await?,
            Some(_) => {
                call(
                    "write the leader's lease",
                    self.leases.replace(names::LEADER_LEASE, &kubernetes::post(), &written),
                )
                .await?
            }
        };
        Ok(version(&written.metadata))
    }

    async fn workers(&self) -> Result<Vec<LeaseSeen>, Error> {
        let workers = ListParams::default().labels(&format!("{}={}", names::ROLE, names::ROLE_WORKER));
        let leases = call("list the workers' leases", self.leases.list(&workers)).await?;
        Ok(leases.items.into_iter().filter_map(worker).collect())
    }

    async fn fence(&self, pod: &str, known: &Version, by: &str) -> Result<(), Error> {
        let name = names::worker_lease(pod);
        let Some(mut lease) = call("read a worker's lease", self.leases.get_opt(&name)).await? else {
            return Err(Error::Conflict { what: format!("fence lease {name}") });
        };
        if version(&lease.metadata) != *known {
            return Err(Error::Conflict { what: format!("fence lease {name}") });
        }
        lease.metadata.managed_fields = None;
        lease.metadata.annotations.get_or_insert_default().insert(names::FENCED_BY.to_owned(), by.to_owned());
        if let Some(spec) = &mut lease.spec {
            spec.holder_identity = None;
        }
        call("fence a worker's lease", self.leases.replace(&name, &kubernetes::post(), &lease)).await?;
        Ok(())
    }

    async fn forget(&self, pod: &str, known: &Version) -> Result<(), Error> {
        let name = names::worker_lease(pod);
        let only_this = Preconditions { resource_version: Some(known.0.clone()), uid: None };
        let params = DeleteParams { preconditions: Some(only_this), ..DeleteParams::default() };
        call("delete a worker's lease", self.leases.delete(&name, &params)).await?;
        Ok(())
    }

    async fn map(&self) -> Result<Option<Found<Result<ShardMap, Error>>>, Error> {
        let Some(stored) = call("read the shard map", self.maps.get_opt(names::SHARD_MAP)).await? else {
            return Ok(None);
        };
        let text = stored.data.as_ref().and_then(|data| data.get(names::SHARD_MAP_KEY)).map_or("", String::as_str);
        let corrupt =
            |source: serde_json::Error| Error::Corrupt { what: names::SHARD_MAP.into(), source: source.into() };
        Ok(Some(Found { record: serde_json::from_str(text).map_err(corrupt), version: version(&stored.metadata) }))
    }

    async fn put_map(&self, map: &ShardMap, known: Option<&Version>) -> Result<Version, Error> {
        let text = serde_json::to_string(map)
            .map_err(|source| Error::Corrupt { what: names::SHARD_MAP.into(), source: source.into() })?;
        let written = ConfigMap {
            metadata: metadata(names::SHARD_MAP, names::ROLE_SHARD_MAP, known),
            data: Some(BTreeMap::from([(names::SHARD_MAP_KEY.to_owned(), text)])),
            ..ConfigMap::default()
        };
        let written = match known {
            None => call("create the shard map", self.maps.create(&kubernetes::post(), &written)).await?,
            Some(_) => {
                call("write the shard map", self.maps.replace(names::SHARD_MAP, &kubernetes::post(), &written)).await?
            }
        };
        Ok(version(&written.metadata))
    }
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
        address: lease.metadata.annotations.and_then(|mut all| all.remove(names::LEADER_ADDRESS)).unwrap_or_default(),
        term: spec.lease_transitions.and_then(|term| u64::try_from(term).ok()).unwrap_or(0),
        duration: Duration::from_secs(seconds),
        acquired: spec.acquire_time.map(|time| time.0),
        renewal: spec.renew_time.map(|time| time.0.to_string()).unwrap_or_default(),
    }
}

fn worker(lease: Lease) -> Option<LeaseSeen> {
    let pod = names::pod_of_lease(lease.metadata.name.as_deref()?)?.to_owned();
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
    let answer = tokio::time::timeout(STORE_CALL_WITHIN, call).await;
    let answer = answer.map_err(|_| Error::TimedOut { what: what.to_owned() })?;
    answer.map_err(kubernetes::Error::from).map_err(|error| {
        // Not found means that it was deleted, except where it was to be created: then the namespace is missing.
        if error.is_conflict() || (error.is_not_found() && !what.starts_with("create")) {
            Error::Conflict { what: what.to_owned() }
        } else {
            Error::Call { what: what.to_owned(), source: error.into() }
        }
    })
}
