//! All buckets of the fleet, and the grants drawn from them.
//!
//! Pure: time is passed in and nothing is sent. The same calls in the same order give the same grants.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use flotilla_proto::{BucketKey, Class, Term, WorkerId};

use super::bucket::Bucket;
use super::members::Members;
use super::options::Options;
use super::regions::Regions;

/// Tokens for one worker. None are an answer as well: the leader is there and has nothing now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    /// Who may spend them.
    pub worker: WorkerId,
    /// From which bucket, in the words of the worker's request.
    pub bucket: BucketKey,
    /// How many.
    pub tokens: u32,
    /// For how long, counted from when the worker sent the request.
    pub valid: Duration,
    /// Names the grant when it is given back. Never used twice, not even by another leader.
    pub id: u64,
    /// The worker's newest request.
    pub request: u64,
}

/// Nobody calls in this bucket for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Park {
    /// Which bucket.
    pub bucket: BucketKey,
    /// For how long.
    pub wait: Duration,
    /// How much of that is new: several workers may report the same pause.
    pub longer_by: Duration,
}

/// Tokens that came back or were given up, by class, since the last call of [`Ledger::settle`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settled {
    /// Tokens whose grant ended with no word from the worker; they count as spent.
    pub forfeited: BTreeMap<Class, u32>,
}

/// The ledger of one leader, for one term.
#[derive(Debug)]
pub(crate) struct Ledger {
    options: Options,
    started: Instant,
    members: Members,
    accounts: BTreeMap<BucketKey, Regions>,
    next_grant: u64,
}

impl Ledger {
    /// An empty ledger for a new leader. Grant numbers carry the term, so that a grant of an earlier leader is not
    /// mistaken for one of this.
    pub(crate) fn new(term: Term, options: Options, now: Instant) -> Self {
        Self {
            options,
            started: now,
            members: Members::new(&options, now),
            accounts: BTreeMap::new(),
            next_grant: (term.0 << 32) + 1,
        }
    }

    /// Sets which workers are alive by their leases, connected or not.
    pub(crate) fn set_members(&mut self, live: &BTreeSet<WorkerId>, now: Instant) {
        self.refill(now);
        self.members.set(live);
        for (_, bucket) in self.accounts.values_mut().flat_map(Regions::iter_mut) {
            bucket.forget(&self.members);
        }
    }

    /// Notes that a worker was heard, whatever it said.
    pub(crate) fn heard(&mut self, worker: &WorkerId, now: Instant) {
        if self.members.is_away(worker, now) {
            self.refill(now); // the time that has passed is counted with the worker's share kept free
        }
        self.members.heard(worker, now);
    }

    /// A worker says of how many workers it believes to be one; zero if it was never told.
    pub(crate) fn says(&mut self, worker: &WorkerId, workers: u32, now: Instant) {
        self.heard(worker, now);
        self.refill(now);
        self.members.says(worker, workers);
    }

    /// Which workers must be told of how many they are one.
    pub(crate) fn tell_shares(&mut self, now: Instant) -> Vec<(WorkerId, u32)> {
        self.members.tell(now)
    }

    /// A worker says how many tokens it waits for; this replaces what it said before.
    pub(crate) fn request(&mut self, worker: &WorkerId, key: &BucketKey, tokens: u32, request: u64, now: Instant) {
        self.heard(worker, now);
        let until = now + self.options.demand_for;
        self.bucket(key, now).ask(worker, key.region.clone(), tokens, request, until);
    }

    /// A worker gives back what it did not use. Says how many tokens were credited; a grant that has ended gives none.
    pub(crate) fn give_back(
        &mut self,
        worker: &WorkerId,
        key: &BucketKey,
        grant: u64,
        unused: u32,
        now: Instant,
    ) -> u32 {
        self.heard(worker, now);
        self.refill(now);
        // The grant may have been asked for before the region was known, so all regions are looked through.
        let regions = self.accounts.entry(account(key)).or_default();
        regions.iter_mut().find_map(|(_, bucket)| bucket.give_back(worker, grant, unused)).unwrap_or(0)
    }

    /// ARM said how many tokens are left.
    pub(crate) fn observe(&mut self, key: &BucketKey, remaining: u32, now: Instant) {
        self.bucket(key, now).observe(remaining, now);
        self.accounts.entry(account(key)).or_default().answered_in(&key.region);
    }

    /// ARM answered 429: everybody must be told what is returned.
    pub(crate) fn park(&mut self, key: &BucketKey, wait: Duration, now: Instant) -> Park {
        let bucket = self.bucket(key, now);
        let longer_by = bucket.park(now + wait, now);
        Park { bucket: key.clone(), wait: bucket.parked_for(now).unwrap_or(wait), longer_by }
    }

    /// What is parked now, for a worker that has just joined.
    pub(crate) fn parked(&self, now: Instant) -> Vec<Park> {
        let parked = self.buckets().filter_map(|(key, bucket)| {
            let wait = bucket.parked_for(now)?;
            Some(Park { bucket: key, wait, longer_by: Duration::ZERO })
        });
        parked.collect()
    }

    /// Ends what has run out and divides what there is among those who wait.
    pub(crate) fn settle(&mut self, now: Instant) -> (Vec<Grant>, Settled) {
        self.refill(now);
        let Options { valid, settle_within, .. } = self.options;
        let mut grants = Vec::new();
        let mut settled = Settled::default();
        for (account, regions) in &mut self.accounts {
            for (_, bucket) in regions.iter_mut() {
                *settled.forfeited.entry(account.class).or_default() += bucket.forfeit(now);
                for portion in bucket.divide(now) {
                    let id = self.next_grant;
                    if portion.tokens > 0 {
                        self.next_grant += 1;
                        bucket.hand_out(&portion, id, now + valid + settle_within);
                    }
                    let bucket = account.in_region(&portion.region);
                    let (worker, tokens, request) = (portion.worker, portion.tokens, portion.request);
                    grants.push(Grant { worker, bucket, tokens, valid, id, request });
                }
            }
        }
        (grants, settled)
    }

    /// How full the emptiest bucket of each class is, and how many of the class are parked.
    pub(crate) fn levels(&self, now: Instant) -> BTreeMap<Class, (f64, u64)> {
        let mut levels = BTreeMap::new();
        for (key, bucket) in self.buckets() {
            let (level, parked) = levels.entry(key.class).or_insert((1.0_f64, 0));
            *level = level.min(bucket.fullness());
            *parked += u64::from(bucket.parked_for(now).is_some());
        }
        levels
    }

    fn buckets(&self) -> impl Iterator<Item = (BucketKey, &Bucket)> {
        self.accounts
            .iter()
            .flat_map(|(account, regions)| regions.iter().map(|(region, bucket)| (account.in_region(region), bucket)))
    }

    /// Brings all buckets to `now` while the members are still those of the time that has passed.
    fn refill(&mut self, now: Instant) {
        for (_, bucket) in self.accounts.values_mut().flat_map(Regions::iter_mut) {
            bucket.refill(&self.members, now);
        }
    }

    fn bucket(&mut self, key: &BucketKey, now: Instant) -> &mut Bucket {
        let limit = self.options.limit(key.class);
        let confirm_from = self.started + self.options.valid;
        let regions = self.accounts.entry(account(key)).or_default();
        let bucket = regions.bucket(&key.region, || Bucket::new(limit, confirm_from, now));
        bucket.refill(&self.members, now);
        bucket
    }
}

/// The key without its region.
fn account(key: &BucketKey) -> BucketKey {
    key.in_region("")
}
