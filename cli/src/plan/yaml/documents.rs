//! Takes a text apart into its documents without reading them, so that one that can't be read costs itself only.
//!
//! The rule is kubectl's: a line that begins with `---` ends a document, whatever is open in it. JSON values that follow each other are documents
//! too.

use serde::de::IgnoredAny;

/// A document's text and where it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part<'a> {
    /// What it holds.
    pub(super) text: &'a str,
    /// Lines before it.
    pub(super) lines: u64,
    /// Characters before it in its first line.
    pub(super) columns: u64,
}

impl Part<'_> {
    /// The place in the text of a place in this part.
    pub(super) fn place(&self, line: u64, column: u64) -> (u64, u64) {
        (line + self.lines, if line == 1 { column + self.columns } else { column })
    }
}

/// The documents of a text, at most `most` and one that has the rest.
pub(super) fn split(text: &str, most: usize) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let (mut start, mut lines, mut at) = (0, 0, 0);
    for (number, line) in (0..).zip(text.split_inclusive('\n')) {
        let end = at + line.len();
        if let Some(rest) =
            line.strip_prefix("---").filter(|rest| rest.starts_with([' ', '\t', '\r', '\n']) || rest.is_empty())
            && parts.len() < most
        {
            push(&mut parts, Part { text: &text[start..at], lines, columns: 0 }, most);
            // What stands behind the dashes is part of the document, and the place is that of the dashes then.
            (start, lines) = if rest.trim().is_empty() { (end, number + 1) } else { (at, number) };
        }
        at = end;
    }
    push(&mut parts, Part { text: &text[start..], lines, columns: 0 }, most);
    parts
}

fn push<'a>(parts: &mut Vec<Part<'a>>, part: Part<'a>, most: usize) {
    if part.text.trim().is_empty() {
        return;
    }
    match json(part, most) {
        Some(values) => parts.extend(values),
        None => parts.push(part),
    }
}

/// The JSON values of a text that has several.
fn json(part: Part<'_>, most: usize) -> Option<Vec<Part<'_>>> {
    if !part.text.trim_start().starts_with(['{', '[']) {
        return None;
    }
    let mut values = serde_json::Deserializer::from_str(part.text).into_iter::<IgnoredAny>();
    let (mut parts, mut from, mut place) = (Vec::new(), 0, (part.lines, part.columns));
    while parts.len() < most
        && let Some(value) = values.next()
    {
        value.ok()?;
        let to = values.byte_offset();
        let blank = part.text[from..to].len() - part.text[from..to].trim_start().len();
        place = after(place, &part.text[from..from + blank]);
        let text = &part.text[from + blank..to];
        parts.push(Part { text, lines: place.0, columns: place.1 });
        place = after(place, text);
        from = to;
    }
    (parts.len() > 1 && part.text[from..].trim().is_empty()).then_some(parts)
}

fn after((lines, columns): (u64, u64), text: &str) -> (u64, u64) {
    match text.rsplit_once('\n') {
        None => (lines, columns + text.chars().count() as u64),
        Some((above, last)) => (lines + above.matches('\n').count() as u64 + 1, last.chars().count() as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<(&str, u64, u64)> {
        split(text, 100).into_iter().map(|p| (p.text, p.lines, p.columns)).collect()
    }

    #[test]
    fn dashes_end_a_document_whatever_is_open() {
        assert_eq!(
            found("a: [\n---\nb\n--- c\n---\n\n---d\n"),
            [("a: [\n", 0, 0), ("b\n", 2, 0), ("--- c\n", 3, 0), ("\n---d\n", 5, 0)]
        );
        assert_eq!(found("---\r\na\r\n---"), [("a\r\n", 1, 0)]);
        assert_eq!(found(""), []);
    }

    #[test]
    fn json_values_are_documents() {
        assert_eq!(found("{} {\"a\":\n1}[2]\n"), [("{}", 0, 0), ("{\"a\":\n1}", 0, 3), ("[2]", 1, 2)]);
        assert_eq!(found("{} {"), [("{} {", 0, 0)]);
        assert_eq!(found("{a: b}\n"), [("{a: b}\n", 0, 0)]);
    }

    #[test]
    fn the_rest_of_too_many_stays_together() {
        assert_eq!(split("a\n---\nb\n---\nc\n", 1).len(), 2);
    }
}
