//! Which kinds somebody means: `group/Kind` globs joined by `;`, compared without case, as in ASO's `crdPattern`.

use globset::{GlobBuilder, GlobMatcher};

/// A list of `group/Kind` globs.
#[derive(Clone, Debug, Default)]
pub struct Pattern {
    parts: Vec<(String, GlobMatcher)>,
}

/// A pattern that can't be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A part without a slash names no kind.
    #[error("pattern {0:?} is not of the form group/Kind, as in storage.azure.com/*")]
    NoSlash(String),
    /// A glob that does not parse.
    #[error("pattern {pattern:?} is no glob")]
    Glob {
        /// The part.
        pattern: String,
        /// What is wrong with it.
        #[source]
        source: globset::Error,
    },
}

impl Pattern {
    /// Reads a pattern; empty parts are ignored. A lone `*` means every kind.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let parts = text
            .split(';')
            .map(str::trim)
            .filter(|part| !part.is_empty())
            .map(|part| {
                if part != "*" && !part.contains('/') {
                    return Err(Error::NoSlash(part.to_owned()));
                }
                let glob = GlobBuilder::new(part)
                    .case_insensitive(true)
                    .build()
                    .map_err(|source| Error::Glob { pattern: part.to_owned(), source })?;
                Ok((part.to_owned(), glob.compile_matcher()))
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { parts })
    }

    /// Whether the pattern has no part, and so matches nothing.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Whether some part matches this kind.
    pub fn matches(&self, group: &str, kind: &str) -> bool {
        let name = format!("{group}/{kind}");
        self.parts.iter().any(|(_, glob)| glob.is_match(&name))
    }

    /// The parts that match none of these kinds: probably typing errors.
    pub fn unused<'a>(&self, kinds: &(impl Iterator<Item = (&'a str, &'a str)> + Clone)) -> Vec<&str> {
        let unused = |glob: &GlobMatcher| !kinds.clone().any(|(g, k)| glob.is_match(format!("{g}/{k}")));
        self.parts.iter().filter(|(_, glob)| unused(glob)).map(|(text, _)| text.as_str()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_are_joined_and_ignore_case() {
        let pattern = Pattern::parse(" storage.azure.com/* ;APP.azure.com/containerapp;").unwrap();
        assert!(pattern.matches("storage.azure.com", "StorageAccount"));
        assert!(pattern.matches("app.azure.com", "ContainerApp"));
        assert!(!pattern.matches("app.azure.com", "Job"));
        assert_eq!(pattern.unused(&[("app.azure.com", "ContainerApp")].into_iter()), ["storage.azure.com/*"]);
    }

    #[test]
    fn a_lone_star_means_everything_and_nothing_means_nothing() {
        assert!(Pattern::parse("*").unwrap().matches("a", "B"));
        assert!(Pattern::parse("").unwrap().is_empty());
    }

    #[test]
    fn a_part_without_slash_is_refused() {
        assert!(matches!(Pattern::parse("storage"), Err(Error::NoSlash(_))));
    }
}
