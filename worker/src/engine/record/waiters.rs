//! Who waits for a change of which object, and for which objects outside of our own shards.

use std::collections::{HashMap, HashSet};

use crate::engine::object::Id;

/// The index from each object to those that wait for it.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    by_target: HashMap<Id, HashSet<Id>>,
    changed: bool,
}

impl Waiters {
    /// What `id` waits for is `after` instead of `before`.
    pub(super) fn replace(&mut self, id: &Id, before: &[Id], after: &[Id]) {
        for target in before.iter().filter(|target| !after.contains(target)) {
            self.remove(target, id);
        }
        for target in after.iter().filter(|target| !before.contains(target)) {
            self.by_target.entry(target.clone()).or_default().insert(id.clone());
            self.changed = true;
        }
    }

    /// Who waits for `target`.
    pub(super) fn of(&self, target: &Id) -> Vec<Id> {
        self.by_target.get(target).into_iter().flatten().cloned().collect()
    }

    /// Everything that somebody waits for, if that has changed since the last call.
    pub(super) fn take_changed(&mut self) -> Option<impl Iterator<Item = &Id>> {
        std::mem::take(&mut self.changed).then(|| self.by_target.keys())
    }

    fn remove(&mut self, target: &Id, id: &Id) {
        self.changed = true;
        if let Some(waiters) = self.by_target.get_mut(target) {
            waiters.remove(id);
            if waiters.is_empty() {
                self.by_target.remove(target);
            }
        }
    }
}
