//! Leases that nobody holds: pods have new names, and their leases would pile up.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::membership::LeaseSeen;

/// The vacant leases by pod, with the version seen and since when.
#[derive(Debug, Default)]
pub(super) struct VacantLeases(BTreeMap<String, (String, Instant)>);

impl VacantLeases {
    /// Takes in what was read. Returns pod and version of each lease that nobody has held or changed for as long as `keep`; it is
    /// returned once.
    pub(super) fn overdue(&mut self, leases: &[LeaseSeen], keep: Duration, now: Instant) -> Vec<(String, String)> {
        let vacant = leases.iter().filter(|lease| lease.holder.is_none());
        let seen = vacant.map(|lease| match self.0.get(&lease.pod) {
            Some((version, since)) if *version == lease.version => (lease.pod.clone(), (version.clone(), *since)),
            _ => (lease.pod.clone(), (lease.version.clone(), now)),
        });
        self.0 = seen.collect();
        let old = self.0.extract_if(.., |_, (_, since)| now >= *since + keep);
        old.map(|(pod, (version, _))| (pod, version)).collect()
    }
}

#[cfg(test)]
mod tests {
    use flotilla_proto::WorkerId;

    use super::*;

    const KEEP: Duration = Duration::from_mins(10);

    fn lease(pod: &str, holder: bool, version: &str) -> LeaseSeen {
        LeaseSeen {
            pod: pod.into(),
            holder: holder.then(|| WorkerId::new(pod, "1")),
            fenced: false,
            renewal: String::new(),
            version: version.into(),
        }
    }

    #[test]
    fn lease_goes_when_nobody_has_held_or_changed_it_for_long() {
        let (mut vacant, start) = (VacantLeases::default(), Instant::now());
        let seen = [lease("held", true, "1"), lease("gone", false, "1"), lease("changed", false, "1")];
        assert!(vacant.overdue(&seen, KEEP, start).is_empty());
        let seen = [lease("held", true, "1"), lease("gone", false, "1"), lease("changed", false, "2")];
        assert!(vacant.overdue(&seen, KEEP, start + KEEP / 2).is_empty());
        assert_eq!(vacant.overdue(&seen, KEEP, start + KEEP), [("gone".to_owned(), "1".to_owned())]);
    }
}
