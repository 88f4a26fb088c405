//! Which of our CRDs the cluster has.

use std::collections::{BTreeMap, BTreeSet};

use flotilla_crds::Catalog;
use flotilla_proto::GroupKind;

/// CRDs in the cluster that the catalog knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Installed {
    /// Names such as `storageaccounts.storage.azure.com`.
    pub(crate) names: BTreeSet<String>,
    /// Those that were there before this leader installed any, so that objects may be stored already.
    pub(crate) from_before: BTreeSet<String>,
    /// Whether the cluster was asked at least once.
    pub(crate) complete: bool,
}

impl Installed {
    /// The installed kinds in order; only those from before us if asked so.
    pub(crate) fn kinds(&self, catalog: &Catalog, only_from_before: bool) -> Vec<GroupKind> {
        let names = if only_from_before { &self.from_before } else { &self.names };
        let known = names.iter().filter_map(|name| catalog.kind_of_crd(name));
        let kinds: BTreeSet<GroupKind> = known.map(|entry| GroupKind::new(&entry.group, &entry.kind)).collect();
        kinds.into_iter().collect()
    }

    /// What a list of CRDs shows, by name.
    pub(crate) fn seen<T>(catalog: &Catalog, crds: &BTreeMap<String, T>) -> Self {
        let known = crds.keys().filter(|name| catalog.kind_of_crd(name).is_some());
        let names: BTreeSet<_> = known.cloned().collect();
        Self { from_before: names.clone(), names, complete: true }
    }
}
