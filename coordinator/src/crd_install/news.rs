//! Which failures the log has been told, so that one that stays is logged once, and again when its cause changes.

use std::collections::BTreeMap;
use std::error::Error as StdError;

use super::error::Error;

/// What was last logged of each CRD or policy that can't be installed.
#[derive(Debug, Default)]
pub(super) struct News(BTreeMap<String, String>);

impl News {
    /// Takes a failure in. Says whether it is new: nothing, or another cause, was logged before.
    pub(super) fn failed(&mut self, name: &str, error: &Error) -> bool {
        let words = words(error);
        self.0.insert(name.to_owned(), words.clone()) != Some(words)
    }

    /// Takes a success in. Says whether it ends a failure.
    pub(super) fn succeeded(&mut self, name: &str) -> bool {
        self.0.remove(name).is_some()
    }
}

/// An error with its causes.
fn words(error: &Error) -> String {
    let causes = std::iter::successors(Some(error as &(dyn StdError + 'static)), |error| (*error).source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn foreign(versions: &str) -> Error {
        Error::Foreign { name: "x".to_owned(), versions: versions.to_owned() }
    }

    #[test]
    fn failure_that_stays_is_told_once() {
        let mut news = News::default();
        assert!(news.failed("x", &foreign("v1")));
        assert!(!news.failed("x", &foreign("v1")));
        assert!(news.failed("y", &foreign("v1")), "another CRD");
        assert!(news.failed("x", &foreign("v1, v2")), "its cause changed");
        assert!(!news.failed("x", &foreign("v1, v2")));
    }

    #[test]
    fn failure_that_ended_is_told_when_it_comes_back() {
        let mut news = News::default();
        assert!(!news.succeeded("x"), "it never failed");
        news.failed("x", &foreign("v1"));
        assert!(news.succeeded("x") && !news.succeeded("x"));
        assert!(news.failed("x", &foreign("v1")));
    }

    #[test]
    fn causes_are_part_of_the_words() {
        let refused = |message: &str| {
            let status = kube::core::Status::failure(message, "Invalid").with_code(422).boxed();
            Error::Install { name: "x".to_owned(), source: kube::Error::Api(status).into() }
        };
        let mut news = News::default();
        assert!(news.failed("x", &refused("one")) && news.failed("x", &refused("another")));
    }
}
