//! A worker: takes shards, watches their objects, and brings Azure to the state that the objects ask for.
//!
//! [`fleet`] is granted shards and says under which claim something may be written; [`engine`] decides and acts for each object in
//! them; [`arm`] talks to Azure, and [`budget`] says when it may. [`run`](mod@run) puts them together.

pub mod arm;
pub mod budget;
pub mod engine;
pub mod fleet;
mod id;
pub mod metrics;
pub mod run;

pub use run::{Config, run};
