//! Which kinds a user means: parts joined by `;`, compared without case.
//!
//! A part is `group/Kind` with `*` and `?`, as in ASO's `crdPattern`, or an ARM type, as in `Microsoft.Automation/automationAccounts@2023-11-01`, also with
//! wildcards. ARM types reach every type of the provider. A part with a group reaches kinds outside of ASO's set in two cases: it names one without
//! any wildcard, or its group, without a wildcard, is none of that set. So `*` and `network.azure.com/*` mean what they mean to ASO.

mod asked;

use globset::{GlobBuilder, GlobMatcher};

use crate::catalog::Catalog;
use crate::entry::KindEntry;

pub use asked::{Asked, UnknownVersion};

/// A list of parts.
#[derive(Clone, Debug, Default)]
pub struct Pattern {
    parts: Vec<Part>,
}

#[derive(Clone, Debug)]
struct Part {
    text: String,
    glob: GlobMatcher,
    names: Names,
}

/// What the names of a part are.
#[derive(Clone, Debug)]
enum Names {
    /// A group and a kind. `further` says whether kinds outside of ASO's set may be meant.
    Kubernetes { further: bool },
    /// An ARM type, perhaps at an api-version.
    Arm { api_version: Option<String> },
}

/// A pattern that can't be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A part without a slash names no kind.
    #[error("pattern {0:?} is not of the form group/Kind or Microsoft.Provider/type, as in storage.azure.com/*")]
    NoSlash(String),
    /// An api-version belongs to an ARM type.
    #[error(
        "pattern {0:?} has an api-version, which goes with an ARM type, as in Microsoft.Automation/automationAccounts@2023-11-01"
    )]
    Version(String),
    /// Types of a provider have different api-versions.
    #[error(
        "pattern {0:?} has an api-version, and so must name one ARM type, as in Microsoft.Automation/automationAccounts@2023-11-01"
    )]
    OneType(String),
    /// A glob that does not parse.
    #[error("pattern {pattern:?} is not a valid glob")]
    Glob {
        /// The part.
        pattern: String,
        /// What is wrong with it.
        #[source]
        source: globset::Error,
    },
}

impl Catalog {
    /// The kinds that a pattern means.
    pub fn matching<'a>(&'a self, pattern: &'a Pattern) -> impl Iterator<Item = &'a KindEntry> {
        self.kinds().filter(|entry| pattern.matches(entry))
    }
}

impl Pattern {
    /// Reads a pattern; empty parts are ignored. A lone `*` means every kind of ASO's set.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let parts = text.split(';').map(str::trim).filter(|part| !part.is_empty());
        Ok(Self { parts: parts.map(Part::parse).collect::<Result<_, _>>()? })
    }

    /// Whether the pattern has no part, and so matches nothing.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Whether some part means this kind.
    pub fn matches(&self, entry: &KindEntry) -> bool {
        self.parts.iter().any(|part| part.matches(entry))
    }

    /// The versions of a kind that the parts ask for. None if no part means the kind.
    pub fn asks(&self, entry: &KindEntry) -> Option<Asked> {
        let mut asked: Option<Asked> = None;
        for part in self.parts.iter().filter(|part| part.matches(entry)) {
            let asked = asked.get_or_insert_default();
            match &part.names {
                Names::Arm { api_version: Some(version) } => drop(asked.api_versions.insert(version.clone())),
                _ => asked.default = true,
            }
        }
        asked
    }

    /// The parts that mean no kind: probably typing errors.
    pub fn unused(&self, catalog: &Catalog) -> Vec<&str> {
        let unused = |part: &&Part| !catalog.kinds().any(|entry| part.matches(entry));
        self.parts.iter().filter(unused).map(|part| part.text.as_str()).collect()
    }
}

impl Part {
    fn parse(text: &str) -> Result<Self, Error> {
        let (names, glob) = match text.split_once('/') {
            None if text == "*" => (Names::Kubernetes { further: false }, text),
            None => return Err(Error::NoSlash(text.to_owned())),
            Some((group, kind)) if is_group(group) => {
                if kind.contains('@') {
                    return Err(Error::Version(text.to_owned()));
                }
                let standard = Catalog::embedded().standard().any(|entry| entry.group.eq_ignore_ascii_case(group));
                let bounded = has_wildcard(group) || standard && has_wildcard(kind);
                (Names::Kubernetes { further: !bounded }, text)
            }
            Some(_) => match text.split_once('@') {
                None => (Names::Arm { api_version: None }, text),
                Some((arm_type, version)) if has_wildcard(arm_type) || version.is_empty() => {
                    return Err(Error::OneType(text.to_owned()));
                }
                Some((arm_type, version)) => (Names::Arm { api_version: Some(version.to_ascii_lowercase()) }, arm_type),
            },
        };
        let glob = GlobBuilder::new(glob)
            .case_insensitive(true)
            .build()
            .map_err(|source| Error::Glob { pattern: text.to_owned(), source })?;
        Ok(Self { text: text.to_owned(), glob: glob.compile_matcher(), names })
    }

    fn matches(&self, entry: &KindEntry) -> bool {
        match &self.names {
            Names::Kubernetes { further } => {
                (*further || !entry.further) && self.glob.is_match(format!("{}/{}", entry.group, entry.kind))
            }
            Names::Arm { .. } => self.glob.is_match(&entry.arm_type),
        }
    }
}

/// Whether the text before the slash is a Kubernetes group and not an ARM provider.
fn is_group(text: &str) -> bool {
    has_wildcard(text) || text.to_ascii_lowercase().ends_with(".azure.com")
}

fn has_wildcard(text: &str) -> bool {
    text.contains(['*', '?', '[', '{'])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn kinds(pattern: &str) -> Vec<String> {
        let pattern = Pattern::parse(pattern).unwrap();
        Catalog::embedded().matching(&pattern).map(|e| format!("{}/{}", e.group, e.kind)).collect()
    }

    #[test]
    fn globs_are_joined_and_ignore_case() {
        assert_eq!(
            kinds(" resources.azure.com/* ;APP.azure.com/containerapp;"),
            ["app.azure.com/ContainerApp", "resources.azure.com/ResourceGroup"]
        );
        let pattern = Pattern::parse("app.azure.com/ContainerApp;storag.azure.com/*").unwrap();
        assert_eq!(pattern.unused(Catalog::embedded()), ["storag.azure.com/*"]);
    }

    #[test]
    fn wildcards_stay_within_asos_set_where_it_has_the_group() {
        let standard = Catalog::embedded().standard().count();
        assert_eq!((kinds("*").len(), kinds("*/*").len(), kinds("").len()), (standard, standard, 0));
        assert!(!kinds("network.azure.com/*").contains(&"network.azure.com/NetworkManager".to_owned()));
        assert_eq!(kinds("network.azure.com/NetworkManager"), ["network.azure.com/NetworkManager"]);
        assert!(kinds("automation.azure.com/*").len() > 10 && kinds("automation*.azure.com/*").is_empty());
    }

    #[test]
    fn arm_types_reach_everything_of_a_provider() {
        assert_eq!(kinds("microsoft.storage/storageaccounts"), ["storage.azure.com/StorageAccount"]);
        assert!(kinds("microsoft.network/*").len() > kinds("network.azure.com/*").len());
        let entry = Catalog::embedded().kind_of_arm_type("Microsoft.Automation/automationAccounts").unwrap();
        let asks = |pattern: &str| Pattern::parse(pattern).unwrap().asks(entry);
        let one = BTreeSet::from(["2023-11-01".to_owned()]);
        assert_eq!(
            asks("microsoft.automation/automationaccounts@2023-11-01"),
            Some(Asked { default: false, api_versions: one.clone() })
        );
        assert_eq!(
            asks("microsoft.automation/automationaccounts@2023-11-01;automation.azure.com/*"),
            Some(Asked { default: true, api_versions: one })
        );
        assert_eq!(asks("app.azure.com/*"), None);
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        assert!(matches!(Pattern::parse("storage"), Err(Error::NoSlash(_))));
        for text in ["Microsoft.Storage/*@2023-01-01", "Microsoft.Storage/storageAccounts@"] {
            assert!(matches!(Pattern::parse(text), Err(Error::OneType(_))), "{text}");
        }
        assert!(matches!(Pattern::parse("storage.azure.com/StorageAccount@2024-01-01"), Err(Error::Version(_))));
    }
}
