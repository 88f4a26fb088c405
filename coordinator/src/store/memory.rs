//! A store in memory that fails on demand, for tests of what happens then.

use std::sync::Mutex;

use async_trait::async_trait;

use super::{Error, Found, LeaderLease, Store, Version};
use crate::membership::LeaseSeen;
use crate::shard_map::ShardMap;

#[derive(Debug, Default)]
struct State {
    versions: u64,
    leader: Option<(LeaderLease, u64)>,
    map: Option<(ShardMap, u64)>,
    lost_answers: usize,
    fails: bool,
}

/// One record of each sort.
#[derive(Debug, Default)]
pub(crate) struct Memory(Mutex<State>);

impl Memory {
    /// The next so many writes arrive, but their answers do not.
    pub(crate) fn lose_answers(&self, count: usize) {
        self.0.lock().unwrap().lost_answers = count;
    }

    /// Nothing works, or all does again.
    pub(crate) fn fail(&self, fails: bool) {
        self.0.lock().unwrap().fails = fails;
    }

    /// Somebody adds a label to the map.
    pub(crate) fn touch_map(&self) {
        let state = &mut *self.0.lock().unwrap();
        state.versions += 1;
        state.map.as_mut().unwrap().1 = state.versions;
    }

    /// Somebody deletes the map.
    pub(crate) fn delete_map(&self) {
        self.0.lock().unwrap().map = None;
    }

    fn write<T>(
        &self,
        record: T,
        known: Option<&Version>,
        slot: impl FnOnce(&mut State) -> &mut Option<(T, u64)>,
    ) -> Result<Version, Error> {
        let state = &mut *self.0.lock().unwrap();
        if state.fails {
            return Err(Error::TimedOut { what: "write".into() });
        }
        let next = state.versions + 1;
        let slot = slot(state);
        if slot.as_ref().map(|(_, version)| Version(version.to_string())).as_ref() != known {
            return Err(Error::Conflict { what: "write the record".into() });
        }
        *slot = Some((record, next));
        state.versions = next;
        if state.lost_answers > 0 {
            state.lost_answers -= 1;
            return Err(Error::TimedOut { what: "write".into() });
        }
        Ok(Version(next.to_string()))
    }

    fn read<T: Clone>(&self, slot: impl FnOnce(&State) -> &Option<(T, u64)>) -> Result<Option<Found<T>>, Error> {
        let state = self.0.lock().unwrap();
        if state.fails {
            return Err(Error::TimedOut { what: "read".into() });
        }
        let found = slot(&state).clone();
        Ok(found.map(|(record, version)| Found { record, version: Version(version.to_string()) }))
    }
}

#[async_trait]
impl Store for Memory {
    async fn leader(&self) -> Result<Option<Found<LeaderLease>>, Error> {
        let renewal = self.0.lock().unwrap().leader.as_ref().map(|(_, version)| version.to_string());
        let found = self.read(|state| &state.leader)?;
        Ok(found.map(|mut found| {
            found.record.renewal = renewal.unwrap_or_default();
            found
        }))
    }

    async fn put_leader(&self, lease: &LeaderLease, known: Option<&Version>) -> Result<Version, Error> {
        self.write(lease.clone(), known, |state| &mut state.leader)
    }

    async fn workers(&self) -> Result<Vec<LeaseSeen>, Error> {
        Ok(Vec::new())
    }

    async fn fence(&self, pod: &str, _: &Version, _: &str) -> Result<(), Error> {
        Err(Error::Conflict { what: format!("change the lease of {pod}") })
    }

    async fn forget(&self, pod: &str, _: &Version) -> Result<(), Error> {
        Err(Error::Conflict { what: format!("change the lease of {pod}") })
    }

    async fn map(&self) -> Result<Option<Found<Result<ShardMap, Error>>>, Error> {
        let found = self.read(|state| &state.map)?;
        Ok(found.map(|Found { record, version }| Found { record: Ok(record), version }))
    }

    async fn put_map(&self, map: &ShardMap, known: Option<&Version>) -> Result<Version, Error> {
        self.write(map.clone(), known, |state| &mut state.map)
    }
}
