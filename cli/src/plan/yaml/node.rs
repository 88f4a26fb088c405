//! A value, with its place and that of everything in it.

use serde_json::{Map, Value};

use super::documents::Part;

/// A value and where it is.
#[derive(Clone, Debug)]
pub struct Node {
    /// Line, from 1.
    pub line: u64,
    /// Column, from 1.
    pub column: u64,
    /// The value.
    pub content: Content,
}

/// A value.
#[derive(Clone, Debug)]
pub enum Content {
    /// Null, a text, a number, true or false.
    Scalar(Value),
    /// A list.
    List(Vec<Node>),
    /// A map.
    Map(Vec<Entry>),
}

/// An entry of a map.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// Line of the key.
    pub line: u64,
    /// Column of the key.
    pub column: u64,
    /// The value.
    pub value: Node,
}

impl Node {
    /// From places in a part of a text to places in the text.
    pub(super) fn shift(&mut self, part: &Part<'_>) {
        (self.line, self.column) = part.place(self.line, self.column);
        match &mut self.content {
            Content::Scalar(_) => {}
            Content::List(items) => items.iter_mut().for_each(|item| item.shift(part)),
            Content::Map(entries) => {
                for entry in entries {
                    (entry.line, entry.column) = part.place(entry.line, entry.column);
                    entry.value.shift(part);
                }
            }
        }
    }

    /// How many values it has, itself and keys included.
    pub(super) fn count(&self) -> usize {
        match &self.content {
            Content::Scalar(_) => 1,
            Content::List(items) => 1 + items.iter().map(Self::count).sum::<usize>(),
            Content::Map(entries) => 1 + entries.iter().map(|e| 1 + e.value.count()).sum::<usize>(),
        }
    }

    /// The value without places.
    pub fn to_value(&self) -> Value {
        match &self.content {
            Content::Scalar(value) => value.clone(),
            Content::List(items) => items.iter().map(Self::to_value).collect(),
            Content::Map(entries) => {
                Value::Object(entries.iter().map(|e| (e.key.clone(), e.value.to_value())).collect::<Map<_, _>>())
            }
        }
    }

    /// The member of a map.
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.entry(key).map(|entry| &entry.value)
    }

    /// The entry of a map.
    pub fn entry(&self, key: &str) -> Option<&Entry> {
        match &self.content {
            Content::Map(entries) => entries.iter().find(|e| e.key == key),
            _ => None,
        }
    }

    /// The text of a string.
    pub fn as_str(&self) -> Option<&str> {
        match &self.content {
            Content::Scalar(Value::String(text)) => Some(text),
            _ => None,
        }
    }

    /// Whether it is null.
    pub fn is_null(&self) -> bool {
        matches!(self.content, Content::Scalar(Value::Null))
    }

    /// The place of the field with this path, or of the nearest one above it that exists.
    pub fn locate(&self, path: &str) -> (u64, u64) {
        let (mut at, mut place) = (self, (self.line, self.column));
        for segment in segments(path) {
            let next = match &at.content {
                Content::Map(entries) => {
                    entries.iter().find(|e| e.key == segment).map(|e| (&e.value, (e.line, e.column)))
                }
                Content::List(items) => {
                    segment.parse().ok().and_then(|i: usize| items.get(i)).map(|item| (item, (item.line, item.column)))
                }
                Content::Scalar(_) => None,
            };
            let Some((node, found)) = next else { break };
            (at, place) = (node, found);
        }
        place
    }
}

/// The segments of a field's path: `spec.a[0].b[c.d]` is spec, a, 0, b, c.d.
pub(crate) fn segments(path: &str) -> impl Iterator<Item = &str> {
    let mut rest = path;
    std::iter::from_fn(move || {
        rest = rest.strip_prefix('.').unwrap_or(rest);
        if rest.is_empty() {
            return None;
        }
        if let Some(inner) = rest.strip_prefix('[') {
            let (segment, tail) = inner.split_once(']').unwrap_or((inner, ""));
            rest = tail;
            return Some(segment);
        }
        let end = rest.find(['.', '[']).unwrap_or(rest.len());
        let (segment, tail) = rest.split_at(end);
        rest = tail;
        Some(segment)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_split_into_segments() {
        assert_eq!(segments("spec.a[0].b[c.d].e").collect::<Vec<_>>(), ["spec", "a", "0", "b", "c.d", "e"]);
    }
}
