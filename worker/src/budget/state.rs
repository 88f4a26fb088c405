//! Everything the spender knows, behind one lock that is held for a few lines at a time.
//!
//! What a method decides it returns. The caller sends it once the lock is released: who hears it may ask for the lock at once.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use flotilla_proto::v1;
use flotilla_proto::v1::worker_message::Message as ToLeader;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::bucket::{Bucket, Settled};
use super::key::{BucketKey, Class, Priority};
use super::observation::Observation;
use super::options::Options;
use super::permit::{Parked, Permit, Source};
use super::queue::Waiter;

/// How often the leader hears what ARM said is left, by ARM's clock.
const TELL_EVERY: f64 = 0.2;
/// Requests whose time of sending is remembered; a grant that answers an older one has ended long ago.
const REMEMBERED: usize = 256;

/// The buckets and what is known of the leader.
#[derive(Debug)]
pub(super) struct State {
    options: Options,
    /// In order, so that the same events lead to the same messages.
    buckets: BTreeMap<BucketKey, Bucket>,
    /// The ARM region that took the last call, by identity and class.
    regions: HashMap<BucketKey, Arc<str>>,
    parks: BTreeMap<BucketKey, Instant>,
    /// When each request was sent, since a grant's time counts from there.
    sent: BTreeMap<u64, Instant>,
    last_request: u64,
    last_sent: Option<Instant>,
    /// Since when we wait for an answer.
    unanswered: Option<Instant>,
    /// Of how many workers we are one; zero until told.
    workers: u32,
}

/// What became of a call that asked for a token. The bucket is the one it belongs to as far as its region is known.
#[derive(Debug)]
pub(super) enum Begun {
    /// It may be made now.
    Permitted(BucketKey, Source),
    /// It waits, and hears on this.
    Waits(oneshot::Receiver<Result<Permit, Parked>>),
    /// Nobody may call in this bucket for a while.
    Parked(BucketKey, Parked),
}

/// Calls that may be made now.
#[derive(Debug, Default)]
pub(super) struct Served {
    /// Who waited, and the token for it.
    pub(super) calls: Vec<(Waiter, Source)>,
    /// When the next token of our share is there, if somebody waits for it.
    pub(super) next: Option<Duration>,
}

/// Calls that are refused because their bucket is parked.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) calls: Vec<Waiter>,
    pub(super) parked: Parked,
}

/// What to tell the leader, and what to count.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) messages: Vec<ToLeader>,
    pub(super) settled: Vec<(Class, Settled)>,
    pub(super) waiting: BTreeMap<Class, usize>,
}

impl State {
    pub(super) fn new(options: Options) -> Self {
        Self {
            options,
            buckets: BTreeMap::new(),
            regions: HashMap::new(),
            parks: BTreeMap::new(),
            sent: BTreeMap::new(),
            last_request: 0,
            last_sent: None,
            unanswered: None,
            workers: 0,
        }
    }

    /// A call wants a token.
    pub(super) fn begin(&mut self, key: &BucketKey, priority: Priority, now: Instant) -> Begun {
        let key = self.in_region(key);
        if let Some(parked) = self.parked(&key, now) {
            return Begun::Parked(key, parked);
        }
        if self.bucket(&key, now).queue.is_empty()
            && let Ok(source) = self.take(&key, now)
        {
            return Begun::Permitted(key, source);
        }
        let (answer, answered) = oneshot::channel();
        self.bucket(&key, now).queue.push(Waiter { priority, since: now, answer });
        Begun::Waits(answered)
    }

    /// Takes note of what ARM said. Returns the bucket that it parks, for how long, and the waiting calls that are refused.
    pub(super) fn observe(
        &mut self,
        key: &BucketKey,
        seen: &Observation,
        now: Instant,
    ) -> Option<(BucketKey, Duration, Refused)> {
        for (class, left) in &seen.remaining {
            let mut key = key.of_class(*class);
            if let Some(region) = &seen.region {
                self.learn_region(&key, region);
                key = key.in_region(region);
            }
            self.bucket(&key, now).remaining = Some(*left);
        }
        let wait = seen.throttled_for.filter(|_| seen.by_gateway)?;
        let key = seen.region.as_ref().map_or_else(|| self.in_region(key), |region| key.in_region(region));
        let refused = self.park(&key, wait, now);
        Some((key, wait, refused))
    }

    /// The key with the region that the identity's calls go to, as far as known.
    fn in_region(&self, key: &BucketKey) -> BucketKey {
        match self.regions.get(&key.in_region("")) {
            Some(region) if key.region.is_empty() => BucketKey { region: region.clone(), ..key.clone() },
            _ => key.clone(),
        }
    }

    fn bucket(&mut self, key: &BucketKey, now: Instant) -> &mut Bucket {
        let limit = self.options.limit(key.class);
        self.buckets.entry(key.clone()).or_insert_with(|| Bucket::new(limit, now))
    }

    /// Calls that go to a region make it the one that calls without a region belong to. Tokens and waiting calls move.
    fn learn_region(&mut self, key: &BucketKey, region: &str) {
        let account = key.in_region("");
        if self.regions.get(&account).is_some_and(|known| **known == *region) {
            return;
        }
        self.regions.insert(account.clone(), region.into());
        if let Some(bucket) = self.buckets.remove(&account) {
            self.buckets.entry(key.in_region(region)).or_insert(bucket);
        }
    }

    /// Until when nobody may call in this bucket.
    fn parked(&self, key: &BucketKey, now: Instant) -> Option<Parked> {
        let parks = self.parks.iter().filter(|(parked, until)| parked.may_be(key) && **until > now);
        parks.map(|(_, until)| *until).max().map(|until| Parked { until: until.into_std() })
    }

    /// Nobody calls in this bucket for a while. Returns the waiting calls that are refused.
    pub(super) fn park(&mut self, key: &BucketKey, wait: Duration, now: Instant) -> Refused {
        self.parks.retain(|_, until| *until > now);
        // Seven weeks are as good as for ever, and further than that a clock may not reach.
        let until = now + wait.min(Duration::from_hours(50 * 24));
        let until = self.parks.get(key).map_or(until, |known| until.max(*known));
        self.parks.insert(key.clone(), until);
        let parked = self.buckets.iter_mut().filter(|(other, _)| other.may_be(key));
        let calls = parked.flat_map(|(_, bucket)| bucket.queue.take_all()).collect();
        Refused { calls, parked: Parked { until: until.into_std() } }
    }

    /// Whether the leader has been silent for too long.
    fn is_alone(&self, now: Instant) -> bool {
        self.unanswered.is_some_and(|since| now.saturating_duration_since(since) >= self.options.patience)
    }

    /// Takes a token, if there is one. Otherwise says when our share has the next one, if we live on it.
    fn take(&mut self, key: &BucketKey, now: Instant) -> Result<Source, Option<Duration>> {
        let alone = self.is_alone(now);
        let workers = self.workers;
        let bucket = self.bucket(key, now);
        match bucket.take_granted(now) {
            Some(source) => Ok(source),
            None if alone => bucket.take_share(workers, now),
            None => Err(None),
        }
    }

    /// Takes tokens for those who wait, the most urgent first.
    pub(super) fn serve(&mut self, key: &BucketKey, now: Instant) -> Served {
        let mut served = Served::default();
        if self.parked(key, now).is_some() {
            return served;
        }
        let age = self.options.age;
        while self.buckets.get_mut(key).is_some_and(|bucket| bucket.queue.waiting() > 0) {
            let source = match self.take(key, now) {
                Ok(source) => source,
                Err(wait) => {
                    served.next = wait;
                    break;
                }
            };
            let next = self.bucket(key, now).queue.pop(age, now);
            let Some(waiter) = next else {
                self.unspent(key, source);
                break;
            };
            served.calls.push((waiter, source));
        }
        served
    }

    /// A token was taken and no call will be made.
    fn unspent(&mut self, key: &BucketKey, source: Source) {
        if let (Source::Grant(grant), Some(bucket)) = (source, self.buckets.get_mut(key)) {
            bucket.finished(grant, false);
        }
    }

    /// Takes the leader's answer. Says which bucket has something new.
    pub(super) fn granted(&mut self, grant: &v1::BudgetGrant, now: Instant) -> Option<BucketKey> {
        let key = BucketKey::try_from(grant.bucket.as_ref()?).ok()?;
        let key = self.in_region(&key);
        self.unanswered = None;
        for bucket in self.buckets.values_mut() {
            bucket.put_share_away();
        }
        let sent = self.sent.get(&grant.request).copied();
        let ends = sent.map_or(now, |sent| sent + Duration::from_millis(grant.valid_ms.into()));
        self.bucket(&key, now).granted(grant.grant, grant.tokens, ends);
        Some(key)
    }

    /// We are one of so many workers.
    pub(super) fn shared(&mut self, workers: u32) {
        self.workers = workers;
    }

    /// What to tell the leader now.
    pub(super) fn report(&mut self, now: Instant) -> Report {
        let options = self.options;
        let tell_every = Duration::from_secs_f64(TELL_EVERY / options.time_scale.max(1.0));
        let (mut report, mut asks) = (Report::default(), Vec::new());
        for (key, bucket) in &mut self.buckets {
            for over in bucket.settle(&options, now) {
                report.settled.push((key.class, over));
                let (bucket, grant, unused) = (Some(key.into()), over.grant, over.unused);
                report.messages.push(ToLeader::BudgetReturn(v1::BudgetReturn { bucket, grant, unused }));
            }
            let told = bucket.told_remaining.is_some_and(|at| now.saturating_duration_since(at) < tell_every);
            if let Some(remaining) = bucket.remaining.take_if(|_| !told) {
                bucket.told_remaining = Some(now);
                report.messages.push(observation(key, Some(remaining), None));
            }
            asks.extend(bucket.ask(&options, now).map(|tokens| (key.clone(), tokens)));
            *report.waiting.entry(key.class).or_default() += bucket.queue.waiting();
        }
        for (key, tokens) in asks {
            self.unanswered.get_or_insert(now);
            report.messages.push(self.request(Some(&key), tokens, now));
        }
        if self.last_sent.is_none_or(|sent| now.saturating_duration_since(sent) >= options.renew) {
            report.messages.push(self.request(None, 0, now)); // a sign of life
        }
        report
    }

    fn request(&mut self, key: Option<&BucketKey>, tokens: u32, now: Instant) -> ToLeader {
        self.last_request += 1;
        self.last_sent = Some(now);
        self.sent.insert(self.last_request, now);
        while self.sent.len() > REMEMBERED {
            self.sent.pop_first();
        }
        let (bucket, request, workers) = (key.map(Into::into), self.last_request, self.workers);
        ToLeader::BudgetRequest(v1::BudgetRequest { bucket, tokens, request, workers })
    }

    pub(super) fn keys(&self) -> Vec<BucketKey> {
        self.buckets.keys().cloned().collect()
    }

    /// A call has its answer, or was not made after all.
    pub(super) fn finished(&mut self, key: &BucketKey, grant: u64, used: bool) {
        // The bucket may have got a region since.
        for (_, bucket) in self.buckets.iter_mut().filter(|(other, _)| other.may_be(key)) {
            bucket.finished(grant, used);
        }
    }

    /// Whether something may happen soon.
    pub(super) fn is_busy(&mut self, now: Instant) -> bool {
        self.buckets.values_mut().any(|b| b.queue.waiting() > 0 || b.in_hand(now) > 0 || b.remaining.is_some())
    }
}

pub(super) fn observation(key: &BucketKey, remaining: Option<u32>, wait: Option<Duration>) -> ToLeader {
    let retry_after_ms = wait.map(|wait| u32::try_from(wait.as_millis()).unwrap_or(u32::MAX));
    ToLeader::BudgetObservation(v1::BudgetObservation { bucket: Some(key.into()), remaining, retry_after_ms })
}
