//! The catalog: what every Azure type looks like, as data, and what is made from it.
//!
//! Nothing here knows a network, a cluster or a clock. [`Catalog`] lists the kinds and loads one when it is asked for; a
//! [`Kind`] gives its CRD, a [`Version`] turns a spec into a PUT body and an ARM answer into a status. [`ArmId`] is how
//! the rest of the fleet takes ids apart. [`import()`] makes the catalog from Azure's type data.
//!
//! Kept true here: types are data. Nothing in this crate names a kind, but for the few whose names or payloads follow a rule of their own.

mod admission;
mod archive;
mod arm_id;
mod body;
mod catalog;
mod crd;
mod entry;
mod graph;
mod import;
mod kind;
mod manager;
mod names;
mod pattern;
pub mod request;
mod scopes;
mod shape;
mod specimen;
mod table;

pub use admission::{POLICY as ADMISSION_POLICY, policies as admission_policies};
pub use archive::Error as CatalogError;
pub use arm_id::{ArmId, Error as ArmIdError};
pub use body::{
    BodyError, Change, Difference, FieldPath, Inputs, KeyInput, Problem, Reference, Resolved, SecretValue, Target,
    Violation,
};
pub use catalog::Catalog;
pub use entry::{Export, KindEntry, VersionEntry};
pub use import::{Error as ImportError, Imported, Report, changes, run as import};
pub use kind::{Kind, NameContext, NameError, NameRule, Owner, OwnerError, Scope, Version};
pub use manager::Manager;
pub use pattern::{Asked, Error as PatternError, Pattern, UnknownVersion};
pub use scopes::Scopes;
pub use shape::{Field, Object, Role, Shape};
pub use specimen::{ARM_ID as SPECIMEN_ARM_ID, Extent, NAME as SPECIMEN_NAME};
