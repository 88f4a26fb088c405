//! The worker's place in the fleet: its lease, its stream to the leader, the shards it holds.

mod handover;
mod held;
pub mod leader;
pub mod lease;
mod shards;
pub mod stream;

pub use handover::Handover;
pub use held::{Gained, HeldShard};
pub use shards::{Claim, Shards};
pub use stream::Event;
