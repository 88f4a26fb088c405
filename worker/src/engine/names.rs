//! What we write into annotations and labels.

use flotilla_proto::digest;
pub(crate) use flotilla_proto::names::{
    APPLIED, CHILD_RESOURCE_ID_OVERRIDE, CLAIMED_BY, CREDENTIAL_FROM, FIELD_MANAGER, FINALIZER, OPERATION,
    OPERATOR_NAMESPACE, OWNER_GROUP_KIND, OWNER_NAME, OWNER_UID, RECONCILE_POLICY, REPORTER, RESOURCE_ID,
};

/// Kubernetes takes no longer label values.
const LABEL_LENGTH: usize = 63;

/// The value of [`CLAIMED_BY`].
pub(crate) fn claim_mark(uid: &str, resource_id: &str) -> String {
    format!("{uid}:{}", digest::short(resource_id))
}

/// Cuts a text so that it fits a label: at most 63 characters that end with a letter or digit.
pub(crate) fn label_value(text: &str) -> String {
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
