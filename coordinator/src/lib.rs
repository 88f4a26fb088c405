//! The coordinator: one elected leader decides which worker owns which shard and what each may spend.

pub mod budget;
