//! Names that other programs read: annotations, labels, the finalizer, the field manager, the fleet's own objects.
//!
//! Those under `serviceoperator.azure.com/` keep the spelling that users' manifests and tools already rely on. The crate depends on
//! nothing, so that the catalog can use it too (`docs/decisions/011_share_what_members_agree_on.md`).

/// Who we are in `managedFields`.
pub const FIELD_MANAGER: &str = "flotilla";
/// Who we are as the reporter of events.
pub const REPORTER: &str = "flotilla";

/// The label that says which program an object belongs to.
pub const APP_LABEL: &str = "app.kubernetes.io/name";
/// Its value on our objects.
pub const APP: &str = "flotilla";

/// Holds the object until Azure's side is gone.
pub const FINALIZER: &str = "serviceoperator.azure.com/finalizer";

/// `manage`, `skip` or `detach-on-delete`; on the object or on its Namespace.
pub const RECONCILE_POLICY: &str = "serviceoperator.azure.com/reconcile-policy";
/// Name of the Secret with this object's credential.
pub const CREDENTIAL_FROM: &str = "serviceoperator.azure.com/credential-from";
/// The resource's ARM id; its presence makes name and owner immutable.
pub const RESOURCE_ID: &str = "serviceoperator.azure.com/resource-id";
/// Children of this object live under another ARM id than its own.
pub const CHILD_RESOURCE_ID_OVERRIDE: &str = "serviceoperator.azure.com/child-resource-id-override";
/// Namespace of the installation that owns the object.
pub const OPERATOR_NAMESPACE: &str = "serviceoperator.azure.com/operator-namespace";

/// Name of the Kubernetes owner.
pub const OWNER_NAME: &str = "serviceoperator.azure.com/owner-name";
/// Group and kind of the Kubernetes owner.
pub const OWNER_GROUP_KIND: &str = "serviceoperator.azure.com/owner-group-kind";
/// UID of the Kubernetes owner.
pub const OWNER_UID: &str = "serviceoperator.azure.com/owner-uid";

/// What the next PUT will send, written before it is sent: generation, api-version and hash, with colons between. Workers write it;
/// the installer of CRDs reads the api-version, which keeps being served while an object uses it.
pub const APPLIED: &str = "flotilla.dev/applied";
/// Who claimed what: the object's UID, and a hash of the ARM id. A claim that was copied along with a manifest belongs to another
/// object, and one whose ARM id somebody changed belongs to nobody.
pub const CLAIMED_BY: &str = "flotilla.dev/claimed-by";
/// The long-running operation in flight.
pub const OPERATION: &str = "flotilla.dev/operation";

/// On a CRD or policy: the hash of what Flotilla wrote.
pub const HASH: &str = "flotilla.dev/hash";
/// On a CRD: the versions that Flotilla had it serve.
pub const SERVED_VERSIONS: &str = "flotilla.dev/served-versions";
/// On a CRD: the versions that objects may be stored in.
pub const STORED_VERSIONS: &str = "flotilla.dev/stored-versions";
/// On a CRD: the generation that Flotilla's write led to. Another one means that somebody else changed the CRD.
pub const GENERATION: &str = "flotilla.dev/generation";

/// Label of the fleet's own objects: which of them this is.
pub const ROLE: &str = "flotilla.dev/role";
/// Value of [`ROLE`] on the leader's lease.
pub const ROLE_COORDINATOR: &str = "coordinator";
/// Value of [`ROLE`] on the leases of workers.
pub const ROLE_WORKER: &str = "worker";
/// Value of [`ROLE`] on the shard map.
pub const ROLE_SHARD_MAP: &str = "shard-map";

/// The coordinators' lease: its holder leads.
pub const LEADER_LEASE: &str = "flotilla-coordinator";
/// Annotation of that lease: the leader's gRPC address.
pub const LEADER_ADDRESS: &str = "flotilla.dev/address";
/// Annotation of a worker's lease: the coordinator that took it away.
pub const FENCED_BY: &str = "flotilla.dev/fenced-by";
/// What the name of a worker's lease begins with; the pod's name follows.
const WORKER_LEASE: &str = "flotilla-worker-";
/// The ConfigMap with the shard map.
pub const SHARD_MAP: &str = "flotilla-shard-map";
/// The key in it.
pub const SHARD_MAP_KEY: &str = "map.json";

/// The lease of the worker in this pod.
pub fn worker_lease(pod: &str) -> String {
    format!("{WORKER_LEASE}{pod}")
}

/// The pod of the worker that has this lease; none if the lease is not a worker's.
pub fn pod_of_lease(lease: &str) -> Option<&str> {
    lease.strip_prefix(WORKER_LEASE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worker_leases_name_their_pods() {
        assert_eq!(worker_lease("worker-0"), "flotilla-worker-worker-0");
        assert_eq!(pod_of_lease("flotilla-worker-worker-0"), Some("worker-0"));
        assert_eq!(pod_of_lease(LEADER_LEASE), None);
    }
}
