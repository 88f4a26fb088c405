//! The testbed: a real control plane, members of a fleet as processes, and the tools that users have.

pub mod chart;
pub mod cluster;
pub mod control_plane;
pub mod fleet;
mod port;
mod process;
pub mod prometheus;
pub mod tools;
