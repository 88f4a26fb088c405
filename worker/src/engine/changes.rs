//! Objects that became ready or went away, until those that wait for them are woken.
//!
//! A set and not a channel: an object that changes twice is in it once, so it holds at most the objects of our own shards and can't
//! overflow. Losing a change would cost time only: whoever waits has a timer of its own.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::object::Id;

/// The set.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    ids: Mutex<HashSet<Id>>,
    added: Notify,
}

impl Changes {
    /// An object became ready or went away.
    pub(crate) fn add(&self, id: Id) {
        self.ids().insert(id);
        self.added.notify_one();
    }

    /// Waits until there are some, and takes them all.
    pub(crate) async fn take(&self) -> Vec<Id> {
        loop {
            let ids = std::mem::take(&mut *self.ids());
            if !ids.is_empty() {
                return ids.into_iter().collect();
            }
            self.added.notified().await;
        }
    }

    fn ids(&self) -> MutexGuard<'_, HashSet<Id>> {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::super::trouble::core;
    use super::*;

    #[tokio::test]
    async fn object_that_changes_twice_is_taken_once_and_none_is_lost() {
        let changes = Changes::default();
        for name in ["a", "b", "a"] {
            changes.add(core("Secret", "n", name));
        }
        let mut names: Vec<_> = changes.take().await.into_iter().map(|id| id.name.to_string()).collect();
        names.sort();
        assert_eq!(names, ["a", "b"]);
        let (taken, ()) = tokio::join!(changes.take(), async { changes.add(core("Secret", "n", "c")) });
        assert_eq!(taken.len(), 1);
    }
}
