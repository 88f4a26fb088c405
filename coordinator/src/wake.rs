//! Whom to wake, and for which objects, when something that they wait for has changed.
//!
//! Workers say what they wait for; whoever sees a change says so; this index joins the two. A lost wake-up costs time only,
//! so nothing here is stored or acknowledged.

use std::collections::{BTreeMap, BTreeSet};

use flotilla_proto::{WorkerId, v1};

/// Names something that is waited for: an owner, a reference, a Secret or a ConfigMap.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectName {
    /// API group; empty for core kinds.
    pub group: String,
    /// Kind.
    pub kind: String,
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl ObjectName {
    /// An object of a core kind.
    pub fn core(kind: &str, namespace: &str, name: &str) -> Self {
        let [group, kind, namespace, name] = ["", kind, namespace, name].map(str::to_owned);
        Self { group, kind, namespace, name }
    }
}

impl From<v1::ObjectName> for ObjectName {
    fn from(name: v1::ObjectName) -> Self {
        let v1::ObjectName { group, kind, namespace, name } = name;
        Self { group, kind, namespace, name }
    }
}

impl From<ObjectName> for v1::ObjectName {
    fn from(name: ObjectName) -> Self {
        let ObjectName { group, kind, namespace, name } = name;
        Self { group, kind, namespace, name }
    }
}

/// Which core kinds somebody waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) secrets: bool,
    pub(crate) config_maps: bool,
}

/// What all workers wait for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interests {
    by_worker: BTreeMap<WorkerId, BTreeSet<ObjectName>>,
    by_object: BTreeMap<ObjectName, BTreeSet<WorkerId>>,
}

impl Interests {
    /// The whole list of one worker; replaces the one before.
    pub(crate) fn set(&mut self, worker: &WorkerId, objects: impl IntoIterator<Item = ObjectName>) {
        self.forget(worker);
        let objects: BTreeSet<_> = objects.into_iter().collect();
        for object in &objects {
            self.by_object.entry(object.clone()).or_default().insert(worker.clone());
        }
        if !objects.is_empty() {
            self.by_worker.insert(worker.clone(), objects);
        }
    }

    /// A worker has gone.
    pub(crate) fn forget(&mut self, worker: &WorkerId) {
        for object in self.by_worker.remove(worker).into_iter().flatten() {
            if let Some(workers) = self.by_object.get_mut(&object) {
                workers.remove(worker);
                if workers.is_empty() {
                    self.by_object.remove(&object);
                }
            }
        }
    }

    /// Whom to wake for these objects, with those that each waits for. The worker that saw the change itself is left out.
    pub(crate) fn route(
        &self,
        changed: impl IntoIterator<Item = ObjectName>,
        seen_by: Option<&WorkerId>,
    ) -> BTreeMap<WorkerId, Vec<ObjectName>> {
        let mut wakes: BTreeMap<WorkerId, Vec<ObjectName>> = BTreeMap::new();
        for object in changed {
            for worker in self.by_object.get(&object).into_iter().flatten().filter(|worker| Some(*worker) != seen_by) {
                wakes.entry(worker.clone()).or_default().push(object.clone());
            }
        }
        wakes
    }

    /// Which core kinds somebody waits for.
    pub(crate) fn wanted(&self) -> Wanted {
        Wanted { secrets: self.wants_core("Secret"), config_maps: self.wants_core("ConfigMap") }
    }

    /// Whether anybody waits for an object of this core kind.
    fn wants_core(&self, kind: &str) -> bool {
        // Core kinds have the empty group and so come first.
        self.by_object.keys().take_while(|name| name.group.is_empty()).any(|name| name.kind == kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker(pod: &str) -> WorkerId {
        WorkerId::new(pod, "1")
    }

    fn secret(name: &str) -> ObjectName {
        ObjectName::core("Secret", "default", name)
    }

    #[test]
    fn only_those_who_wait_are_woken() {
        let mut interests = Interests::default();
        interests.set(&worker("a"), [secret("x"), secret("y")]);
        interests.set(&worker("b"), [secret("y")]);
        let wakes = interests.route([secret("y"), secret("z")], None);
        assert_eq!(wakes, BTreeMap::from([(worker("a"), vec![secret("y")]), (worker("b"), vec![secret("y")])]));
        assert_eq!(interests.route([secret("y")], Some(&worker("a"))).len(), 1);
    }

    #[test]
    fn new_list_replaces_the_old_one() {
        let mut interests = Interests::default();
        interests.set(&worker("a"), [secret("x")]);
        assert!(interests.wants_core("Secret") && !interests.wants_core("ConfigMap"));
        interests.set(&worker("a"), [ObjectName { group: "x.azure.com".into(), ..secret("x") }]);
        assert!(interests.route([secret("x")], None).is_empty() && !interests.wants_core("Secret"));
        interests.forget(&worker("a"));
        assert!(interests.by_object.is_empty() && interests.by_worker.is_empty());
    }
}
