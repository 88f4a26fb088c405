//! The coordinator: one elected leader decides which worker owns which shard and what each may spend.
//!
//! The middle knows no network: [`fleet`] takes events and says what to do, from [`membership`], [`shard_map`], [`load`],
//! [`placement`] and [`handoff`]; [`budget`] and [`wake`] stand beside it. Around it are [`store`], [`election`], the gRPC
//! server and the leader's loop, put together in [`Coordinator::run`].

mod budget;
mod config;
mod crd_install;
mod election;
mod fleet;
mod handoff;
mod installed;
mod kinds;
mod leader;
mod load;
mod membership;
mod metrics;
mod placement;
mod run;
mod server;
mod shard_map;
mod store;
mod wake;
mod watches;

pub use budget::{Desk as BudgetDesk, Metrics as BudgetMetrics, Options as BudgetOptions, Outgoing, To as Recipient};
pub use config::Config;
pub use crd_install::Versions;
pub use election::Timers as ElectionTimers;
pub use fleet::Settings as FleetSettings;
pub use kinds::Settings as DiscoverySettings;
pub use membership::{LeaseSeen, Timers as LeaseTimers};
pub use run::{Coordinator, Error, Role};
pub use shard_map::{Shard, ShardMap};
pub use store::{
    Error as StoreError, Found, Kubernetes as KubernetesStore, LeaderLease, Store, Version as StoreVersion,
};
