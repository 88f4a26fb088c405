//! The streams to the workers, one per worker.

use std::collections::BTreeMap;

use flotilla_proto::WorkerId;
use flotilla_proto::v1::LeaderMessage;
use flotilla_proto::v1::leader_message::Message as ToWorker;
use tokio::sync::mpsc::error::TrySendError;

use crate::fleet::StreamId;
use crate::server::Outbox;

/// All streams. Dropping one's outbox ends it.
#[derive(Debug, Default)]
pub(super) struct Peers {
    streams: BTreeMap<WorkerId, (StreamId, Outbox)>,
}

impl Peers {
    /// A worker has a new stream; its former one ends.
    pub(super) fn add(&mut self, worker: WorkerId, stream: StreamId, outbox: Outbox) {
        self.streams.insert(worker, (stream, outbox));
    }

    /// Ends a stream, unless the worker has another one by now. Says whether it was the present one.
    pub(super) fn remove(&mut self, worker: &WorkerId, stream: StreamId) -> bool {
        let current = self.is_current(worker, stream);
        if current {
            self.streams.remove(worker);
        }
        current
    }

    /// Whether this is the worker's present stream.
    pub(super) fn is_current(&self, worker: &WorkerId, stream: StreamId) -> bool {
        self.streams.get(worker).is_some_and(|(current, _)| *current == stream)
    }

    /// All connected workers.
    pub(super) fn all(&self) -> Vec<WorkerId> {
        self.streams.keys().cloned().collect()
    }

    /// Sends, without waiting. If the outbox is full the stream is ended and returned.
    pub(super) fn send(&mut self, worker: &WorkerId, stream: Option<StreamId>, message: ToWorker) -> Option<StreamId> {
        let (current, outbox) = self.streams.get(worker)?;
        if stream.is_some_and(|stream| stream != *current) {
            return None;
        }
        match outbox.try_send(Ok(LeaderMessage { message: Some(message) })) {
            // The reading side says that it ended.
            Ok(()) | Err(TrySendError::Closed(_)) => None,
            Err(TrySendError::Full(_)) => self.streams.remove(worker).map(|(stream, _)| stream),
        }
    }
}
