//! Decides what an object needs, and does it.
//!
//! An object's way: [`watch`] sees that it changed, [`record`] puts it in the [`queue`], and [`intake`] begins a [`turn`] when it
//! is next. A turn gathers what can be known ([`view`], [`resolve`], [`live`]), asks [`decide`] for one [`plan`], carries that out
//! through [`cluster`] and [`azure`], and repeats this until nothing is left to do now. What the worker knows beyond the object is
//! in [`memory`], what is kept of each object between turns in [`record`]. [`condition`], [`trouble`] and [`events`] say it to
//! people.

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
