//! The one ordered key space that shards are ranges of.
//!
//! Namespaces first, then kinds, then UIDs: a shard normally covers whole namespaces, so an owner and its children live
//! together; a heavy namespace is cut by kind and a heavy kind in it by UID, all by the same mechanism.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{GroupKind, v1};

/// FNV-1a with 64 bits, the hash that Kubernetes' sharded list and watch (KEP-5866) applies to the same fields.
fn fnv1a(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Where an object stands in the key space.
///
/// Written as its hexadecimal parts with dots between them and zero parts left off at the end; in JSON too, because a
/// JSON number does not hold 64 bits everywhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
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

/// A text that names no place in the key space.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not a key; expected one to three hexadecimal numbers with dots between them")]
pub struct NotAKey(String);

impl FromStr for Key {
    type Err = NotAKey;

    fn from_str(text: &str) -> Result<Self, NotAKey> {
        let no_key = || NotAKey(text.to_owned());
        let mut parts = [0; 3];
        for (index, part) in text.split('.').enumerate() {
            *parts.get_mut(index).ok_or_else(no_key)? = u64::from_str_radix(part, 16).map_err(|_| no_key())?;
        }
        let [namespace, kind, uid] = parts;
        Ok(Self { namespace, kind, uid })
    }
}

impl Serialize for Key {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// A half-open range of keys; without an end it reaches to the end of the key space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct KeyRange {
    /// First key inside.
    pub start: Key,
    /// First key outside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<Key>,
}

impl KeyRange {
    /// The whole key space.
    pub const ALL: KeyRange = KeyRange { start: Key::MIN, end: None };

    /// Whether the key lies inside.
    pub fn contains(&self, key: &Key) -> bool {
        self.start <= *key && self.end.is_none_or(|end| *key < end)
    }

    /// Whether no key lies inside.
    pub fn is_empty(&self) -> bool {
        self.end.is_some_and(|end| end <= self.start)
    }

    /// Whether every key of the other lies inside.
    pub fn covers(&self, other: &KeyRange) -> bool {
        self.start <= other.start && (self.end.is_none() || other.end.is_some_and(|end| Some(end) <= self.end))
    }

    /// The keys that lie in both, if any.
    pub fn intersection(&self, other: &KeyRange) -> Option<KeyRange> {
        let end = match (self.end, other.end) {
            (Some(one), Some(two)) => Some(one.min(two)),
            (one, two) => one.or(two),
        };
        let both = KeyRange { start: self.start.max(other.start), end };
        (!both.is_empty()).then_some(both)
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
    fn keys_survive_their_text_form() {
        let whole = Key { namespace: u64::MAX, kind: 0, uid: 7 };
        for key in [Key::MIN, Key::of_namespace("default"), Key { kind: 1, ..Key::MIN }, whole] {
            assert_eq!(key.to_string().parse::<Key>().unwrap(), key);
        }
        for text in ["", "x", "1.2.3.4", "1..2"] {
            assert!(text.parse::<Key>().is_err(), "{text}");
        }
    }

    #[test]
    fn intersection_and_cover_agree() {
        let at = |namespace| Key { namespace, ..Key::MIN };
        let range = |start, end: Option<u64>| KeyRange { start: at(start), end: end.map(at) };
        assert_eq!(range(1, Some(5)).intersection(&range(3, None)), Some(range(3, Some(5))));
        assert_eq!(range(1, Some(3)).intersection(&range(3, None)), None);
        assert!(KeyRange::ALL.covers(&range(3, None)) && range(3, None).covers(&range(3, Some(9))));
        assert!(!range(3, Some(9)).covers(&range(3, None)) && !range(3, Some(9)).covers(&range(2, Some(4))));
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
