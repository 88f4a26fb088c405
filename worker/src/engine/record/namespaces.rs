//! The names of namespaces, each once: every object's id holds its namespace's.

use std::collections::HashSet;
use std::sync::Arc;

/// Names kept in any case, so that few are looked through often.
const FEW: usize = 64;

/// The names.
#[derive(Debug, Default)]
pub(super) struct Namespaces {
    names: HashSet<Arc<str>>,
    limit: usize,
}

impl Namespaces {
    /// The one copy of a name.
    pub(super) fn intern(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.names.get(name) {
            return Arc::clone(known);
        }
        // Namespaces come and go; a name that only this set holds belongs to one that went.
        if self.names.len() >= self.limit.max(FEW) {
            self.names.retain(|name| Arc::strong_count(name) > 1);
            self.limit = self.names.len() * 2;
        }
        let name: Arc<str> = name.into();
        self.names.insert(Arc::clone(&name));
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_namespaces_that_went_are_forgotten() {
        let mut namespaces = Namespaces::default();
        for n in 0..10_000 {
            namespaces.intern(&format!("n-{n}"));
        }
        assert!(namespaces.names.len() <= 128, "{}", namespaces.names.len());
    }
}
