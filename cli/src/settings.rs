//! The settings that a worker and the tools share, as flags with ASO's variables.
//!
//! Kept true here: clap reads each variable and no other code does, so `--help` lists them all. An empty variable counts as unset.

mod azure;
mod credential;
mod reconcile;
mod value;
mod variables;

pub use azure::{Azure, Simulation};
pub use credential::Credential;
pub use reconcile::Reconcile;
pub use variables::{ignore_empty, name_variable};
