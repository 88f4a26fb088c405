//! The CRDs and the admission policy on a real API server: what users do to objects through any version loses nothing,
//! and what must be refused is refused with a message that helps.
//!
//! No operator runs here. What holds, holds while Flotilla is down.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "what fails in a test's helper fails the test")]

mod api;
mod client_apply;
mod installation;
mod judge;
mod kubectl;
mod leader;
mod leader_log;
mod maximal;
mod older;
mod ownership;
mod subject;

mod across;
mod fewer;
mod further;
mod identity;
mod install;
mod ratchet;
mod rules;
mod stored;
mod tools;
mod unserved;
mod versions;
