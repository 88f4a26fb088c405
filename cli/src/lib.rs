//! The tools of the `flotilla` program, as a library so that tests can ask them without a process.
//!
//! [`plan`] says which requests to ARM a set of manifests leads to, [`crds`] shows the kinds. The members of a fleet live in the crates
//! `flotilla-coordinator` and `flotilla-worker`.

pub mod crds;
mod names;
mod output;
pub mod plan;
pub mod settings;
mod suggest;

use std::process::ExitCode;

/// Says why a tool failed.
pub fn fail(error: &anyhow::Error) -> ExitCode {
    output::failure(error);
    ExitCode::FAILURE
}
