//! The coordinator: one elected leader decides which worker owns which shard and what each may spend.

pub mod budget;
pub mod fleet;
pub mod handoff;
pub mod load;
pub mod membership;
pub mod placement;
pub mod shard_map;
