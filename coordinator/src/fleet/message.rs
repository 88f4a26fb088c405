//! What goes into the leader's core and what comes out of it.

use std::collections::BTreeSet;
use std::time::Duration;

use flotilla_proto::v1::leader_message::Message as ToWorker;
use flotilla_proto::{Epoch, GroupKind, KeyRange, WorkerId, v1};

use crate::handoff::Reason;
use crate::membership::{LeaseSeen, Read};
use crate::shard_map::ShardMap;

/// One Join stream. A worker that joins again has another one, and what an older one still brings is void.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct StreamId(pub u64);

/// Something happened.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// The workers' leases were read.
    Leases {
        /// All of them.
        leases: Vec<LeaseSeen>,
        /// When.
        read: Read,
    },
    /// A worker said Hello.
    Joined {
        /// Who.
        worker: WorkerId,
        /// On which stream.
        stream: StreamId,
        /// What it says it holds.
        held: Vec<(KeyRange, Epoch)>,
    },
    /// A stream ended.
    Left {
        /// Whose.
        worker: WorkerId,
        /// Which.
        stream: StreamId,
    },
    /// A worker gave shards up.
    Released {
        /// Who.
        worker: WorkerId,
        /// On which stream.
        stream: StreamId,
        /// What.
        shards: Vec<(KeyRange, Epoch)>,
    },
    /// A worker says what its shards cost.
    Load {
        /// Who.
        worker: WorkerId,
        /// On which stream.
        stream: StreamId,
        /// Each held range with its cost.
        shards: Vec<(KeyRange, v1::ShardLoad)>,
    },
    /// The namespaces that exist, by hash.
    Namespaces(BTreeSet<u64>),
    /// The kinds that have objects.
    Kinds(BTreeSet<GroupKind>),
    /// The map of this version is in the store.
    Saved {
        /// As in [`Action::Save`].
        version: u64,
    },
    /// An attempt to fence a worker's lease ended.
    Fenced {
        /// Whose.
        worker: WorkerId,
        /// Whether it can't be renewed any more; otherwise it had changed, or the store did not answer.
        done: bool,
    },
    /// Time passed.
    Tick,
}

/// Something to do.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    /// Write the map, guarded by the version that the last write left. Answered by [`Event::Saved`].
    Save {
        /// Names this state of the map in the answer.
        version: u64,
        /// The map.
        map: ShardMap,
    },
    /// Send a message.
    Send {
        /// To whom.
        worker: WorkerId,
        /// On which stream.
        stream: StreamId,
        /// What.
        message: ToWorker,
    },
    /// End a stream.
    Close {
        /// Whose.
        worker: WorkerId,
        /// Which.
        stream: StreamId,
    },
    /// Take a worker's lease away, guarded by this version of it. Answered by [`Event::Fenced`].
    Fence {
        /// Whose.
        worker: WorkerId,
        /// The lease's version as last read.
        version: String,
    },
    /// Read the leases now rather than at the next turn.
    ReadLeases,
    /// Worth counting.
    Note(Note),
}

/// Something that operators count.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Note {
    /// A shard's grant went out.
    Granted {
        /// Why it changed hands.
        reason: Reason,
        /// Whether the former owner did not acknowledge.
        unclean: bool,
        /// From the revoke, or from the last sign of a dead owner, to the grant.
        took: Duration,
    },
    /// A worker holds what the map gives to another.
    Stray,
    /// A worker did not answer a revoke in time and loses its lease.
    Unanswered,
    /// A message of a stream that is over.
    Stale,
}
