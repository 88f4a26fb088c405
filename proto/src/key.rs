//! The one ordered key space that shards are ranges of.
//!
//! Namespaces first, then kinds, then UIDs: a shard normally covers whole namespaces, so an owner and its children live
//! together; a heavy namespace is cut by kind and a heavy kind in it by UID, all by the same mechanism.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{GroupKind, v1};

/// FNV-1a with 64 bits, the hash that Kubernetes' sharded list and watch (KEP-5866) applies to the same fields.
fn fnv1a(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Where an object stands in the key space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Key {
    /// Hash of the namespace's name.
    pub namespace: u64,
    /// Hash of `group/Kind`.
    pub kind: u64,
    /// Hash of the object's UID.
    pub uid: u64,
}

impl Key {
    /// Before everything.
    pub const MIN: Key = Key { namespace: 0, kind: 0, uid: 0 };

    /// The key of one object.
    pub fn of(namespace: &str, kind: &GroupKind, uid: &str) -> Self {
        Self { namespace: fnv1a(namespace), kind: fnv1a(&kind.to_string()), uid: fnv1a(uid) }
    }

    /// The first key of a namespace.
    pub fn of_namespace(namespace: &str) -> Self {
        Self { namespace: fnv1a(namespace), ..Self::MIN }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.namespace)?;
        if (self.kind, self.uid) != (0, 0) {
            write!(f, ".{:016x}", self.kind)?;
        }
        if self.uid != 0 {
            write!(f, ".{:016x}", self.uid)?;
        }
        Ok(())
    }
}

/// A half-open range of keys; without an end it reaches to the end of the key space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct KeyRange {
    /// First key inside.
    pub start: Key,
    /// First key outside.
    pub end: Option<Key>,
}

impl KeyRange {
    /// The whole key space.
    pub const ALL: KeyRange = KeyRange { start: Key::MIN, end: None };

    /// Whether the key lies inside.
    pub fn contains(&self, key: &Key) -> bool {
        self.start <= *key && self.end.is_none_or(|end| *key < end)
    }

    /// Whether the two share a key.
    pub fn overlaps(&self, other: &KeyRange) -> bool {
        self.end.is_none_or(|end| other.start < end) && other.end.is_none_or(|end| self.start < end)
    }
}

impl fmt::Display for KeyRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.end {
            Some(end) => write!(f, "[{}, {end})", self.start),
            None => write!(f, "[{}, end)", self.start),
        }
    }
}

impl From<Key> for v1::Key {
    fn from(key: Key) -> Self {
        Self { namespace: key.namespace, kind: key.kind, uid: key.uid }
    }
}

impl From<v1::Key> for Key {
    fn from(key: v1::Key) -> Self {
        Self { namespace: key.namespace, kind: key.kind, uid: key.uid }
    }
}

impl From<KeyRange> for v1::KeyRange {
    fn from(range: KeyRange) -> Self {
        Self { start: Some(range.start.into()), end: range.end.map(Into::into) }
    }
}

impl From<v1::KeyRange> for KeyRange {
    fn from(range: v1::KeyRange) -> Self {
        Self { start: range.start.map_or(Key::MIN, Into::into), end: range.end.map(Into::into) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reference values of the FNV-1a function: <http://www.isthe.com/chongo/tech/comp/fnv/>, and Go's `hash/fnv`.
    #[test]
    fn hash_is_the_one_of_the_kubernetes_api_server() {
        assert_eq!(fnv1a(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a("a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a("foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn a_namespace_is_one_contiguous_range() {
        let kind = GroupKind::new("storage.azure.com", "StorageAccount");
        let start = Key::of_namespace("team-a");
        let next = Key { namespace: start.namespace + 1, ..Key::MIN };
        let range = KeyRange { start, end: Some(next) };
        assert!(range.contains(&Key::of("team-a", &kind, "1f0c")));
        assert!(!range.contains(&Key::of("team-b", &kind, "1f0c")));
    }

    #[test]
    fn ranges_that_touch_do_not_overlap() {
        let cut = Key::of_namespace("m");
        let left = KeyRange { start: Key::MIN, end: Some(cut) };
        let right = KeyRange { start: cut, end: None };
        assert!(!left.overlaps(&right) && !right.overlaps(&left));
        assert!(KeyRange::ALL.overlaps(&left) && right.overlaps(&KeyRange::ALL));
    }
}
