//! The catalog: what every Azure type looks like, as data, and what is made from it.
//!
//! Nothing here knows a network, a cluster or a clock. [`catalog::Catalog`] lists the kinds and loads one when it is asked for; a
//! [`kind::Kind`] gives its CRD, a [`kind::Version`] turns a spec into a PUT body and an ARM answer into a status. [`arm_id::ArmId`] is how
//! the rest of the fleet takes ids apart. [`import`] makes the catalog from Azure's type data.
//!
//! Kept true here: types are data. Nothing in this crate names a kind, but for the few whose names or payloads follow a rule of their own.

pub mod admission;
pub mod archive;
pub mod arm_id;
pub mod body;
pub mod catalog;
pub mod crd;
pub mod entry;
pub mod graph;
pub mod import;
pub mod kind;
pub mod manager;
pub mod names;
pub mod pattern;
pub mod request;
pub mod shape;
pub mod specimen;
mod table;

pub use arm_id::ArmId;
pub use body::{BodyError, Difference, Inputs, Resolved, SecretValue, Target, Violation};
pub use catalog::Catalog;
pub use entry::KindEntry;
pub use kind::{Kind, NameContext, NameRule, Owner, Scope, Version};
pub use manager::Manager;
pub use pattern::{Asked, Pattern, UnknownVersion};
