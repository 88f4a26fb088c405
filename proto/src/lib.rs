//! The fleet's wire contract, and the types that both sides share.

mod budget;
mod id;
mod key;

pub use budget::{BucketKey, Class, Limit, UnknownBucket};
pub use id::{Epoch, GroupKind, Term, WorkerId};
pub use key::{Key, KeyRange, NotAKey};

/// Generated from `proto/fleet.proto`.
#[allow(missing_docs, clippy::all, clippy::pedantic, reason = "generated code")]
pub mod v1 {
    tonic::include_proto!("flotilla.fleet.v1");
}
