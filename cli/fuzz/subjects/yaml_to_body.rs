//! Any bytes as a file for `flotilla plan`, and what must hold whatever they are.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use flotilla::plan::{Manifests, Plan, Problem, Source, left_over, parse, plan, substitute, to_value};
use serde_json::Value;

const SUBSCRIPTION: &str = "00000000-0000-0000-0000-000000000000";

/// Plans the bytes. Panics if something does not hold.
pub(crate) fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let variables = BTreeMap::from([("A".to_owned(), "a".to_owned())]);
    let _ = left_over(text);
    let Some(text) = substitute(text, &variables) else { return };
    let source = Source { file: "f".into(), text };
    let (manifests, found) = planned(source.clone());
    told(&source.text, &found.problems);
    requested(&found);
    hidden(&source.text, &manifests, &found);
    let (_, again) = planned(source.clone());
    assert_eq!(
        (to_value(&found), &found.problems),
        (to_value(&again), &again.problems),
        "two plans of one text differ"
    );
    same_as_json(&source, &found);
}

fn planned(source: Source) -> (Manifests, Plan) {
    let mut problems = Vec::new();
    let manifests = Manifests::read(&[source], "default", &mut problems);
    let mut plan = plan(&manifests, SUBSCRIPTION);
    plan.problems.splice(0..0, problems);
    (manifests, plan)
}

/// Every problem is a line with a place that the text has.
fn told(text: &str, problems: &[Problem]) {
    // Each of CR, LF and others may end a line for the reader.
    let lines =
        text.chars().filter(|c| matches!(c, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}')).count() as u64 + 1;
    for problem in problems {
        let line = problem.to_string();
        assert!(!line.chars().any(char::is_control), "{line:?}");
        assert!((1..=lines).contains(&problem.place.line) && problem.place.column > 0, "{line}");
        assert!(line.len() < 30_000, "{} bytes", line.len());
    }
}

/// Requests are what can be sent, after what they need, and print as YAML that reads back.
fn requested(plan: &Plan) {
    for (i, request) in plan.requests.iter().enumerate() {
        let url = request.url();
        assert!(url.starts_with('/') && !url.chars().any(char::is_control), "{url:?}");
        assert_eq!(url.matches('?').count(), 1, "{url}");
        match request.method {
            "PUT" => assert!(request.body["name"].is_string() && request.shown.is_object(), "{}", request.body),
            method => assert!(method == "GET" && request.body.is_null(), "{method}"),
        }
        let before = |resource: usize| plan.requests[..i].iter().any(|r| r.resource == resource);
        let planned = |resource: usize| plan.requests.iter().any(|r| r.resource == resource);
        let needs = request.after.iter().map(|edge| edge.to).chain(request.owner);
        for need in needs.filter(|&need| planned(need)) {
            assert!(before(need), "{} comes before what it needs", request.object);
        }
        let printed = serde_saphyr::to_string(&request.body).expect("a body prints");
        let read: Value = serde_saphyr::from_str(&printed).unwrap_or_else(|e| panic!("{e}: {printed}"));
        assert_eq!(read, request.body, "{printed}");
    }
}

/// What only a Secret holds is in no message and in nothing that is shown.
fn hidden(text: &str, manifests: &Manifests, plan: &Plan) {
    for value in manifests.secrets.values().flat_map(BTreeMap::values) {
        // Short ones, and those that stand elsewhere too, may be met by chance.
        if value.len() < 12 || text.matches(value.as_str()).count() > 1 {
            continue;
        }
        let shown = plan.requests.iter().map(|r| r.shown.to_string());
        let told = plan.problems.iter().map(ToString::to_string);
        assert!(!shown.chain(told).any(|line| line.contains(value.as_str())), "a secret is shown");
    }
}

/// The documents written as JSON lead to the same requests.
fn same_as_json(source: &Source, plan: &Plan) {
    let (documents, unreadable) = parse(&source.file, &source.text);
    if !unreadable.is_empty() || source.text.len() > 1 << 16 {
        return;
    }
    let mut text = String::new();
    for document in documents {
        let json = document.to_value().to_string();
        // JSON allows more raw characters in a text than YAML does.
        for c in json.chars() {
            if matches!(c, ' '..='~') {
                text.push(c);
                continue;
            }
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(text, "\\u{unit:04x}");
            }
        }
        text.push_str("\n---\n");
    }
    let file: Arc<str> = Arc::clone(&source.file);
    let (_, other) = planned(Source { file, text: text.clone() });
    assert_eq!(to_value(plan), to_value(&other), "{text}");
    // They come in the order of their places, which differ.
    let messages = |plan: &Plan| {
        let mut all: Vec<String> =
            plan.problems.iter().map(|problem| format!("{:?} {:?}", problem.field, problem.severity)).collect();
        all.sort();
        all
    };
    assert_eq!(messages(plan), messages(&other), "{text}");
}
