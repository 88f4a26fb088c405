//! Armsim over the wire, as its clients see it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod admin;
mod client;
mod entra;
mod faults;
mod limits;
mod operations;
mod program;
mod refusals;
mod resources;
