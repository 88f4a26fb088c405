//! The laws of the fleet, proved from armsim's journal and the API server's audit log.

mod budget;
mod claims;
mod quiet;
mod survival;
