//! When the objects of a kind are looked at for the versions that they use.
//!
//! Kept true here: versions that were dropped are followed by a look that succeeds. So a look that failed is repeated, and a
//! write of which we have no answer counts as one that dropped versions.

use super::install::Done;
use super::{Error, Outcome};

/// Whether to look which versions the objects of a kind use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// Not now: what is served stays.
    No,
    /// If more is served than is asked for.
    IfMore,
    /// In any case: what was dropped may have been used meanwhile.
    Again,
}

impl Look {
    /// The usual look, when it is time for one.
    pub(super) fn when(due: bool) -> Self {
        if due { Self::IfMore } else { Self::No }
    }
}

/// A CRD is done with in this pass.
pub(super) struct Step {
    pub(super) result: Result<Outcome, Error>,
    /// Its objects are to be looked at in the next pass, whatever else that one does.
    pub(super) look_again: bool,
}

impl Step {
    /// What follows from a kind's look and its installation. `unserved` says why the API server does not serve it
    /// since, if it does not.
    ///
    /// Pure. Whether it is served changes nothing about what was dropped.
    pub(super) fn after(name: &str, look: Look, done: Result<Done, Error>, unserved: Option<String>) -> Self {
        let look_again = match &done {
            Ok(done) => done.look_again,
            // It may have been carried out though the answer was lost.
            Err(Error::Install { .. }) => true,
            Err(error) => look == Look::Again && error.may_pass(),
        };
        let result = match (done, unserved) {
            (Ok(_), Some(why)) => Err(Error::NotServed { name: name.to_owned(), why }),
            (done, _) => done.map(|done| done.outcome),
        };
        Self { result, look_again }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use flotilla_crds::UnknownVersion;

    use super::*;

    const LOOKS: [Look; 3] = [Look::No, Look::IfMore, Look::Again];

    fn done(look_again: bool) -> Done {
        Done { outcome: Outcome::Written, look_again, serves: BTreeSet::new() }
    }

    fn conflict() -> Error {
        let status = kube::core::Status::failure("the object has been modified", "Conflict").with_code(409).boxed();
        Error::Install { name: "x".to_owned(), source: kube::Error::Api(status).into() }
    }

    #[test]
    fn look_that_succeeded_is_not_repeated() {
        for look in LOOKS {
            let step = Step::after("x", look, Ok(done(false)), None);
            assert!(!step.look_again && step.result.is_ok());
        }
    }

    #[test]
    fn look_again_survives_errors() {
        let render = || Error::Render { name: "x".to_owned(), reason: String::new() };
        assert!(Step::after("x", Look::Again, Err(render()), None).look_again);
        assert!(!Step::after("x", Look::IfMore, Err(render()), None).look_again, "nothing was written");
        for look in LOOKS {
            let step = Step::after("x", look, Err(conflict()), None);
            assert!(step.look_again && matches!(step.result, Err(Error::Install { .. })));
        }
    }

    #[test]
    fn dropped_versions_are_looked_for_though_the_crd_is_not_served() {
        for look in LOOKS {
            let step = Step::after("x", look, Ok(done(true)), Some("no".to_owned()));
            assert!(step.look_again && matches!(step.result, Err(Error::NotServed { name, .. }) if name == "x"));
            assert!(Step::after("x", look, Ok(done(true)), None).look_again);
        }
    }

    #[test]
    fn version_that_nobody_has_brings_no_further_look() {
        let source =
            UnknownVersion { arm_type: "a/b".into(), wanted: "1999-01-01".into(), newest: "2025-01-01".into() };
        let unknown = Error::UnknownVersion { name: "x".to_owned(), source };
        assert!(!Step::after("x", Look::Again, Err(unknown), None).look_again);
    }
}
