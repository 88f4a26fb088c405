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
            0 => write!(f, "{}", self.file),
            line => write!(f, "{}:{line}:{}", self.file, self.column),
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
            write!(f, "{object}: ")?;
        }
        if let Some(field) = &self.field {
            write!(f, "{field}: ")?;
        }
        f.write_str(&self.message)?;
        match &self.help {
            Some(help) => write!(f, "; {help}"),
            None => Ok(()),
        }
    }
}
