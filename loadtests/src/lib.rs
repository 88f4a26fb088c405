//! The local world: a real control plane, the ARM simulator, and the scenarios run against them.

pub mod armsim;
pub mod control_plane;
mod port;
mod process;
pub mod tools;
