//! The versions of a kind that a pattern asks for.

use std::collections::BTreeSet;

use crate::kind::{Kind, Version};

/// The versions of a kind that a pattern asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// Those that are served by default.
    pub default: bool,
    /// These, by api-version.
    pub api_versions: BTreeSet<String>,
}

/// An ARM type has no such api-version, as far as this catalog knows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{arm_type} has no api-version {wanted} in this catalog; the newest are {newest}")]
pub struct UnknownVersion {
    /// The ARM type.
    pub arm_type: String,
    /// What was asked for.
    pub wanted: String,
    /// The newest that there are.
    pub newest: String,
}

impl UnknownVersion {
    fn new(kind: &Kind, wanted: &str) -> Self {
        let served = kind.versions().iter().map(Version::api_version);
        let all: BTreeSet<&str> = served.chain(kind.other_versions().map(|(_, api)| api)).collect();
        let newest: Vec<&str> = all.into_iter().rev().take(5).collect();
        Self { arm_type: kind.arm_type().to_owned(), wanted: wanted.to_owned(), newest: newest.join(", ") }
    }
}

impl Kind {
    /// The names of the versions that a pattern asks for: all of an api-version, which may have two names, and always the hub, by which
    /// objects of other kinds name their owner.
    pub fn versions_asked(&self, asked: &Asked) -> Result<BTreeSet<&str>, UnknownVersion> {
        let default = self.versions().iter().filter(|_| asked.default).map(Version::name);
        let mut names: BTreeSet<&str> = default.chain(self.hub().map(Version::name)).collect();
        for wanted in &asked.api_versions {
            let mut found: Vec<&str> =
                self.versions().iter().filter(|v| v.api_version() == wanted).map(Version::name).collect();
            if found.is_empty() {
                found.extend(self.other_versions().filter(|(_, api)| api == wanted).map(|(name, _)| name));
            }
            if found.is_empty() {
                return Err(UnknownVersion::new(self, wanted));
            }
            names.extend(found);
        }
        Ok(names)
    }
}
