//! Decides what an object needs, and does it.

pub mod condition;
pub mod decide;
pub mod live;
pub mod memory;
pub mod names;
pub mod object;
pub mod plan;
pub mod queue;
pub mod retry;
