//! Who may be spending without asking, and how much.
//!
//! A worker that cannot hear the leader lives on its share. The leader keeps that share free for each worker that is
//! alive by its lease and has not been heard, so that the sum fits whichever side of a partition a worker is on.
//! The shares that workers may believe in never add up to more than one: workers repeat what they were told, and a share
//! grows only after others have said that theirs has shrunk.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use flotilla_proto::WorkerId;
use flotilla_proto::timing::BUDGET_SHARE_REPEAT_AFTER;

use super::options::Options;

/// The live workers as the ledger knows them.
#[derive(Debug)]
pub(super) struct Members {
    away_after: Duration,
    back_after: Duration,
    /// Until then live workers that were not heard may have all that others do not remember to have.
    strict_until: Instant,
    live: BTreeMap<WorkerId, Member>,
}

/// What is known of one worker.
#[derive(Debug, Default)]
struct Member {
    /// When its last message came; none if it was not heard in this term.
    heard: Option<Instant>,
    /// When it came back after it was away.
    back: Option<Instant>,
    /// The largest share it may believe in; none until it has said so in this term.
    share: Option<f64>,
    /// What it said last. None at first; zero if it was never told.
    says: Option<u32>,
    /// What it was told last, and when.
    told: Option<(u32, Instant)>,
}

impl Members {
    pub(super) fn new(options: &Options, now: Instant) -> Self {
        let Options { away_after, back_after, unheard_for, .. } = *options;
        Self { away_after, back_after, strict_until: now + unheard_for, live: BTreeMap::new() }
    }

    /// Sets who is alive.
    pub(super) fn set(&mut self, live: &BTreeSet<WorkerId>) {
        self.live.retain(|worker, _| live.contains(worker));
        for worker in live {
            self.live.entry(worker.clone()).or_default();
        }
    }

    /// Notes a sign of life.
    pub(super) fn heard(&mut self, worker: &WorkerId, now: Instant) {
        let away = self.is_away(worker, now);
        let member = self.live.entry(worker.clone()).or_default();
        if away {
            member.back = Some(now);
        }
        member.heard = Some(now);
    }

    /// Notes of how many workers it believes to be one.
    pub(super) fn says(&mut self, worker: &WorkerId, workers: u32) {
        let member = self.live.entry(worker.clone()).or_default();
        member.says = Some(workers);
        member.share = match (member.share, member.told) {
            (Some(_), Some((told, _))) if told == workers => Some(part(told)),
            (share, told) => {
                let told = told.map_or(0.0, |(told, _)| part(told));
                Some(share.unwrap_or(0.0).max(told).max(part(workers)))
            }
        };
    }

    /// Who must be told of how many workers it is one.
    pub(super) fn tell(&mut self, now: Instant) -> Vec<(WorkerId, u32)> {
        let fair = u32::try_from(self.live.len()).unwrap_or(u32::MAX);
        let mut taken = self.believed() + self.unheard(now);
        let mut tell = Vec::new();
        for (worker, member) in &mut self.live {
            let Some(share) = member.share else { continue };
            let number = fair.max(one_of(1.0 - (taken - share)));
            let knows = member.told.is_some_and(|(told, at)| {
                let waits = now.saturating_duration_since(at) <= BUDGET_SHARE_REPEAT_AFTER;
                told == number && (waits || member.says == Some(told))
            });
            if !knows {
                let larger = share.max(part(number));
                taken += larger - share;
                member.share = Some(larger);
                member.told = Some((number, now));
                tell.push((worker.clone(), number));
            }
        }
        tell
    }

    /// The part of each bucket's refill that workers may be using without asking.
    pub(super) fn reserved(&self, now: Instant) -> f64 {
        let away = self.live.iter().filter(|(worker, member)| {
            let back = member.back.is_some_and(|back| now.saturating_duration_since(back) < self.back_after);
            back || self.is_away(worker, now)
        });
        let away: f64 = away.filter_map(|(_, member)| member.share).sum();
        (away + self.unheard(now)).min(1.0)
    }

    /// What those have who have said so.
    fn believed(&self) -> f64 {
        self.live.values().filter_map(|member| member.share).sum()
    }

    /// What those may have who have not said so in this term: what the earlier leader did not give to the others. Where
    /// nobody remembers anything the fleet is new, and after a while equal parts are assumed.
    fn unheard(&self, now: Instant) -> f64 {
        let unheard = self.live.values().filter(|member| member.share.is_none()).count();
        if unheard == 0 {
            return 0.0;
        }
        if now < self.strict_until || self.live.values().any(|member| member.says.is_some_and(|says| says > 0)) {
            return (1.0 - self.believed()).max(0.0);
        }
        #[expect(clippy::cast_precision_loss, reason = "numbers of workers")]
        let part = unheard as f64 / self.live.len() as f64;
        part
    }

    /// Whether the worker may have lost patience with us: not heard in this term, or not for a while.
    pub(super) fn is_away(&self, worker: &WorkerId, now: Instant) -> bool {
        let heard = self.live.get(worker).and_then(|member| member.heard);
        heard.is_none_or(|heard| now.saturating_duration_since(heard) > self.away_after)
    }

    /// Whether the worker is alive.
    pub(super) fn contains(&self, worker: &WorkerId) -> bool {
        self.live.contains_key(worker)
    }
}

/// The share of one of so many workers; none for a worker that was never told.
fn part(workers: u32) -> f64 {
    if workers == 0 { 0.0 } else { 1.0 / f64::from(workers) }
}

/// The smallest number of workers whose part fits into what is free.
fn one_of(free: f64) -> u32 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at least 1, and casts saturate")]
    let number = (1.0 / free.max(1e-9) - 1e-6).ceil().max(1.0) as u32;
    number
}
