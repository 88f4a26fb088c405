//! When the objects of a kind are inspected for the versions that they use.
//!
//! Kept true here: versions that were dropped are followed by an inspection that succeeds. So one that failed is repeated, and
//! a write of which we have no answer counts as one that dropped versions.

use super::error::Error;
use super::outcome::{Done, Outcome};

/// Whether to inspect which versions the objects of a kind use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Inspection {
    /// Not now: what is served stays.
    No,
    /// If more is served than is asked for.
    IfMore,
    /// In any case: what was dropped may have been used meanwhile.
    Again,
}

impl Inspection {
    /// The usual inspection, when it is time for one.
    pub(super) fn when(due: bool) -> Self {
        if due { Self::IfMore } else { Self::No }
    }
}

/// A CRD's part of a pass is over.
pub(super) struct Step {
    pub(super) result: Result<Outcome, Error>,
    /// Its objects have to be inspected in the next pass, whatever else that one does.
    pub(super) inspect_again: bool,
}

impl Step {
    /// What follows from a kind's inspection and its installation. `unserved` says why the API server does not serve it,
    /// if it does not.
    ///
    /// Pure. Whether it is served changes nothing about what was dropped.
    pub(super) fn after(
        name: &str,
        inspection: Inspection,
        done: Result<Done, Error>,
        unserved: Option<String>,
    ) -> Self {
        let inspect_again = match &done {
            Ok(done) => done.inspect_again,
            // It may have been carried out though the answer was lost.
            Err(Error::Install { .. }) => true,
            Err(error) => inspection == Inspection::Again && error.may_pass(),
        };
        let result = match (done, unserved) {
            (Ok(_), Some(why)) => Err(Error::NotServed { name: name.to_owned(), why }),
            (done, _) => done.map(|done| done.outcome),
        };
        Self { result, inspect_again }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use flotilla_crds::UnknownVersion;

    use super::*;

    const INSPECTIONS: [Inspection; 3] = [Inspection::No, Inspection::IfMore, Inspection::Again];

    fn done(inspect_again: bool) -> Done {
        Done { outcome: Outcome::Written, inspect_again, serves: BTreeSet::new() }
    }

    fn conflict() -> Error {
        let status = kube::core::Status::failure("the object has been modified", "Conflict").with_code(409).boxed();
        Error::Install { name: "x".to_owned(), source: kube::Error::Api(status).into() }
    }

    #[test]
    fn inspection_that_succeeded_is_not_repeated() {
        for inspection in INSPECTIONS {
            let step = Step::after("x", inspection, Ok(done(false)), None);
            assert!(!step.inspect_again && step.result.is_ok());
        }
    }

    #[test]
    fn inspection_again_survives_errors() {
        let render = || Error::Render { name: "x".to_owned(), reason: String::new() };
        assert!(Step::after("x", Inspection::Again, Err(render()), None).inspect_again);
        assert!(!Step::after("x", Inspection::IfMore, Err(render()), None).inspect_again, "nothing was written");
        for inspection in INSPECTIONS {
            let step = Step::after("x", inspection, Err(conflict()), None);
            assert!(step.inspect_again && matches!(step.result, Err(Error::Install { .. })));
        }
    }

    #[test]
    fn dropped_versions_are_inspected_though_the_crd_is_not_served() {
        for inspection in INSPECTIONS {
            let step = Step::after("x", inspection, Ok(done(true)), Some("no".to_owned()));
            assert!(step.inspect_again && matches!(step.result, Err(Error::NotServed { name, .. }) if name == "x"));
            assert!(Step::after("x", inspection, Ok(done(true)), None).inspect_again);
        }
    }

    #[test]
    fn version_that_nobody_has_brings_no_further_inspection() {
        let source =
            UnknownVersion { arm_type: "a/b".into(), wanted: "1999-01-01".into(), newest: "2025-01-01".into() };
        let unknown = Error::UnknownVersion { name: "x".to_owned(), source };
        assert!(!Step::after("x", Inspection::Again, Err(unknown), None).inspect_again);
    }
}
