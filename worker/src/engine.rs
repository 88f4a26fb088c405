//! Decides what an object needs, and does it.

pub mod azure;
pub mod cluster;
pub mod condition;
pub mod context;
pub mod decide;
pub mod events;
pub mod intake;
pub mod live;
pub mod load;
pub mod memory;
pub mod names;
pub mod object;
pub mod patch;
pub mod plan;
pub mod queue;
pub mod record;
pub mod resolve;
pub mod retry;
pub mod seen;
pub mod trouble;
pub mod turn;
pub mod unready;
pub mod view;
pub mod watch;
