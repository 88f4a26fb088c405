//! The ledger's rules one by one.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use flotilla_proto::{BucketKey, Class, Term, WorkerId};

use crate::budget::{Grant, Ledger, Options};

/// A ledger, its clock, and the number of the next request.
struct Case {
    ledger: Ledger,
    now: Instant,
    request: u64,
}

fn worker(name: &str) -> WorkerId {
    WorkerId::new(name, "1")
}

fn key() -> BucketKey {
    BucketKey::new("management.azure.com", "sub", "app", Class::Write)
}

impl Case {
    /// A ledger some seconds after its start, so that ARM's word counts, with an empty bucket.
    fn new() -> Self {
        let now = Instant::now();
        let mut ledger = Ledger::new(Term(1), Options::default(), now);
        ledger.set_members(&["a", "b", "c"].map(worker).into(), now);
        let mut case = Self { ledger, now, request: 0 };
        for name in ["a", "b", "c"] {
            case.ledger.says(&worker(name), 0, now);
        }
        for (worker, workers) in case.ledger.tell_shares(now) {
            case.ledger.says(&worker, workers, now);
        }
        case.pass(6.0);
        case
    }

    /// The same, after ARM has said how much is left.
    fn with_level(remaining: u32) -> Self {
        let mut case = Self::new();
        case.ledger.observe(&key(), remaining, case.now);
        case
    }

    fn pass(&mut self, seconds: f64) {
        let end = self.now + Duration::from_secs_f64(seconds);
        while self.now < end {
            self.now += Duration::from_millis(50);
            for name in ["a", "b", "c"] {
                self.ledger.heard(&worker(name), self.now);
            }
        }
    }

    fn ask(&mut self, name: &str, tokens: u32) {
        self.request += 1;
        self.ledger.request(&worker(name), &key(), tokens, self.request, self.now);
    }

    fn settle(&mut self) -> Vec<Grant> {
        self.ledger.settle(self.now).0
    }

    /// Tokens granted now, by worker.
    fn granted(&mut self) -> Vec<(String, u32)> {
        self.settle().into_iter().map(|grant| (grant.worker.pod().to_owned(), grant.tokens)).collect()
    }

    fn drain(&mut self, name: &str) -> u32 {
        let mut sum = 0;
        loop {
            self.ask(name, 1_000);
            match self.granted().iter().map(|(_, tokens)| tokens).sum::<u32>() {
                0 => return sum,
                some => sum += some,
            }
        }
    }
}

#[test]
fn a_new_leader_starts_empty() {
    let now = Instant::now();
    let mut ledger = Ledger::new(Term(7), Options::default(), now);
    ledger.request(&worker("a"), &key(), 100, 1, now);
    let (grants, _) = ledger.settle(now);
    assert_eq!(grants.iter().map(|grant| grant.tokens).collect::<Vec<_>>(), [0], "an answer, but no token");
}

#[test]
fn arms_first_word_fills_the_bucket() {
    let mut case = Case::with_level(199);
    let burst = case.drain("a");
    assert!((180..=190).contains(&burst), "{burst} of 200 less the part held back");
}

#[test]
fn arms_later_words_only_lower_it() {
    let mut case = Case::with_level(199);
    case.ledger.observe(&key(), 20, case.now);
    case.ledger.observe(&key(), 150, case.now);
    assert_eq!(case.drain("a"), 16, "20 less the part that is left for others");
}

#[test]
fn a_first_word_that_comes_too_early_raises_nothing() {
    let now = Instant::now();
    let mut ledger = Ledger::new(Term(1), Options::default(), now);
    ledger.observe(&key(), 199, now + Duration::from_secs(1));
    ledger.request(&worker("a"), &key(), 100, 1, now + Duration::from_secs(1));
    let (grants, _) = ledger.settle(now + Duration::from_secs(1));
    assert!(grants.iter().map(|grant| grant.tokens).sum::<u32>() <= 10);
}

#[test]
fn tokens_are_divided_equally_and_leftovers_go_to_who_wants_more() {
    let mut case = Case::with_level(30);
    case.ask("a", 2);
    case.ask("b", 100);
    case.ask("c", 100);
    assert_eq!(case.granted(), [("a".to_owned(), 2), ("b".to_owned(), 14), ("c".to_owned(), 14)]);
}

#[test]
fn single_tokens_go_round() {
    let mut case = Case::with_level(0);
    for name in ["a", "b", "c"] {
        case.ask(name, 100);
    }
    case.granted();
    let mut sums = std::collections::BTreeMap::<String, u32>::new();
    for _ in 0..300 {
        case.pass(0.1);
        for name in ["a", "b", "c"] {
            case.ask(name, 100);
        }
        for (name, tokens) in case.granted() {
            *sums.entry(name).or_default() += tokens;
        }
    }
    let (least, most) = (sums.values().min().unwrap(), sums.values().max().unwrap());
    assert!(most - least <= 1, "{sums:?}");
    assert!(sums.values().sum::<u32>() >= 290, "{sums:?}");
}

#[test]
fn what_is_given_back_can_be_granted_again_once() {
    let mut case = Case::with_level(10);
    case.ask("a", 10);
    let grant = case.settle().pop().unwrap();
    assert_eq!(grant.tokens, 10);
    assert_eq!(case.ledger.give_back(&worker("b"), &key(), grant.id, 10, case.now), 0, "not b's");
    assert_eq!(case.ledger.give_back(&worker("a"), &key(), grant.id, 4, case.now), 4);
    assert_eq!(case.ledger.give_back(&worker("a"), &key(), grant.id, 4, case.now), 0, "a second time");
    case.ask("b", 100);
    assert_eq!(case.granted(), [("b".to_owned(), 4)]);
}

#[test]
fn a_grant_with_no_word_counts_as_spent() {
    let mut case = Case::with_level(50);
    case.ask("a", 50);
    let granted: u32 = case.settle().iter().map(|grant| grant.tokens).sum();
    assert!(granted > 0);
    case.pass(11.0);
    let (_, settled) = case.ledger.settle(case.now);
    assert_eq!(settled.forfeited[&Class::Write], granted);
}

#[test]
fn a_429_parks_the_bucket_for_everybody() {
    let mut case = Case::with_level(100);
    let park = case.ledger.park(&key(), Duration::from_secs(4), case.now);
    assert_eq!(park.wait, Duration::from_secs(4));
    assert_eq!(case.ledger.park(&key(), Duration::from_secs(1), case.now).wait, Duration::from_secs(4), "the longer");
    case.ask("a", 10);
    case.pass(2.0);
    case.ask("b", 10);
    assert_eq!(case.granted().iter().map(|(_, tokens)| tokens).sum::<u32>(), 0);
    assert_eq!(case.ledger.parked(case.now).len(), 1);
    case.pass(2.1);
    case.ask("b", 10);
    assert_eq!(case.granted(), [("b".to_owned(), 10)]);
}

#[test]
fn after_two_429s_in_a_row_one_call_goes_ahead_of_the_others() {
    let mut case = Case::with_level(100);
    for _ in 0..2 {
        case.ledger.park(&key(), Duration::from_secs(10), case.now);
        case.pass(10.1);
    }
    case.ask("a", 10);
    case.ask("b", 10);
    assert_eq!(case.granted().iter().map(|(_, tokens)| tokens).sum::<u32>(), 1);
    case.ledger.observe(&key(), 90, case.now);
    assert!(case.granted().iter().map(|(_, tokens)| tokens).sum::<u32>() > 10);
}

#[test]
fn the_first_region_takes_over_the_bucket_without_one() {
    let mut case = Case::with_level(30);
    case.ledger.observe(&key().in_region("westeurope"), 30, case.now);
    let first = case.drain("a");
    assert!(first <= 30);
    case.request += 1;
    case.ledger.request(&worker("b"), &key().in_region("westeurope"), 100, case.request, case.now);
    assert_eq!(case.granted().iter().map(|(_, tokens)| tokens).sum::<u32>(), 0, "the same bucket, and it is empty");
}

#[test]
fn the_share_of_a_silent_worker_is_kept_free() {
    let mut case = Case::with_level(0);
    let rate = |case: &mut Case, heard: &[&str]| {
        let mut sum = 0;
        for _ in 0..200 {
            case.now += Duration::from_millis(50);
            for name in heard {
                case.ask(name, 50);
            }
            sum += case.granted().iter().map(|(_, tokens)| tokens).sum::<u32>();
        }
        f64::from(sum) / 10.0
    };
    let all = rate(&mut case, &["a", "b", "c"]);
    case.now += Duration::from_secs(3);
    case.drain("a");
    let two = rate(&mut case, &["a", "b"]);
    let live: BTreeSet<WorkerId> = ["a", "b"].map(worker).into();
    case.ledger.set_members(&live, case.now);
    let left = rate(&mut case, &["a", "b"]);
    assert!((9.0..=10.0).contains(&all), "{all}");
    assert!((6.0..=7.0).contains(&two), "{two}: a third is kept for c");
    assert!((9.0..=10.0).contains(&left), "{left}: c is gone");
}

#[test]
fn a_share_grows_only_after_others_have_shrunk() {
    let mut case = Case::new();
    let live: BTreeSet<WorkerId> = ["a", "b", "c", "d"].map(worker).into();
    case.ledger.set_members(&live, case.now);
    case.ledger.says(&worker("d"), 0, case.now);
    let first = case.ledger.tell_shares(case.now);
    assert_eq!(first[..3], ["a", "b", "c"].map(|name| (worker(name), 4)));
    assert!(first[3].1 > 1_000, "nothing is free for d yet: {first:?}");
    for (worker, workers) in first {
        case.ledger.says(&worker, workers, case.now);
    }
    assert_eq!(case.ledger.tell_shares(case.now), [(worker("d"), 4)]);
}

#[test]
fn a_sixtyfold_arm_has_the_same_bucket_and_sixty_times_the_refill() {
    let options = Options { time_scale: 60.0, ..Options::default() };
    let limit = options.limit(Class::Read);
    assert!((limit.capacity - 237.5).abs() < 1e-9 && (limit.per_second - 1485.0).abs() < 1e-9, "{limit:?}");
}
