//! The worker's place in the fleet: its lease, its stream to the leader, the shards it holds.
