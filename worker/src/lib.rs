//! A worker: takes shards, watches their objects, and brings Azure to the state that the objects ask for.
//!
//! [`fleet`] is granted shards and says under which claim something may be written; [`engine`] decides and acts for each object in
//! them; [`arm`] talks to Azure, and [`budget`] says when it may. [`run`](fn@run) puts them together.
//!
//! `arm` builds on `budget`, the engine on both and on `fleet`, and none of those knows the engine. What is public in them is there
//! for `flotilla plan`, for the benchmarks, and for tests with a simulator, a real leader or a real lease.

pub mod arm;
pub mod budget;
pub mod engine;
pub mod fleet;
mod id;
pub mod metrics;
mod run;

pub use run::{Config, run};
