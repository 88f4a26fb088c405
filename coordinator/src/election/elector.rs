//! The rules of the election, without I/O: client-go's, on our own clock.

use std::time::{Duration, Instant};

use flotilla_proto::timing;

use crate::membership::Read;
use crate::store::{Found, LeaderLease, Version};

/// Times of the election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timers {
    /// A leader that is silent for so long may be replaced.
    pub lease: Duration,
    /// A leader that could not renew for so long steps down. Shorter, so that it has stopped before another begins.
    pub renew_within: Duration,
    /// How often the lease is read or renewed.
    pub retry_every: Duration,
}

impl Default for Timers {
    fn default() -> Self {
        Self {
            lease: timing::LEADER_LEASE,
            renew_within: timing::LEADER_RENEW_WITHIN,
            retry_every: timing::LEADER_RETRY_EVERY,
        }
    }
}

/// What to do after reading the lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Somebody else leads; read the lease again after this time.
    Wait(Duration),
    /// Take the lease: write it under this version.
    Take(Option<Version>),
}

/// What a candidate knows of the lease.
#[derive(Clone, Debug)]
pub(crate) struct Elector {
    timers: Timers,
    /// The holder and renewal seen last, and the end of the read that first showed them.
    seen: Option<(Option<String>, String, Instant)>,
}

impl Elector {
    /// Knows nothing yet.
    pub(crate) fn new(timers: Timers) -> Self {
        Self { timers, seen: None }
    }

    /// Takes in what the lease says. A holder is replaced only if its lease was unchanged for the whole time on our clock, by a read
    /// that began after that; what the holder wrote as its time does not matter.
    pub(crate) fn observe(&mut self, found: Option<&Found<LeaderLease>>, read: Read) -> Verdict {
        let Some(Found { record, version }) = found else {
            self.seen = None;
            return Verdict::Take(None);
        };
        let unchanged = self
            .seen
            .take()
            .filter(|(holder, renewal, _)| (holder.as_ref(), renewal) == (record.holder.as_ref(), &record.renewal));
        let since = unchanged.map_or(read.ended, |(_, _, since)| since);
        self.seen = Some((record.holder.clone(), record.renewal.clone(), since));
        if record.holder.is_none() {
            return Verdict::Take(Some(version.clone()));
        }
        // The holder may have been started with a longer time than ours.
        let until = since + self.timers.lease.max(record.duration);
        if read.began >= until {
            return Verdict::Take(Some(version.clone()));
        }
        let left = until.saturating_duration_since(read.ended);
        Verdict::Wait(left.clamp(Duration::from_millis(10), self.timers.retry_every))
    }

    /// The term of the next leader: above the lease's and the map's, in case one of them was deleted.
    pub(crate) fn next_term(lease: Option<&LeaderLease>, map: Option<u64>) -> u64 {
        lease.map_or(0, |lease| lease.term).max(map.unwrap_or(0)) + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(holder: Option<&str>, renewal: &str) -> Found<LeaderLease> {
        let record = LeaderLease {
            holder: holder.map(str::to_owned),
            address: String::new(),
            term: 3,
            duration: Duration::from_secs(8),
            acquired: None,
            renewal: renewal.into(),
        };
        Found { record, version: Version(renewal.into()) }
    }

    struct Candidate {
        start: Instant,
        elector: Elector,
    }

    impl Candidate {
        fn new() -> Self {
            Self { start: Instant::now(), elector: Elector::new(Timers::default()) }
        }

        fn observe(&mut self, found: Option<&Found<LeaderLease>>, began: u64, ended: u64) -> Verdict {
            let at = |seconds| self.start + Duration::from_secs(seconds);
            let read = Read { began: at(began), ended: at(ended) };
            self.elector.observe(found, read)
        }
    }

    #[test]
    fn missing_and_vacated_leases_are_taken_at_once() {
        let mut candidate = Candidate::new();
        assert_eq!(candidate.observe(None, 0, 0), Verdict::Take(None));
        assert_eq!(candidate.observe(Some(&lease(None, "r")), 1, 1), Verdict::Take(Some(Version("r".into()))));
    }

    #[test]
    fn renewed_lease_is_never_taken() {
        let mut candidate = Candidate::new();
        for second in 0..60 {
            let found = lease(Some("a"), &format!("r{}", second / 5));
            assert!(matches!(candidate.observe(Some(&found), second, second), Verdict::Wait(_)), "second {second}");
        }
    }

    #[test]
    fn silent_holder_is_replaced_after_its_time_on_our_clock() {
        let mut candidate = Candidate::new();
        let found = lease(Some("a"), "r");
        assert!(matches!(candidate.observe(Some(&found), 0, 1), Verdict::Wait(_)));
        assert!(matches!(candidate.observe(Some(&found), 8, 20), Verdict::Wait(_)), "a slow read proves nothing");
        assert_eq!(candidate.observe(Some(&found), 9, 9), Verdict::Take(Some(Version("r".into()))));
    }

    #[test]
    fn next_read_is_when_the_time_is_over() {
        let mut candidate = Candidate::new();
        let found = lease(Some("a"), "r");
        candidate.observe(Some(&found), 0, 0);
        assert_eq!(candidate.observe(Some(&found), 3, 3), Verdict::Wait(Duration::from_secs(1)));
        let read = Read { began: candidate.start, ended: candidate.start + Duration::from_millis(7800) };
        assert_eq!(candidate.elector.observe(Some(&found), read), Verdict::Wait(Duration::from_millis(200)));
    }

    #[test]
    fn term_grows_even_if_lease_or_map_was_deleted() {
        let found = lease(None, "r").record;
        assert_eq!(Elector::next_term(None, None), 1);
        assert_eq!(Elector::next_term(Some(&found), None), 4);
        assert_eq!(Elector::next_term(None, Some(9)), 10);
        assert_eq!(Elector::next_term(Some(&found), Some(9)), 10);
    }
}
