//! YAML with the place of every value.
//!
//! Kept true here: what comes out is bounded, whatever goes in. Depth, size, aliases and the number of values have limits, and a text that exceeds
//! one is refused with the limit's name.

use std::fmt;
use std::sync::Arc;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::{Error, Location, Spanned};

use super::problem::{Place, Problem};

/// No manifest nests so deep, and everything that walks one recurses.
const MAX_DEPTH: usize = 100;
/// Values in one file.
const MAX_NODES: usize = 2_000_000;
/// Values that aliases repeat.
const MAX_REPLAYED: usize = 200_000;
/// Reading recurses with large frames in unoptimised builds.
const STACK: usize = 64 << 20;

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

/// The documents of a text; empty ones are left out.
pub fn parse(file: &Arc<str>, text: &str) -> Result<Vec<Node>, Problem> {
    std::thread::scope(|scope| {
        let reader = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, || read(file, text));
        let failed = |why: String| Problem::error(Place { file: Arc::clone(file), line: 0, column: 0 }, why);
        match reader {
            Ok(reader) => reader.join().unwrap_or_else(|_| Err(failed("the YAML reader failed".to_owned()))),
            Err(error) => Err(failed(format!("failed to start reading: {error}"))),
        }
    })
}

fn read(file: &Arc<str>, text: &str) -> Result<Vec<Node>, Problem> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: MAX_DEPTH,
            max_nodes: MAX_NODES,
            max_events: MAX_NODES * 2,
            max_documents: 100_000,
            flow_nesting_limit: MAX_DEPTH,
        },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: MAX_REPLAYED },
        // As kubectl reads numbers.
        legacy_octal_numbers: true,
    };
    serde_saphyr::from_multiple_with_options(text, options).map_err(|error| {
        let location = error.location();
        let place = |l: Location| Place { file: Arc::clone(file), line: l.line(), column: l.column() };
        let unknown = Place { file: Arc::clone(file), line: 0, column: 0 };
        let text = match error.without_snippet() {
            Error::Budget { breach: BudgetBreach::Depth { .. }, .. } => {
                format!("nested deeper than {MAX_DEPTH} levels")
            }
            Error::Budget { breach: BudgetBreach::Nodes { .. } | BudgetBreach::Events { .. }, .. } => {
                format!("more than {MAX_NODES} values")
            }
            error => without_place(&error.to_string()).to_owned(),
        };
        Problem::error(location.map_or(unknown, place), format!("not valid YAML: {text}"))
    })
}

/// The reader's messages end with their place, which we put before them.
fn without_place(text: &str) -> &str {
    let line = text.lines().next().unwrap_or_default();
    line.rfind(" at line ").map_or(line, |at| &line[..at])
}

impl Node {
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
pub fn segments(path: &str) -> impl Iterator<Item = &str> {
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

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let found = Spanned::<Content>::deserialize(deserializer)?;
        Ok(Self { line: found.referenced.line(), column: found.referenced.column(), content: found.value })
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyContent)
    }
}

struct AnyContent;

impl<'de> Visitor<'de> for AnyContent {
    type Value = Content;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a YAML value")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Content, E> {
        Ok(Content::Scalar(Value::Null))
    }

    fn visit_none<E: de::Error>(self) -> Result<Content, E> {
        self.visit_unit()
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Content, E> {
        Ok(Content::Scalar(value.into()))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Content, E> {
        Ok(Content::Scalar(value.into()))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Content, E> {
        Ok(Content::Scalar(value.into()))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Content, E> {
        Number::from_f64(value).map(|n| Content::Scalar(n.into())).ok_or_else(|| E::custom("no JSON number"))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Content, E> {
        Ok(Content::Scalar(value.into()))
    }

    fn visit_string<E: de::Error>(self, value: String) -> Result<Content, E> {
        Ok(Content::Scalar(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Content, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Content::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Content, A::Error> {
        let mut map = Vec::new();
        while let Some(key) = entries.next_key::<Spanned<String>>()? {
            let (line, column) = (key.referenced.line(), key.referenced.column());
            map.push(Entry { key: key.value, line, column, value: entries.next_value()? });
        }
        Ok(Content::Map(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Node {
        parse(&"f".into(), text).unwrap().remove(0)
    }

    fn refusal(text: &str) -> String {
        parse(&"f".into(), text).unwrap_err().to_string()
    }

    #[test]
    fn every_value_knows_its_place() {
        let node = one("# c\na:\n  b: 1\n  - x\n".replace("  - x\n", "  c:\n  - x\n  - y: {z: true}\n").as_str());
        assert_eq!(node.locate("a.b"), (3, 3));
        assert_eq!(node.locate("a.c[1].y.z"), (6, 9));
        assert_eq!(node.locate("a.c[7].y"), (4, 3));
        assert_eq!(node.to_value(), serde_json::json!({"a": {"b": 1, "c": ["x", {"y": {"z": true}}]}}));
    }

    #[test]
    fn documents_are_told_apart_and_empty_ones_are_none() {
        let texts = "---\n# nothing\n---\na: 1\n---\n\n---\nb: 2\n...\n";
        let found = parse(&"f".into(), texts).unwrap();
        assert_eq!(found.iter().map(|n| n.line).collect::<Vec<_>>(), [4, 8]);
        assert!(parse(&"f".into(), "").unwrap().is_empty());
    }

    #[test]
    fn what_is_not_yaml_is_refused_with_its_place() {
        let message = refusal("a: 1\nb: [1, 2\nc: 3\n");
        assert!(message.starts_with("f:") && message.contains("not valid YAML"), "{message}");
        let message = refusal("a: 1\na: 2\n");
        assert!(message.starts_with("f:2:1: not valid YAML: duplicate"), "{message}");
    }

    #[test]
    fn limits_hold() {
        let deep = format!("{}1{}", "[".repeat(10_000), "]".repeat(10_000));
        let block: String = (0..5_000).fold(String::new(), |text, i| text + &" ".repeat(i) + "a:\n");
        let bomb = (1..30).fold("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned(), |text, i| {
            let before = format!("*a{}", i - 1);
            format!("{text}a{i}: &a{i} [{}]\n", [before.as_str(); 10].join(", "))
        });
        for text in [deep, block, bomb] {
            let message = refusal(&text);
            assert!(message.contains("not valid YAML"), "{message}");
        }
    }

    #[test]
    fn a_hundred_levels_are_fine() {
        let text = format!("{}1{}", "[".repeat(98), "]".repeat(98));
        assert_eq!(parse(&"f".into(), &text).unwrap().len(), 1);
    }

    #[test]
    fn paths_split_into_segments() {
        assert_eq!(segments("spec.a[0].b[c.d].e").collect::<Vec<_>>(), ["spec", "a", "0", "b", "c.d", "e"]);
    }
}
