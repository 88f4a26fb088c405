//! YAML with the place of every value.
//!
//! Kept true here: what comes out is bounded, whatever goes in. Depth, size, aliases and the number of values have limits, and a text that exceeds
//! one is refused with the limit's name. A document that can't be read takes no others with it.

mod documents;
mod node;
mod read;
mod refusal;

use std::sync::Arc;

use serde_saphyr::Error;

use self::documents::Part;
use super::problem::{Place, Problem};

pub(crate) use self::node::{Content, Entry, Node, segments};

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
            ("a: 1\na: 2\n", "f:2:1", "the key a appears twice"),
            ("a: &x [*x]\n", "f:1:8", "the alias refers to a value that contains it"),
            ("a: *x\n", "f:1:4", "this document defines no such anchor before the alias"),
            ("<<: 5\n", "f:1:5", "<< takes a map or a list of maps"),
            ("a: 1e400\n", "f:1:", "1e400 is not a number that JSON can hold"),
            ("a: !!int x\n", "f:1:", "the value does not match its tag"),
            ("a: !!binary /w==\n", "f:1:", "!!binary must hold UTF-8 text"),
            ("? [a]\n: 1\n", "f:1:3", "a key must be a string"),
            ("~: 1\n", "f:1:1", "a key must be a string"),
            ("a: {{ .Values.a }}\n", "f:1:", "a key must be a string; this is a template: plan what it renders to"),
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
}
