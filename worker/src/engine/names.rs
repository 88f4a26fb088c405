//! Names that other programs read: annotations, labels, the finalizer, the field manager.
//!
//! Those under `serviceoperator.azure.com/` keep the spelling that users' manifests and tools already rely on.

use sha2::{Digest, Sha256};

/// Who we are in `managedFields`.
pub const FIELD_MANAGER: &str = "flotilla";

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

/// What the next PUT will send: generation, api-version and hash, written before it is sent.
pub const APPLIED: &str = "flotilla.dev/applied";
/// Who claimed what: the object's UID, and a hash of the ARM id. A claim that came along with a copied manifest is another
/// object's, and one of which somebody changed the ARM id is nobody's.
pub const CLAIMED_BY: &str = "flotilla.dev/claimed-by";
/// The long-running operation in flight.
pub const OPERATION: &str = "flotilla.dev/operation";

/// Name of the Kubernetes owner.
pub const OWNER_NAME: &str = "serviceoperator.azure.com/owner-name";
/// Group and kind of the Kubernetes owner.
pub const OWNER_GROUP_KIND: &str = "serviceoperator.azure.com/owner-group-kind";
/// UID of the Kubernetes owner.
pub const OWNER_UID: &str = "serviceoperator.azure.com/owner-uid";

/// Kubernetes takes no longer label values.
const LABEL_LENGTH: usize = 63;

/// The value of [`CLAIMED_BY`].
pub fn claim_mark(uid: &str, resource_id: &str) -> String {
    let digest = Sha256::digest(resource_id.as_bytes());
    let first = digest.iter().take(8).fold(0_u64, |hash, byte| hash << 8 | u64::from(*byte));
    format!("{uid}:{first:016x}")
}

/// Cuts a text so that it fits a label: at most 63 characters that end with a letter or digit.
pub fn label_value(text: &str) -> String {
    let cut: String = text.chars().take(LABEL_LENGTH).collect();
    cut.trim_end_matches(|c: char| !c.is_ascii_alphanumeric()).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_values_fit_and_end_with_a_letter_or_digit() {
        assert_eq!(label_value("short"), "short");
        let long = format!("{}.rest", "a".repeat(62));
        assert_eq!(label_value(&long), "a".repeat(62));
    }
}
