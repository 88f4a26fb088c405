//! Where leases and the shard map live.
//!
//! One small trait with one rule: a write names the version that it was decided on, and the store refuses it if that is not
//! the present one. All of the fleet's safety stands on this.

mod kubernetes;
#[cfg(test)]
pub(crate) mod memory;

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

pub use kubernetes::Kubernetes;

use crate::membership::LeaseSeen;
use crate::shard_map::ShardMap;

/// The store's version of one record. Only compared for equality.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version(pub String);

/// A record with its version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found<T> {
    /// What was read.
    pub record: T,
    /// Guards the next write.
    pub version: Version,
}

/// The coordinators' lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderLease {
    /// Who leads; None once it vacated the lease.
    pub holder: Option<String>,
    /// Where its gRPC server answers.
    pub address: String,
    /// The term: grows with each new holder.
    pub term: u64,
    /// For how long the holder may be silent.
    pub duration: Duration,
    /// When the holder took it, by its wall clock: for people to read.
    pub acquired: Option<Timestamp>,
    /// Changes with each renewal. Only compared for equality; set by the store on writing.
    pub renewal: String,
}

/// A failed call of the store.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Somebody else wrote in between.
    #[error("failed to {what}: somebody else changed it in between")]
    Conflict {
        /// The call.
        what: String,
    },
    /// The store did not answer in time. The call may have taken effect.
    #[error("failed to {what}: no answer in time")]
    TimedOut {
        /// The call.
        what: String,
    },
    /// The store refused or could not be reached.
    #[error("failed to {what}")]
    Call {
        /// The call.
        what: String,
        /// Cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// What is stored can't be read.
    #[error("failed to parse {what}")]
    Corrupt {
        /// The record.
        what: String,
        /// Cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl Error {
    /// Whether the write was refused because of its version.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Error::Conflict { .. })
    }
}

/// Leases, map and term, behind one door.
#[async_trait]
pub trait Store: fmt::Debug + Send + Sync {
    /// The coordinators' lease.
    async fn leader(&self) -> Result<Option<Found<LeaderLease>>, Error>;

    /// Writes it, new if no version is given.
    async fn put_leader(&self, lease: &LeaderLease, known: Option<&Version>) -> Result<Version, Error>;

    /// All workers' leases, as they stand now and not as some cache has them.
    async fn workers(&self) -> Result<Vec<LeaseSeen>, Error>;

    /// Takes a worker's lease away.
    async fn fence(&self, pod: &str, known: &Version, by: &str) -> Result<(), Error>;

    /// Removes the lease of a worker that is gone.
    async fn forget(&self, pod: &str, known: &Version) -> Result<(), Error>;

    /// The shard map. The inner error is about its content, whose version is known all the same.
    async fn map(&self) -> Result<Option<Found<Result<ShardMap, Error>>>, Error>;

    /// Writes the map, new if no version is given.
    async fn put_map(&self, map: &ShardMap, known: Option<&Version>) -> Result<Version, Error>;
}
