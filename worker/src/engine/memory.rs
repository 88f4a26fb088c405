//! What this worker knows about an object beyond what the object says; it ends with the claim on the object.
//!
//! Losing it is always safe: what is no longer known is read from Azure before anything is written.

use std::time::Duration;

use jiff::Timestamp;

use super::condition::Ready;
use super::live::{Live, State};
use super::object::Intent;
use super::trouble::Trouble;
use crate::arm::operation::Handle;

/// How far the PUT of an intent has come, as far as this worker knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Put {
    /// It may or may not have been sent: by a worker before us, or its answer was lost.
    #[default]
    Unknown,
    /// The intent was written here and nothing was sent yet.
    Unsent,
    /// Azure refused it, or its operation failed.
    Rejected,
    /// Azure took it.
    Accepted,
    /// Azure took it, and the resource was read since.
    ReadBack,
}

/// Trouble, and until when it rests.
#[derive(Clone, Debug, PartialEq)]
pub struct Resting {
    /// What is wrong.
    pub trouble: Trouble,
    /// The generation that met it; a newer one is reconciled at once.
    pub generation: i64,
    /// Not reconciled before, unless something wakes it.
    pub until: Timestamp,
}

/// What came of a long-running operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It goes on; poll again then.
    Running(Timestamp),
    /// It succeeded.
    Done,
    /// It failed or was lost; the trouble is remembered.
    Failed,
}

/// A long-running operation whose handle is durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// It deletes the resource; otherwise it creates or changes it.
    pub deletes: bool,
    /// The generation it was begun for.
    pub generation: i64,
    /// How it stands.
    pub outcome: Outcome,
    /// Asking about it fails, again and again.
    pub unheard: Option<Ready>,
}

/// What decisions are made from, beyond the object and Azure.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Memory {
    /// The latest intent written or seen here, and its PUT.
    put: Option<(Intent, Put)>,
    /// What went wrong last.
    pub resting: Option<Resting>,
    /// How often something went wrong in a row.
    pub failures: u32,
    /// How often in a row Azure answered that the resource does not exist.
    pub absent: u32,
    /// How often in a row Azure said that something runs on the resource.
    pub busy: u32,
    /// Azure accepted the DELETE, or the resource does not exist.
    pub deleted: bool,
    /// A DELETE was refused in a way that a read may explain.
    pub delete_refused: bool,
    /// Differences that stayed after an accepted PUT: the service keeps its own value, and writing again is no use.
    tolerated: Vec<String>,
}

/// All that this worker remembers of an object, while there is work.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Mind {
    /// What decisions are made from.
    pub memory: Memory,
    /// The operation in flight, further than the one stored on the object.
    pub handle: Option<Handle>,
    /// The handle could not be written to the object yet.
    pub unstored: bool,
    /// Why the last polls failed.
    pub unheard: Option<Ready>,
}

impl Memory {
    /// How far the PUT of this intent has come.
    pub fn put(&self, intent: &Intent) -> Put {
        self.put.as_ref().filter(|(known, _)| known == intent).map_or(Put::Unknown, |(_, put)| *put)
    }

    /// The intent is durable and nothing was sent.
    pub fn intend(&mut self, intent: Intent) {
        self.put = Some((intent, Put::Unsent));
        self.absent = 0;
        self.tolerated.clear();
    }

    /// A PUT is about to be sent: from here on only its answer tells what became of it.
    pub fn sending(&mut self, intent: &Intent) {
        self.put = Some((intent.clone(), Put::Unknown));
        self.absent = 0;
    }

    /// Azure took the PUT.
    pub fn accepted(&mut self, intent: &Intent) {
        self.put = Some((intent.clone(), Put::Accepted));
    }

    /// Azure refused the PUT.
    pub fn rejected(&mut self, intent: &Intent) {
        self.put = Some((intent.clone(), Put::Rejected));
    }

    /// Takes in what a read showed, and returns it without the differences that are known to stay.
    ///
    /// The first read after an accepted PUT shows which stated values the service does not keep.
    pub fn read(&mut self, intent: Option<&Intent>, mut live: Live) -> Live {
        match &mut live {
            Live::Absent => (self.absent, self.busy) = (self.absent + 1, 0),
            Live::Refused { .. } => {}
            Live::Found { state, differences, .. } => {
                self.absent = 0;
                self.busy = if matches!(state, State::Running | State::Deleting) { self.busy + 1 } else { 0 };
                let put = intent.map_or(Put::Unknown, |intent| self.put(intent));
                match (&state, put, intent) {
                    // Somebody's PUT runs while ours is unconfirmed: it is ours, whoever sent it.
                    (State::Running, Put::Unknown, Some(intent)) => self.accepted(intent),
                    (State::Failed, Put::Accepted, Some(intent)) => self.rejected(intent),
                    (State::Settled, Put::Accepted, Some(intent)) => {
                        self.tolerated.clone_from(differences);
                        self.put = Some((intent.clone(), Put::ReadBack));
                    }
                    _ => {}
                }
                if !matches!(state, State::Running) {
                    self.tolerated.retain(|known| differences.contains(known));
                }
                differences.retain(|difference| !self.tolerated.contains(difference));
            }
        }
        live
    }

    /// Whether there are differences that are known to stay.
    pub fn tolerates(&self) -> bool {
        !self.tolerated.is_empty()
    }

    /// Something went wrong.
    pub fn fail(&mut self, trouble: Trouble, generation: i64, now: Timestamp, resync: Option<Duration>) {
        self.failures = self.failures.saturating_add(1);
        let until = now.saturating_add(trouble.retry.delay(self.failures, resync)).unwrap_or(Timestamp::MAX);
        self.resting = Some(Resting { trouble, generation, until });
    }

    /// All is well.
    pub fn recover(&mut self) {
        self.resting = None;
        self.failures = 0;
        self.delete_refused = false;
    }

    /// A cause may have gone away: try at once. What failed is remembered, so that waits still grow.
    pub fn wake(&mut self) {
        if let Some(resting) = &mut self.resting {
            resting.until = Timestamp::MIN;
        }
    }

    /// The rest that is not over yet.
    pub fn resting_at(&self, generation: i64, now: Timestamp) -> Option<&Resting> {
        self.resting.as_ref().filter(|resting| resting.generation == generation && resting.until > now)
    }
}
