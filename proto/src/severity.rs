//! How bad it is that an object is not ready.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Severity of a condition, as users read it. The order is that of the rule by which a new condition replaces an old one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Severity {
    /// Nothing is wrong (the condition is True), or nothing is known.
    #[default]
    #[serde(rename = "")]
    None,
    /// Work is going on.
    Info,
    /// Something failed that may pass without a change by the user.
    Warning,
    /// Somebody has to change something first.
    Error,
}

impl Severity {
    /// The word used in conditions.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Info => "Info",
            Self::Warning => "Warning",
            Self::Error => "Error",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
