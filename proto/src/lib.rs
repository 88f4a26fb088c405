//! What all members of the fleet must agree on: the wire contract, the key space, names, timings, and how each of them starts
//! tasks and speaks to the API server.

mod budget;
pub mod digest;
mod id;
mod key;
pub mod kubernetes;
mod severity;
pub mod task;
pub mod timing;
pub mod tls;

pub use budget::{BucketKey, Class, Limit, UnknownBucket};
pub use flotilla_names as names;
pub use id::{Epoch, GroupKind, Term, WorkerId};
pub use key::{Key, KeyRange, NotAKey};
pub use severity::Severity;
pub use tls::Tls;

/// Generated from `proto/fleet.proto`.
#[allow(missing_docs, clippy::all, clippy::pedantic, reason = "generated code")]
pub mod v1 {
    tonic::include_proto!("flotilla.fleet.v1");
}
