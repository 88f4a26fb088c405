//! The local world: a real control plane, the ARM simulator, and the scenarios run against them.

pub mod armsim;
pub mod bench;
pub mod chart;
pub mod cluster;
pub mod control_plane;
pub mod demo;
pub mod fleet;
mod port;
mod process;
pub mod prometheus;
pub mod tools;
