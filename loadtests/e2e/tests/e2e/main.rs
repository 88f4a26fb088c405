//! A fleet of real `flotilla` processes against a real API server and armsim, as users see it.
//!
//! What is claimed here is proved from what the others wrote down: armsim's journal of calls and the API server's audit log.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "tests print figures, and on failure the fleet's logs")]

mod audit;
mod bad_input;
mod conformance;
mod further;
mod journal;
mod laws;
mod name_from_config;
mod not_of_arm;
mod sandbox;
mod testbed;
