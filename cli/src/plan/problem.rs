//! What is wrong with a manifest, and where.

use std::fmt;
use std::sync::Arc;

/// A place in a file; lines and columns begin at 1.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The file's name as given, `-` for the standard input.
    pub file: Arc<str>,
    /// Line; 0 where it is not known.
    pub line: u64,
    /// Column.
    pub column: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}", Printable(&self.file)),
            line => write!(f, "{}:{line}:{}", Printable(&self.file), self.column),
        }
    }
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Good to know.
    Note,
    /// Probably not what was meant.
    Warning,
    /// The API server, the operator or Azure would refuse it.
    Error,
}

/// Something that is wrong with a manifest, or worth a note.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// How bad.
    pub severity: Severity,
    /// Where.
    pub place: Place,
    /// The object, as `Kind/namespace/name`.
    pub object: Option<Box<str>>,
    /// The field, as in `spec.sku.name`.
    pub field: Option<Box<str>>,
    /// What.
    pub message: Box<str>,
    /// What was probably meant, or what to do.
    pub help: Option<Box<str>>,
}

impl Problem {
    /// An error at a place.
    pub fn error(place: Place, message: impl Into<Box<str>>) -> Self {
        Self { severity: Severity::Error, place, object: None, field: None, message: message.into(), help: None }
    }

    /// The same problem as a warning.
    pub fn warning(self) -> Self {
        Self { severity: Severity::Warning, ..self }
    }

    /// The same problem as a note.
    pub fn note(self) -> Self {
        Self { severity: Severity::Note, ..self }
    }

    /// The same problem of an object.
    pub fn of(self, object: impl fmt::Display) -> Self {
        Self { object: Some(object.to_string().into()), ..self }
    }

    /// The same problem of a field.
    pub fn at(self, field: impl Into<Box<str>>) -> Self {
        Self { field: Some(field.into()), ..self }
    }

    /// The same problem with help.
    pub fn help(self, help: impl Into<Box<str>>) -> Self {
        Self { help: Some(help.into()), ..self }
    }

    /// The same problem with the word that was probably meant, if there is one.
    pub fn meant(self, word: Option<&str>) -> Self {
        match word {
            Some(word) => self.help(format!("did you mean {word:?}?")),
            None => self,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.place)?;
        if let Some(object) = &self.object {
            write!(f, "{}: ", Printable(object))?;
        }
        if let Some(field) = &self.field {
            write!(f, "{}: ", Printable(field))?;
        }
        write!(f, "{}", Printable(&self.message))?;
        match &self.help {
            Some(help) => write!(f, "; {}", Printable(help)),
            None => Ok(()),
        }
    }
}

/// Shows a text that a manifest may have a part in: on one line, without what moves a terminal's cursor or turns its text around, and not for pages.
struct Printable<'a>(&'a str);

/// More characters than any text of ours has.
const SHOWN: usize = 4_000;

impl fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars().take(SHOWN) {
            if c.is_control()
                || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
            {
                write!(f, "{}", c.escape_default())?;
            } else {
                write!(f, "{c}")?;
            }
        }
        if self.0.len() > SHOWN && self.0.chars().nth(SHOWN).is_some() { f.write_str("…") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_one_line_whatever_it_is_about() {
        let place = Place { file: "a\nb".into(), line: 1, column: 2 };
        let problem = Problem::error(place, "x".repeat(5_000)).of("k\u{1b}[31m").at("f\u{202e}");
        let text = problem.to_string();
        assert!(text.starts_with("a\\nb:1:2: k\\u{1b}[31m: f\\u{202e}: xxx") && text.ends_with("x…"), "{text:.80}");
        assert_eq!(text.chars().filter(|c| *c == 'x').count(), SHOWN);
    }
}
