//! What Azure showed during this reconcile.
//!
//! Keeps true: a reading counts only for the moment that it was taken in. A write to Azure, a new claim, a new generation of the spec
//! and a deletion end that moment, so no step can decide from what was read before them.

use serde_json::Value;

use crate::engine::live::Live;

/// The time between two changes that void a reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    /// The object's generation.
    pub(super) generation: i64,
    /// The object is being deleted.
    pub(super) deleting: bool,
    /// Writes to Azure and claims so far.
    pub(super) writes: u32,
}

/// The last reading.
#[derive(Debug, Default)]
pub(super) struct Reading(Option<(Moment, Live, Value)>);

impl Reading {
    /// Takes in what was read: what it means, and the body.
    pub(super) fn take(&mut self, at: Moment, live: Live, body: Value) {
        self.0 = Some((at, live, body));
    }

    /// What it means, if it counts now.
    pub(super) fn live(&self, now: Moment) -> Option<&Live> {
        self.0.as_ref().filter(|(at, ..)| *at == now).map(|(_, live, _)| live)
    }

    /// The body of a resource that exists, if the reading counts now.
    pub(super) fn found(&self, now: Moment) -> Option<&Value> {
        let (_, live, body) = self.0.as_ref().filter(|(at, ..)| *at == now)?;
        matches!(live, Live::Found { .. }).then_some(body)
    }

    /// The object's status now says what was read.
    pub(super) fn mark_shown(&mut self, now: Moment) {
        if let Some((at, Live::Found { shown, .. }, _)) = &mut self.0
            && *at == now
        {
            *shown = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::live::State;

    const AT: Moment = Moment { generation: 1, deleting: false, writes: 0 };

    fn reading() -> Reading {
        let mut reading = Reading::default();
        reading.take(AT, Live::Found { state: State::Settled, differences: Vec::new(), shown: false }, Value::Null);
        reading
    }

    #[test]
    fn reading_ends_with_a_write_a_new_generation_or_a_deletion() {
        let mut reading = reading();
        assert!(reading.live(AT).is_some() && reading.found(AT).is_some());
        let later = [Moment { writes: 1, ..AT }, Moment { generation: 2, ..AT }, Moment { deleting: true, ..AT }];
        for now in later {
            assert_eq!((reading.live(now), reading.found(now)), (None, None), "{now:?}");
            reading.mark_shown(now);
        }
        assert!(matches!(reading.live(AT), Some(Live::Found { shown: false, .. })));
    }

    #[test]
    fn status_that_was_written_is_shown() {
        let mut reading = reading();
        reading.mark_shown(AT);
        assert!(matches!(reading.live(AT), Some(Live::Found { shown: true, .. })));
    }
}
