//! What became of a CRD or a policy in one pass.

use std::collections::BTreeSet;

/// What happened to a CRD or a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It was as it should be.
    Unchanged,
    /// It was written.
    Written,
}

/// What became of a CRD.
pub(super) struct Done {
    pub(super) outcome: Outcome,
    /// Objects should be inspected again soon.
    pub(super) inspect_again: bool,
    /// The versions that its CRD serves.
    pub(super) serves: BTreeSet<String>,
}
