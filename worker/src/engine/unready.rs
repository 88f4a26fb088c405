//! What is not ready, why, and since when: the Ready conditions of all objects, added up for metrics.
//!
//! Never by object. Reasons are ARM's error codes among others, an open set, so only the most frequent get a label.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use flotilla_proto::GroupKind;

use super::condition::Severity;
use crate::metrics::{Group, Tally};

/// More reasons than this become [`OTHER`]: a dashboard shows the top of the list, and a label must not grow without end.
const REASONS: usize = 30;
/// Stands for all further reasons.
const OTHER: &str = "Other";

/// An object's Ready condition, if it is not True.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unready {
    /// Why.
    pub reason: Box<str>,
    /// How bad.
    pub severity: Severity,
    /// Since when, in seconds of Unix time.
    pub since: i64,
}

/// Adds up.
pub(crate) fn tally<'a>(objects: impl Iterator<Item = (&'a Arc<GroupKind>, &'a Unready)>) -> BTreeMap<Group, Tally> {
    let mut groups: BTreeMap<Group, Tally> = BTreeMap::new();
    for (kind, unready) in objects {
        let group = Group { kind: Arc::clone(kind), severity: unready.severity, reason: unready.reason.to_string() };
        add(&mut groups, group, Tally { objects: 1, since: unready.since });
    }
    let mut by_reason: BTreeMap<&str, u64> = BTreeMap::new();
    for (group, tally) in &groups {
        *by_reason.entry(&group.reason).or_default() += tally.objects;
    }
    if by_reason.len() <= REASONS {
        return groups;
    }
    let mut reasons: Vec<(u64, &str)> = by_reason.into_iter().map(|(reason, objects)| (objects, reason)).collect();
    reasons.sort_unstable_by(|a, b| b.cmp(a));
    let kept: BTreeSet<String> = reasons.into_iter().take(REASONS).map(|(_, reason)| reason.to_owned()).collect();
    let mut folded = BTreeMap::new();
    for (mut group, tally) in groups {
        if !kept.contains(&group.reason) {
            OTHER.clone_into(&mut group.reason);
        }
        add(&mut folded, group, tally);
    }
    folded
}

fn add(groups: &mut BTreeMap<Group, Tally>, group: Group, more: Tally) {
    let tally = groups.entry(group).or_insert(Tally { objects: 0, since: more.since });
    tally.objects += more.objects;
    tally.since = tally.since.min(more.since);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account() -> Arc<GroupKind> {
        Arc::new(GroupKind::new("storage.azure.com", "StorageAccount"))
    }

    fn unready(reason: &str, since: i64) -> Unready {
        Unready { reason: reason.into(), severity: Severity::Warning, since }
    }

    #[test]
    fn objects_that_are_alike_are_one_line_with_the_oldest_time() {
        let (kind, other) = (account(), Arc::new(GroupKind::new("resources.azure.com", "ResourceGroup")));
        let objects = [unready("QuotaExceeded", 20), unready("QuotaExceeded", 10), unready("WaitingForOwner", 5)];
        let all = objects.iter().map(|object| (&kind, object)).chain([(&other, &objects[0])]);
        let groups = tally(all);
        let line = |kind: &Arc<GroupKind>, reason: &str| {
            let (kind, severity, reason) = (Arc::clone(kind), Severity::Warning, reason.to_owned());
            groups[&Group { kind, severity, reason }]
        };
        assert_eq!(groups.len(), 3);
        assert_eq!(line(&kind, "QuotaExceeded"), Tally { objects: 2, since: 10 });
        assert_eq!(line(&kind, "WaitingForOwner"), Tally { objects: 1, since: 5 });
        assert_eq!(line(&other, "QuotaExceeded"), Tally { objects: 1, since: 20 });
    }

    #[test]
    fn rare_reasons_are_folded_and_none_is_lost() {
        let kind = account();
        let often = std::iter::repeat_n("QuotaExceeded".to_owned(), 5);
        let objects: Vec<Unready> = (0..100).map(|n| format!("Code{n}")).chain(often).map(|r| unready(&r, 1)).collect();
        let groups = tally(objects.iter().map(|object| (&kind, object)));
        let reasons: BTreeSet<&str> = groups.keys().map(|group| group.reason.as_str()).collect();
        assert_eq!(reasons.len(), REASONS + 1);
        assert!(reasons.contains("QuotaExceeded") && reasons.contains(OTHER));
        assert_eq!(groups.values().map(|tally| tally.objects).sum::<u64>(), 105);
    }

    #[test]
    fn a_condition_says_why_and_since_when_whatever_it_holds() {
        let seen = |ready: serde_json::Value| -> Option<Unready> {
            let object = serde_json::json!({
                "metadata": {"name": "a", "creationTimestamp": "2026-01-01T00:00:00Z"},
                "status": {"conditions": [ready]},
            });
            serde_json::from_value::<super::super::seen::Seen>(object).unwrap().unready()
        };
        let failed = serde_json::json!({
            "type": "Ready", "status": "False", "reason": "QuotaExceeded", "severity": "Error",
            "lastTransitionTime": "2026-01-01T00:01:00Z",
        });
        let expected = Unready { reason: "QuotaExceeded".into(), severity: Severity::Error, since: 1_767_225_660 };
        assert_eq!(seen(failed), Some(expected));
        let odd =
            serde_json::json!({"type": "Ready", "status": "Unknown", "severity": "Dire", "lastTransitionTime": "?"});
        let expected = Unready { reason: "".into(), severity: Severity::None, since: 1_767_225_600 };
        assert_eq!(seen(odd), Some(expected));
        assert_eq!(seen(serde_json::json!({"type": "Ready", "status": "True"})), None);
        assert_eq!(seen(serde_json::json!({"type": "Other", "status": "True"})).unwrap().reason, "New".into());
    }
}
