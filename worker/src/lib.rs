//! A worker: takes shards, watches their objects, and brings Azure to the state that the objects ask for.

pub mod arm;
pub mod budget;
pub mod engine;
pub mod fleet;
pub mod metrics;
pub mod run;

pub use run::{Config, run};
