//! The coordinator: one elected leader decides which worker owns which shard and what each may spend.
//!
//! The middle knows no network: [`fleet`] takes events and says what to do, from [`membership`], [`shard_map`], [`load`],
//! [`placement`] and [`handoff`]; [`budget`] and [`wake`] stand beside it. Around it are [`store`], [`election`], the gRPC
//! server and the leader's loop, put together in [`Coordinator::run`].

pub mod budget;
pub mod config;
pub mod crd_install;
pub mod election;
pub mod fleet;
pub mod handoff;
mod installed;
pub mod kinds;
mod leader;
pub mod load;
pub mod membership;
pub mod metrics;
pub mod placement;
mod run;
mod server;
pub mod shard_map;
pub mod store;
pub mod wake;
mod watches;

pub use config::Config;
pub use run::{Coordinator, Error, Role, run};
