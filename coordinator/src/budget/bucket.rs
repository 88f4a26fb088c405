//! One of ARM's buckets as the leader sees it.
//!
//! Keeps true: level + tokens in workers' hands ≤ what ARM's bucket holds, as long as nobody else spends from it.
//! The level may be negative: then ARM has said that it holds less than workers already have in hand.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flotilla_proto::{Limit, WorkerId};

use super::members::Members;

/// Part of a bucket that is left for what others may have spent since ARM said how much there is. Costs nothing while
/// nobody else spends: then ARM's bucket settles a little higher.
const KEPT: f64 = 0.02;

/// Tokens in a worker's hands, spent or not.
#[derive(Clone, Debug)]
struct Outstanding {
    worker: WorkerId,
    tokens: u32,
    /// From then on what was not given back counts as spent.
    until: Instant,
}

/// Tokens that a worker waits for.
#[derive(Clone, Debug)]
struct Demand {
    tokens: u32,
    /// The worker's newest request, repeated in each grant.
    request: u64,
    /// The region as the worker named it, which is how it finds the bucket again.
    region: Arc<str>,
    until: Instant,
    answered: bool,
}

/// Tokens for one worker; none is an answer too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Portion {
    pub(super) worker: WorkerId,
    pub(super) tokens: u32,
    pub(super) request: u64,
    pub(super) region: Arc<str>,
}

/// Level, grants and demand of one bucket.
#[derive(Debug)]
pub(super) struct Bucket {
    limit: Limit,
    level: f64,
    refilled: Instant,
    outstanding: BTreeMap<u64, Outstanding>,
    demand: BTreeMap<WorkerId, Demand>,
    /// The worker served last, so that remainders go round.
    served: Option<WorkerId>,
    /// All tokens granted so far, until ARM has said how full its bucket really is.
    unconfirmed: Option<u64>,
    /// When ARM's word may first raise the level: grants of an earlier leader have ended by then.
    confirm_from: Instant,
    parked_until: Option<Instant>,
    /// 429s in a row, with no answer of another kind between them.
    strikes: u32,
}

impl Bucket {
    /// Starts empty: an earlier leader may have spent all there was. ARM's first answer says what is really there.
    pub(super) fn new(limit: Limit, confirm_from: Instant, now: Instant) -> Self {
        Self {
            limit,
            level: 0.0,
            refilled: now,
            outstanding: BTreeMap::new(),
            demand: BTreeMap::new(),
            served: None,
            unconfirmed: Some(0),
            confirm_from,
            parked_until: None,
            strikes: 0,
        }
    }

    /// Adds what ARM has refilled since the last call, less the part that silent workers may be using.
    pub(super) fn refill(&mut self, members: &Members, now: Instant) {
        // A worker may have fallen silent or come back since: the larger part covers both.
        let then = members.reserved(self.refilled);
        let reserved = members.reserved(now).max(then);
        let passed = now.saturating_duration_since(self.refilled).as_secs_f64();
        self.refilled = self.refilled.max(now);
        self.level += passed * self.limit.per_second * (1.0 - reserved);
        self.cap();
    }

    /// ARM's bucket overflows when it is full; ours must too.
    fn cap(&mut self) {
        self.level = self.level.min(self.limit.capacity - f64::from(self.in_hands()));
    }

    /// Tokens granted and neither given back nor ended.
    pub(super) fn in_hands(&self) -> u32 {
        self.outstanding.values().map(|grant| grant.tokens).sum()
    }

    /// Replaces what the worker waits for.
    pub(super) fn ask(&mut self, worker: &WorkerId, region: Arc<str>, tokens: u32, request: u64, until: Instant) {
        if self.demand.get(worker).is_some_and(|demand| demand.request > request) {
            return; // an older request that was overtaken
        }
        let demand = Demand { tokens, request, region, until, answered: false };
        self.demand.insert(worker.clone(), demand);
    }

    /// Takes unused tokens back. None if the grant has ended or was given back already.
    pub(super) fn give_back(&mut self, worker: &WorkerId, grant: u64, unused: u32) -> Option<u32> {
        let found = self.outstanding.get(&grant).filter(|found| found.worker == *worker)?;
        let unused = unused.min(found.tokens);
        self.outstanding.remove(&grant);
        self.level += f64::from(unused);
        self.cap();
        Some(unused)
    }

    /// Tokens whose grant has ended with no word of what was left of them.
    pub(super) fn forfeit(&mut self, now: Instant) -> u32 {
        let before = self.in_hands();
        self.outstanding.retain(|_, grant| now < grant.until);
        before - self.in_hands()
    }

    /// ARM said how many tokens it holds.
    ///
    /// Lowers the level when ARM holds less than we think. Raises it once: the first word about a bucket that started
    /// empty tells what is there, less all that may have been spent since.
    pub(super) fn observe(&mut self, remaining: u32, now: Instant) {
        if !self.is_parked(now) {
            self.strikes = 0;
        }
        let remaining = f64::from(remaining);
        if now >= self.confirm_from
            && let Some(granted) = self.unconfirmed.take()
        {
            #[expect(clippy::cast_precision_loss, reason = "tokens of a bucket's first seconds")]
            let granted = granted as f64;
            self.level = self.level.max(remaining - granted);
            self.cap();
            return;
        }
        let left = remaining - f64::from(self.in_hands()) - self.limit.capacity * KEPT;
        self.level = self.level.min(left);
    }

    /// ARM refused a call: it holds nothing, and nobody should call before `until`. Says how much longer that makes the
    /// pause.
    pub(super) fn park(&mut self, until: Instant, now: Instant) -> Duration {
        if !self.is_parked(now) {
            self.strikes += 1;
        }
        self.level = self.level.min(-f64::from(self.in_hands()));
        let before = self.parked_until.map_or(now, |parked| parked.max(now));
        self.parked_until = Some(before.max(until));
        until.saturating_duration_since(before)
    }

    /// How long nobody may call, if that is so.
    pub(super) fn parked_for(&self, now: Instant) -> Option<Duration> {
        self.parked_until.and_then(|until| until.checked_duration_since(now)).filter(|left| !left.is_zero())
    }

    fn is_parked(&self, now: Instant) -> bool {
        self.parked_for(now).is_some()
    }

    /// Forgets what a worker that is gone waited for. Its grants run out by themselves: it may have spent them.
    pub(super) fn forget(&mut self, members: &Members) {
        self.demand.retain(|worker, _| members.contains(worker));
    }

    /// How full the bucket is, from 0 to 1.
    pub(super) fn fullness(&self) -> f64 {
        (self.level / self.limit.capacity).clamp(0.0, 1.0)
    }

    /// Divides what is there among those who wait: equal parts first, what one does not want to the others, and single
    /// tokens in turn (deficit round robin with a quantum of one token).
    pub(super) fn divide(&mut self, now: Instant) -> Vec<Portion> {
        self.demand.retain(|_, demand| now < demand.until);
        let mut wanting: Vec<WorkerId> =
            self.demand.iter().filter(|(_, demand)| demand.tokens > 0).map(|(worker, _)| worker.clone()).collect();
        if let Some(served) = &self.served {
            let first = wanting.iter().position(|worker| worker > served).unwrap_or(0);
            wanting.rotate_left(first);
        }
        let mut given: BTreeMap<WorkerId, u32> = BTreeMap::new();
        let mut left = self.spendable(now);
        let most = self.most_at_once(wanting.len());
        while left > 0 && !wanting.is_empty() {
            let part = (left / u32::try_from(wanting.len()).unwrap_or(u32::MAX)).max(1);
            let mut still = Vec::new();
            for worker in wanting {
                let has = given.entry(worker.clone()).or_default();
                let wants = self.demand.get(&worker).map_or(0, |demand| demand.tokens.min(most) - *has);
                let gets = wants.min(part).min(left);
                *has += gets;
                left -= gets;
                if gets > 0 {
                    self.served = Some(worker.clone());
                }
                if gets < wants {
                    still.push(worker);
                }
            }
            wanting = still;
        }
        self.portions(&given)
    }

    /// The answers: tokens for those who got some, and a word for those who were not answered yet.
    fn portions(&mut self, given: &BTreeMap<WorkerId, u32>) -> Vec<Portion> {
        let mut portions = Vec::new();
        for (worker, demand) in &mut self.demand {
            let tokens = given.get(worker).copied().unwrap_or(0);
            if tokens > 0 || !demand.answered {
                demand.tokens -= tokens;
                demand.answered = true;
                let (worker, region) = (worker.clone(), demand.region.clone());
                portions.push(Portion { worker, tokens, request: demand.request, region });
            }
        }
        portions
    }

    /// Notes that the portion is on its way.
    pub(super) fn hand_out(&mut self, portion: &Portion, grant: u64, until: Instant) {
        self.level -= f64::from(portion.tokens);
        if let Some(granted) = &mut self.unconfirmed {
            *granted += u64::from(portion.tokens);
        }
        let outstanding = Outstanding { worker: portion.worker.clone(), tokens: portion.tokens, until };
        self.outstanding.insert(grant, outstanding);
    }

    fn spendable(&self, now: Instant) -> u32 {
        if self.is_parked(now) {
            return 0;
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to a bucket's size")]
        let level = self.level.clamp(0.0, self.limit.capacity) as u32;
        match self.strikes {
            0 | 1 => level,
            // Refused again right after a pause: one call finds out whether ARM is willing, and does not extend a penalty.
            _ => level.min(1_u32.saturating_sub(self.in_hands())),
        }
    }

    /// No worker gets more than this in one grant, so that who asks a moment later finds something too.
    fn most_at_once(&self, wanting: usize) -> u32 {
        #[expect(clippy::cast_precision_loss, reason = "a number of workers")]
        let most = self.limit.capacity.max(self.limit.per_second) / 4.0 / wanting.max(1) as f64;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most a quarter of a bucket")]
        let most = most as u32;
        most.max(1)
    }
}
