//! A text that matches a pattern.

use regex_syntax::hir::{Class, Hir, HirKind};

/// How much longer than need be a text may become in search of one that fits.
const LONGER: u32 = 64;
/// What a class of characters is represented by, if it has one of these.
const LIKED: [char; 5] = ['a', '0', 'A', '-', '/'];

/// The first text that matches the pattern and fits otherwise; short ones are tried first.
pub(super) fn matching(pattern: &str, fits: impl Fn(&str) -> bool) -> Option<String> {
    let hir = regex_syntax::parse(pattern).ok()?;
    (0..=LONGER).map(|more| text(&hir, more)).find(|text| fits(text))
}

/// A text with `more` repetitions than need be, of the alternatives that `more` counts to.
fn text(hir: &Hir, more: u32) -> String {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => String::new(),
        HirKind::Literal(literal) => String::from_utf8_lossy(&literal.0).into_owned(),
        HirKind::Class(class) => character(class).to_string(),
        HirKind::Repetition(repetition) => {
            let most = repetition.max.unwrap_or(u32::MAX);
            let count = repetition.min.saturating_add(more).min(most);
            (0..count).map(|_| text(&repetition.sub, more)).collect()
        }
        HirKind::Capture(capture) => text(&capture.sub, more),
        HirKind::Concat(parts) => parts.iter().map(|part| text(part, more)).collect(),
        HirKind::Alternation(parts) => {
            let index = usize::try_from(more).unwrap_or(0) % parts.len().max(1);
            parts.get(index).map(|part| text(part, more)).unwrap_or_default()
        }
    }
}

fn character(class: &Class) -> char {
    let ranges: Vec<(char, char)> = match class {
        Class::Unicode(class) => class.ranges().iter().map(|range| (range.start(), range.end())).collect(),
        Class::Bytes(class) => class.ranges().iter().map(|r| (char::from(r.start()), char::from(r.end()))).collect(),
    };
    let has = |c: &char| ranges.iter().any(|(start, end)| (start..=end).contains(&c));
    let first = ranges.first().map_or('a', |(start, _)| *start);
    LIKED.into_iter().find(has).unwrap_or(first)
}

#[cfg(test)]
mod tests {
    use regex::Regex;

    use super::*;

    #[test]
    fn the_text_matches_and_is_as_long_as_it_must_be() {
        for (pattern, least) in [
            ("^[a-z0-9]{3,24}$", 11),
            (r"^(-|\+)[0-9]{2}:[0-9]{2}$", 0),
            ("^[A-Za-z0-9]+(?:-[A-Za-z0-9]+)*$", 40),
            (r"(^[\w]+$)|(^[\w][\w\-]+[\w]$)", 5),
            ("^[^*#&+:<>?]+$", 3),
            ("^(?i)x[+][0-9a-f]{8}(,b)?$", 12),
        ] {
            let regex = Regex::new(pattern).expect("the pattern is one");
            let fits = |text: &str| regex.is_match(text) && text.len() >= least;
            assert!(matching(pattern, fits).is_some(), "{pattern}, {least} or more");
        }
        assert_eq!(matching("^ab{2}$", |_| true).as_deref(), Some("abb"));
    }
}
