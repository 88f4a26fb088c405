//! The versions of a kind that are not served by default: every other api-version that Azure publishes.
//!
//! Kept true here: a kind costs nothing for them until the first request for one; then their list is read once, and each version's types once.

use std::sync::{Arc, OnceLock};

use super::Version;
use crate::archive::{self, Archive, Error, TIERS};
use crate::entry::{KindEntry, VersionEntry};
use crate::graph::NodeId;
use crate::names;

/// The other versions of a kind.
#[derive(Debug)]
pub(crate) struct Others {
    archive: Arc<Archive<'static>>,
    /// The kind's entry without its versions.
    entry: KindEntry,
    listed: OnceLock<Vec<Other>>,
}

#[derive(Debug)]
struct Other {
    version: VersionEntry,
    loaded: OnceLock<Version>,
}

impl Others {
    pub(crate) fn new(archive: Arc<Archive<'static>>, entry: &KindEntry) -> Self {
        let entry = KindEntry { versions: Vec::new(), ..entry.clone() };
        Self { archive, entry, listed: OnceLock::new() }
    }

    pub(super) fn names(&self) -> impl Iterator<Item = (&str, &str)> {
        self.listed().iter().map(|other| (other.version.name.as_str(), other.version.api_version.as_str()))
    }

    pub(super) fn version(&self, name: &str) -> Option<&Version> {
        let other = self.listed().iter().find(|other| other.version.name == name)?;
        Some(other.loaded.get_or_init(|| self.load(&other.version).unwrap_or_else(|error| self.damaged(&error))))
    }

    fn listed(&self) -> &[Other] {
        self.listed.get_or_init(|| {
            let mut all = self.archive.others(self.entry.block).unwrap_or_else(|error| self.damaged(&error));
            let own = all.remove(&self.entry.arm_type.to_ascii_lowercase()).unwrap_or_default();
            let version = |(api_version, root): (String, NodeId)| VersionEntry {
                name: names::version(&api_version),
                api_version,
                root,
            };
            own.into_iter().map(|other| Other { version: version(other), loaded: OnceLock::new() }).collect()
        })
    }

    fn load(&self, version: &VersionEntry) -> Result<Version, Error> {
        let text = self.archive.block(self.entry.block, TIERS)?;
        let (graph, roots) = archive::read_graph(&text, self.entry.block, std::slice::from_ref(version))?;
        Ok(Version::new(version, roots[0], Arc::new(graph), self.entry.clone()))
    }

    /// As for the kind itself: a test loads every version of the embedded catalog.
    fn damaged(&self, error: &Error) -> ! {
        panic!("the catalog entry of {} is damaged: {error}", self.entry.crd_name())
    }
}
