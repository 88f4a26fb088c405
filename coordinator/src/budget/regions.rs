//! The buckets of one identity and class, one per ARM region.
//!
//! A call's region is known only from its answer. Until the first answer there is one bucket without a region; the first
//! region that is named takes it over, since it was that region's bucket all along.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::bucket::Bucket;

/// Buckets by region.
#[derive(Debug, Default)]
pub(super) struct Regions {
    buckets: BTreeMap<Arc<str>, Bucket>,
    /// The region that took a call most recently: where calls without a region will go.
    latest: Arc<str>,
}

impl Regions {
    /// The bucket of a region, created at need.
    pub(super) fn bucket(&mut self, region: &Arc<str>, new: impl FnOnce() -> Bucket) -> &mut Bucket {
        let region = if region.is_empty() { self.latest.clone() } else { region.clone() };
        let unnamed = if region.is_empty() { None } else { self.buckets.remove("") };
        if self.latest.is_empty() {
            self.latest = region.clone();
        }
        self.buckets.entry(region).or_insert_with(|| unnamed.unwrap_or_else(new))
    }

    /// Notes where a call was answered.
    pub(super) fn answered_in(&mut self, region: &Arc<str>) {
        if !region.is_empty() {
            self.latest = region.clone();
        }
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (&Arc<str>, &mut Bucket)> {
        self.buckets.iter_mut()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Bucket)> {
        self.buckets.iter()
    }
}
