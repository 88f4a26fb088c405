//! YAML with the place of every value.
//!
//! Kept true here: what comes out is bounded, whatever goes in. Depth, size, aliases and the number of values have limits, and a text that exceeds
//! one is refused with the limit's name. A document that can't be read takes no others with it.

mod documents;
mod refusal;

use std::fmt;
use std::sync::Arc;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::{Error, Spanned};

use self::documents::Part;
use super::problem::{Place, Problem};

/// No manifest nests so deep, and everything that walks one recurses.
const MAX_DEPTH: usize = 100;
/// Values in one file.
const MAX_NODES: usize = 2_000_000;
/// Documents in one file.
const MAX_DOCUMENTS: usize = 100_000;
/// Bytes of all texts in one file; what aliases repeat counts again.
const MAX_SCALARS: usize = 64 << 20;
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

/// The documents of a text, less empty ones, and what is wrong with the others.
pub fn parse(file: &Arc<str>, text: &str) -> (Vec<Node>, Vec<Problem>) {
    std::thread::scope(|scope| {
        let reader = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, || read(file, text, MAX_NODES));
        let failed =
            |why: String| (Vec::new(), vec![Problem::error(Place { file: Arc::clone(file), line: 0, column: 0 }, why)]);
        match reader {
            Ok(reader) => reader.join().unwrap_or_else(|_| failed("the YAML reader failed".to_owned())),
            Err(error) => failed(format!("failed to start reading: {error}")),
        }
    })
}

/// `most` values in all documents.
fn read(file: &Arc<str>, text: &str, most: usize) -> (Vec<Node>, Vec<Problem>) {
    let whole = Part { text, lines: 0, columns: 0 };
    let error = match documents(&whole, most) {
        Ok(nodes) => return (nodes, Vec::new()),
        Err(error) => error,
    };
    let parts = documents::split(text, MAX_DOCUMENTS);
    if refusal::is_too_large(&error) || parts.len() == 1 {
        return (Vec::new(), vec![problem(file, &whole, &error)]);
    }
    let (mut nodes, mut problems, mut left) = (Vec::new(), Vec::new(), most);
    for part in &parts {
        match documents(part, left) {
            Ok(found) => {
                left = left.saturating_sub(found.iter().map(Node::count).sum());
                nodes.extend(found);
            }
            Err(error) => {
                problems.push(problem(file, part, &error));
                if refusal::is_too_large(&error) {
                    break;
                }
            }
        }
    }
    (nodes, problems)
}

fn documents(part: &Part<'_>, most: usize) -> Result<Vec<Node>, Error> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: MAX_DEPTH,
            max_nodes: most,
            max_events: most * 2,
            max_documents: MAX_DOCUMENTS,
            max_total_scalar_bytes: MAX_SCALARS,
            flow_nesting_limit: MAX_DEPTH,
        },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: MAX_REPLAYED },
        // As kubectl reads numbers.
        legacy_octal_numbers: true,
    };
    let mut nodes: Vec<Node> = serde_saphyr::from_multiple_with_options(part.text, options)?;
    if (part.lines, part.columns) != (0, 0) {
        for node in &mut nodes {
            node.shift(part);
        }
    }
    Ok(nodes)
}

fn problem(file: &Arc<str>, part: &Part<'_>, error: &Error) -> Problem {
    let (line, column) = error.location().map_or((1, 1), |l| (l.line(), l.column()));
    let source = usize::try_from(line).ok().and_then(|line| part.text.lines().nth(line.checked_sub(1)?));
    let (line, column) = part.place(line, column);
    let place = Place { file: Arc::clone(file), line, column };
    let problem = Problem::error(place, format!("not valid YAML: {}", refusal::why(error)));
    match source.and_then(refusal::help) {
        Some(help) => problem.help(help),
        None => problem,
    }
}

impl Part<'_> {
    /// The place in the text of a place in this part.
    fn place(&self, line: u64, column: u64) -> (u64, u64) {
        (line + self.lines, if line == 1 { column + self.columns } else { column })
    }
}

impl Node {
    /// From places in a part of a text to places in the text.
    fn shift(&mut self, part: &Part<'_>) {
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
    fn count(&self) -> usize {
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
        parse(&"f".into(), text).0.remove(0)
    }

    fn refusal(text: &str) -> String {
        let (nodes, problems) = parse(&"f".into(), text);
        assert!(nodes.is_empty(), "{:.200}", nodes[0].to_value().to_string());
        problems[0].to_string()
    }

    #[test]
    fn every_value_knows_its_place() {
        let node = one("# c\na:\n  b: 1\n  c:\n  - x\n  - y: {z: true}\n");
        assert_eq!(node.locate("a.b"), (3, 3));
        assert_eq!(node.locate("a.c[1].y.z"), (6, 9));
        assert_eq!(node.locate("a.c[7].y"), (4, 3));
        assert_eq!(node.to_value(), serde_json::json!({"a": {"b": 1, "c": ["x", {"y": {"z": true}}]}}));
    }

    #[test]
    fn documents_are_told_apart_and_empty_ones_are_none() {
        let texts = "---\n# nothing\n---\na: 1\n---\n\n---\nb: 2\n...\n";
        let (found, problems) = parse(&"f".into(), texts);
        assert!(problems.is_empty());
        assert_eq!(found.iter().map(|n| n.line).collect::<Vec<_>>(), [4, 8]);
        assert!(parse(&"f".into(), "").0.is_empty());
    }

    #[test]
    fn documents_that_cannot_be_read_leave_the_others() {
        let (found, problems) =
            parse(&"f".into(), "a: [\n---\nb: {c: 1}\n---\nd: 1\n\te: 1\n--- {e: 1}\n---\n\u{feff}f: 1\n");
        assert_eq!(found.iter().map(|n| (n.line, n.column)).collect::<Vec<_>>(), [(3, 1), (7, 5), (9, 1)]);
        assert_eq!(found[0].locate("b.c"), (3, 5));
        let places: Vec<u64> = problems.iter().map(|p| p.place.line).collect();
        assert_eq!(places, [1, 5]);
        let (found, problems) = parse(&"f".into(), "{\"a\": 1} {\"b\": 2}\n{\"c\": 3}");
        assert!(problems.is_empty(), "{problems:?}");
        let places: Vec<_> = found.iter().zip(["a", "b", "c"]).map(|(n, key)| n.locate(key)).collect();
        assert_eq!(places, [(1, 2), (1, 11), (2, 2)]);
    }

    #[test]
    fn limits_hold_for_all_documents_together() {
        let many = format!("---\na: [{}]\n", "1,".repeat(900)).repeat(3);
        let (found, problems) = read(&"f".into(), &format!("a: [\n{many}"), 2_000);
        assert_eq!(found.len(), 2);
        assert!(problems[1].to_string().contains("more than 2000000 values"), "{}", problems[1]);
    }

    #[test]
    fn what_is_not_yaml_is_refused_with_its_place_and_why() {
        for (text, place, why) in [
            ("a: 1\nb: [1, 2\nc: 3\n", "f:3:2", ""),
            ("a: 1\na: 2\n", "f:2:1", "the key a is there twice"),
            ("a: &x [*x]\n", "f:1:8", "the alias names what it is in"),
            ("a: *x\n", "f:1:4", "this document has no such anchor before the alias"),
            ("<<: 5\n", "f:1:5", "<< takes a map or a list of maps"),
            ("a: 1e400\n", "f:1:", "1e400 is no number that JSON has"),
            ("a: !!int x\n", "f:1:", "the value is not what its tag says"),
            ("a: !!binary /w==\n", "f:1:", "!!binary must hold UTF-8 text"),
            ("? [a]\n: 1\n", "f:1:3", "a key must be a text"),
            ("~: 1\n", "f:1:1", "a key must be a text"),
            ("a: {{ .Values.a }}\n", "f:1:", "a key must be a text; this is a template: plan what it renders to"),
        ] {
            let message = refusal(text);
            assert!(message.starts_with(place) && message.contains(&format!(": not valid YAML: {why}")), "{message}");
        }
    }

    #[test]
    fn limits_hold() {
        let deep = |open: &str, close: &str| format!("{}1{}", open.repeat(10_000), close.repeat(10_000));
        let block: String = (0..1_000).fold(String::new(), |text, i| text + &" ".repeat(i) + "a:\n");
        let bomb = |first: &str, item: fn(usize, usize) -> String, [open, close]: [&str; 2]| {
            (1..30).fold(format!("a0: &a0 {first}\n"), |text, i| {
                let items: Vec<String> = (0..10).map(|n| item(i - 1, n)).collect();
                format!("{text}a{i}: &a{i} {open}{}{close}\n", items.join(", "))
            })
        };
        let long = format!("a: &a {}\nb: [{}]\n", "x".repeat(1 << 20), ["*a"; 100].join(", "));
        for (text, why) in [
            (deep("[", "]"), "nested deeper than 100 levels"),
            (deep("{a: ", "}"), "nested deeper than 100 levels"),
            (deep("- ", ""), "nested deeper than 100 levels"),
            (deep("? ", ""), "nested deeper than 100 levels"),
            (block, "nested deeper than 100 levels"),
            (bomb("[x, x]", |i, _| format!("*a{i}"), ["[", "]"]), "aliases repeat more than 200000 values"),
            (bomb("{x: y}", |i, n| format!("k{n}: *a{i}"), ["{", "}"]), "aliases repeat more than 200000 values"),
            (
                bomb("{x: y}", |i, n| if n == 0 { format!("<<: *a{i}") } else { format!("k{n}: *a{i}") }, ["{", "}"]),
                "aliases repeat more than 200000 values",
            ),
            (long, "texts of more than 64 MiB, aliases included"),
            ("---\na: 1\n".repeat(100_010), "more than 100000 documents"),
        ] {
            let message = refusal(&text);
            assert!(message.ends_with(&format!("not valid YAML: {why}")), "{message}");
        }
    }

    #[test]
    fn a_hundred_levels_are_fine() {
        let text = format!("{}1{}", "[".repeat(98), "]".repeat(98));
        assert_eq!(parse(&"f".into(), &text).0.len(), 1);
    }

    #[test]
    fn paths_split_into_segments() {
        assert_eq!(segments("spec.a[0].b[c.d].e").collect::<Vec<_>>(), ["spec", "a", "0", "b", "c.d", "e"]);
    }
}
