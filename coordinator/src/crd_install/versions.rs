//! Which versions of a kind a CRD serves.
//!
//! Kept true here: a version that an object or a manager uses is never dropped, whatever is asked for, as long as the catalog
//! has it. The API server's memory grows with the versions it serves, so what nobody uses may go.

use std::collections::BTreeSet;
use std::fmt;

use flotilla_crds::{Kind, Version};

use super::usage::Usage;

/// How many versions are installed where nobody asks for one by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Versions {
    /// Every one of the kind's.
    #[default]
    All,
    /// The newest that is not a preview, and those in use.
    Newest,
}

impl Versions {
    /// As the command line and the chart have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Newest => "newest",
        }
    }
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What is asked of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    /// Whether the kind's own versions are wanted, as many as the setting says.
    pub(super) default: bool,
    /// Versions that the pattern names.
    pub(super) named: BTreeSet<String>,
}

/// What a kind can serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Offer {
    /// Its own versions.
    pub(super) default: BTreeSet<String>,
    /// The one of them that new manifests should have.
    pub(super) newest: Option<String>,
}

impl Offer {
    /// What the catalog says of a kind.
    pub(super) fn of(kind: &Kind) -> Self {
        // A storage version is named after the newest version that is not a preview.
        let newest = kind.hub().or(kind.versions().last());
        Self {
            default: kind.versions().iter().map(|version| version.name().to_owned()).collect(),
            newest: newest.map(|version| version.name().to_owned()),
        }
    }
}

/// The versions that a CRD serves, its storage version aside.
///
/// Pure. `used` are versions in use by objects and managers; those that the catalog does not have are not among them.
pub(super) fn served(offer: &Offer, setting: Versions, asked: &Asked, used: &BTreeSet<String>) -> BTreeSet<String> {
    let mut served = asked.named.clone();
    match setting {
        _ if !asked.default => {}
        Versions::All => served.extend(offer.default.iter().cloned()),
        Versions::Newest => served.extend(offer.newest.iter().cloned()),
    }
    served.extend(used.iter().cloned());
    served
}

/// The versions of a kind that its objects use, when these are served.
///
/// An api-version that no manager's version stands for is one whose manager was forgotten: then every served version with it
/// counts, or else the first that the catalog has.
pub(super) fn in_use(kind: &Kind, now: &BTreeSet<String>, usage: &Usage) -> BTreeSet<String> {
    let known =
        |names: &BTreeSet<String>| -> Vec<&Version> { names.iter().filter_map(|name| known(kind, name)).collect() };
    let mut used = known(&usage.versions);
    for api in &usage.api_versions {
        let has_it = |version: &&Version| version.api_version() == api;
        if !used.iter().any(has_it) {
            let served: Vec<&Version> = known(now).into_iter().filter(has_it).collect();
            used.extend(if served.is_empty() { kind.version_for_api(api).into_iter().collect() } else { served });
        }
    }
    used.into_iter().map(|version| version.name().to_owned()).collect()
}

/// The version with this name, if it is one that manifests have: objects are only stored in storage versions.
pub(super) fn known<'a>(kind: &'a Kind, name: &str) -> Option<&'a Version> {
    kind.version(name).filter(|version| version.name() == name)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    fn asked(named: &[&str]) -> Asked {
        Asked { default: named.is_empty(), named: set(named) }
    }

    #[test]
    fn newest_serves_one_version_and_those_in_use() {
        let offer = Offer { default: set(&["v1", "v2", "v3preview"]), newest: Some("v2".to_owned()) };
        let serves = |setting, named: &[&str], used: &[&str]| served(&offer, setting, &asked(named), &set(used));
        assert_eq!(serves(Versions::Newest, &[], &[]), set(&["v2"]));
        assert_eq!(serves(Versions::Newest, &[], &["v1", "v9"]), set(&["v1", "v2", "v9"]));
        assert_eq!(serves(Versions::All, &[], &["v9"]), set(&["v1", "v2", "v3preview", "v9"]));
        assert_eq!(serves(Versions::All, &["v9"], &["v1"]), set(&["v1", "v9"]));
    }

    #[test]
    fn newest_of_a_kind_is_its_hub_even_where_a_preview_is_newer() {
        let kind = flotilla_crds::Catalog::embedded().kind("containerservice.azure.com", "ManagedCluster").unwrap();
        let offer = Offer::of(&kind);
        assert!(offer.default.iter().any(|name| name.ends_with("preview")));
        assert!(offer.newest.as_deref().is_some_and(|name| !name.ends_with("preview") && offer.default.contains(name)));
    }

    #[test]
    fn a_storage_version_is_none_that_manifests_have() {
        let kind = flotilla_crds::Catalog::embedded().kind("storage.azure.com", "StorageAccount").unwrap();
        let newest = kind.hub().unwrap().name();
        assert!(known(&kind, newest).is_some());
        assert!(known(&kind, &kind.entry().storage_version()).is_none());
        assert!(known(&kind, "v1alpha1").is_none());
    }

    #[test]
    fn api_version_of_a_forgotten_manager_keeps_its_versions() {
        let kind = flotilla_crds::Catalog::embedded().kind("storage.azure.com", "StorageAccount").unwrap();
        let usage = |versions: &[&str], api_versions: &[&str]| Usage {
            versions: set(versions),
            api_versions: set(api_versions),
        };
        let (old, api) = (kind.versions()[0].name(), kind.versions()[0].api_version());
        let now = set(&[old]);
        assert_eq!(in_use(&kind, &now, &usage(&[], &[api])), now);
        assert_eq!(in_use(&kind, &set(&[]), &usage(&[], &[api])), now, "dropped already");
        assert_eq!(in_use(&kind, &now, &usage(&[old], &[api])), now);
        let storage = kind.entry().storage_version();
        assert_eq!(in_use(&kind, &now, &usage(&[&storage, "v1alpha1"], &["1999-01-01"])), set(&[]));
    }

    fn names() -> impl Strategy<Value = BTreeSet<String>> {
        prop::collection::btree_set("v[1-9]", 0..6)
    }

    proptest! {
        #[test]
        fn whatever_managers_of_real_objects_use_is_served(
            managers in prop::collection::btree_set(0..8_usize, 0..4),
            forgotten in prop::collection::btree_set(0..8_usize, 0..3),
            strangers in prop::collection::btree_set("v1(api|beta)20[0-9]{2}0101(storage)?", 0..3),
            now in prop::collection::btree_set(0..8_usize, 0..8),
        ) {
            let kind = flotilla_crds::Catalog::embedded().kind("storage.azure.com", "StorageAccount").unwrap();
            let names = |picked: &BTreeSet<usize>| -> BTreeSet<String> {
                picked.iter().filter_map(|&index| Some(kind.versions().get(index)?.name().to_owned())).collect()
            };
            let api_of = |&index: &usize| Some(kind.versions().get(index)?.api_version().to_owned());
            let api_versions: BTreeSet<String> = forgotten.iter().filter_map(api_of).collect();
            let usage = Usage { versions: &names(&managers) | &strangers, api_versions: api_versions.clone() };
            let used = in_use(&kind, &names(&now), &usage);
            let asked = Asked { default: true, named: BTreeSet::new() };
            let serves = served(&Offer::of(&kind), Versions::Newest, &asked, &used);

            prop_assert!(serves.is_superset(&names(&managers)));
            let apis = serves.iter().map(|name| known(&kind, name).unwrap().api_version().to_owned());
            prop_assert!(apis.collect::<BTreeSet<_>>().is_superset(&api_versions));
        }

        #[test]
        fn what_is_used_or_asked_for_is_never_dropped(
            default in names(), newest in 0..6_usize, all: bool, by_default: bool, named in names(), used in names(),
        ) {
            let newest = default.iter().nth(newest).or(default.last()).cloned();
            let offer = Offer { default, newest };
            let setting = if all { Versions::All } else { Versions::Newest };
            let asked = Asked { default: by_default, named };
            let serves = served(&offer, setting, &asked, &used);

            prop_assert!(serves.is_superset(&used) && serves.is_superset(&asked.named));
            prop_assert!(!by_default || offer.newest.iter().all(|newest| serves.contains(newest)));
            // Nothing comes from nowhere, and more use never means fewer versions.
            let unused = served(&offer, setting, &asked, &BTreeSet::new());
            prop_assert!(serves.iter().all(|name| unused.contains(name) || used.contains(name)));
            prop_assert!(serves.is_superset(&unused));
            // What is served may be taken for what is used: then nothing changes.
            prop_assert_eq!(served(&offer, setting, &asked, &serves), serves);
        }
    }
}
