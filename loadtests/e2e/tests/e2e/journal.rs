//! What armsim's journal and the audit log say about who wrote what.
//!
//! Law: at any moment at most one worker may write to a resource, and to the object that stands for it. Between two writes by different workers the shard map
//! must have been written, because a shard has no other way from one worker to another.

use std::collections::BTreeMap;

use flotilla_armsim::{Entry, Method, Outcome};
use flotilla_testbed::control_plane::audit::Event;
use jiff::Timestamp;

/// A call that may have changed a resource or an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Write {
    /// The resource's path in lower case, or the object's group, plural, namespace and name.
    pub(crate) path: String,
    pub(crate) worker: String,
    pub(crate) begun: Timestamp,
    pub(crate) answered: Timestamp,
}

impl Write {
    pub(crate) fn of(call: &Entry) -> Option<Self> {
        if !matches!(call.method, Method::Put | Method::Patch | Method::Delete) {
            return None;
        }
        let worker = worker_of(&call.user_agent)?.to_owned();
        let answered = call.time.saturating_add(call.duration).ok()?;
        Some(Self { path: call.path.to_lowercase(), worker, begun: call.time, answered })
    }

    /// The audit log tells when a write began; that is taken for its end, too.
    pub(crate) fn of_object(event: &Event) -> Option<Self> {
        let worker = worker_of(&event.user_agent)?.to_owned();
        let object = event.object.as_ref().filter(|object| object.api_group.ends_with(".azure.com"))?;
        let path = [&*object.api_group, &object.resource, &object.namespace, &object.name].join("/");
        event.is_write().then_some(Self { path, worker, begun: event.at, answered: event.at })
    }
}

/// The User-Agent says `flotilla/<version> worker/<pod>`.
pub(crate) fn worker_of(user_agent: &str) -> Option<&str> {
    user_agent.split(' ').find_map(|part| part.strip_prefix("worker/"))
}

/// Whether this was a PUT that ARM took.
pub(crate) fn is_accepted_put(call: &Entry) -> bool {
    call.method == Method::Put && call.outcome == Outcome::Ok
}

/// Everything that breaks the law of one writer; `hand_offs` are the times at which the shard map was written.
pub(crate) fn double_writes(writes: impl IntoIterator<Item = Write>, hand_offs: &[Timestamp]) -> Vec<String> {
    let mut by_path: BTreeMap<String, Vec<Write>> = BTreeMap::new();
    for write in writes {
        by_path.entry(write.path.clone()).or_default().push(write);
    }
    let mut found = Vec::new();
    for (path, mut writes) in by_path {
        writes.sort_by_key(|write| write.begun);
        for pair in writes.windows(2) {
            let [earlier, later] = pair else { continue };
            if earlier.worker == later.worker {
                continue;
            }
            let who = format!("{path}: {} at {}, {} at {}", earlier.worker, earlier.begun, later.worker, later.begun);
            if later.begun < earlier.answered {
                found.push(format!("{who} overlap"));
            } else if !hand_offs.iter().any(|at| (earlier.begun..=later.begun).contains(at)) {
                found.push(format!("{who} without a hand-off between them"));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millisecond: i64) -> Timestamp {
        Timestamp::from_millisecond(1_800_000_000_000 + millisecond).unwrap_or(Timestamp::MAX)
    }

    fn write(worker: &str, begun: i64, answered: i64) -> Write {
        Write { path: "/a".to_owned(), worker: worker.to_owned(), begun: at(begun), answered: at(answered) }
    }

    #[test]
    fn writes_of_two_workers_need_a_hand_over_between_them() {
        let writes = || [write("a", 0, 10), write("a", 5, 20), write("b", 100, 110)];
        assert!(double_writes(writes(), &[at(50)]).is_empty());
        assert_eq!(double_writes(writes(), &[at(150)]).len(), 1);
        assert!(double_writes([write("a", 0, 10), write("b", 5, 20)], &[at(3)])[0].contains("overlap"));
    }

    #[test]
    fn other_resources_do_not_matter() {
        let other = Write { path: "/b".to_owned(), ..write("b", 5, 20) };
        assert!(double_writes([write("a", 0, 10), other], &[]).is_empty());
    }
}
