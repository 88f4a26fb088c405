//! A small fleet on a simulated clock: workers that spend as fast as they may, streams that delay and lose, leaders that
//! die, and one of ARM's buckets that knows the truth.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use flotilla_proto::v1::leader_message::Message as ToWorker;
use flotilla_proto::v1::worker_message::Message as FromWorker;
use flotilla_proto::{BucketKey, Class, Term, WorkerId, timing, v1};
use proptest::prelude::*;

use crate::budget::{Desk, Metrics, Options, Outgoing, To};

const STEP: Duration = Duration::from_millis(50);
/// The worker's side of the contract, as in `flotilla_worker::budget`.
const PATIENCE: Duration = timing::BUDGET_PATIENCE;
const RENEW: Duration = timing::BUDGET_RENEW_EVERY;
/// A worker that is gone loses its lease this much later.
const LEASE: Duration = timing::LEASE_DEAD_AFTER;

fn key() -> BucketKey {
    BucketKey::new("management.azure.com", "sub", "app", Class::Write)
}

/// ARM's own bucket. It never lies and never forgives.
struct Arm {
    level: f64,
    refused: u32,
    taken: u32,
}

struct Held {
    id: u64,
    granted: u32,
    left: u32,
    ends: Instant,
}

/// The worker's side, in its simplest form.
struct Worker {
    id: WorkerId,
    alive: bool,
    cut_off: bool,
    wants: u32,
    held: Vec<Held>,
    sent: BTreeMap<u64, Instant>,
    next_request: u64,
    last_sent: Option<Instant>,
    unanswered_since: Option<Instant>,
    workers: u32,
    allowance: f64,
    up: VecDeque<(Instant, FromWorker)>,
    down: VecDeque<(Instant, ToWorker)>,
}

/// Workers, leaders and the streams between them around one of ARM's buckets. Leases and shards play no part here.
struct BudgetModel {
    now: Instant,
    arm: Arm,
    desk: Option<Desk>,
    term: u64,
    workers: Vec<Worker>,
    leases: BTreeMap<WorkerId, Instant>,
    delay: Duration,
    /// How many of the next messages are lost.
    lose: u32,
}

/// What happens to the fleet.
#[derive(Clone, Debug)]
enum Event {
    Want(usize, u32),
    Pass(u64),
    CutOff(usize),
    Reconnect(usize),
    Crash(usize),
    Start,
    LeaderDies,
    LeaderComes,
    Delay(u64),
    Lose(u32),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => (0..4_usize, 0..300_u32).prop_map(|(worker, tokens)| Event::Want(worker, tokens)),
        8 => (50..9_000_u64).prop_map(Event::Pass),
        1 => (0..4_usize).prop_map(Event::CutOff),
        2 => (0..4_usize).prop_map(Event::Reconnect),
        1 => (0..4_usize).prop_map(Event::Crash),
        1 => Just(Event::Start),
        1 => Just(Event::LeaderDies),
        2 => Just(Event::LeaderComes),
        1 => (0..700_u64).prop_map(Event::Delay),
        1 => (1..6_u32).prop_map(Event::Lose),
    ]
}

impl BudgetModel {
    fn new(workers: usize) -> Self {
        let limit = Class::Write.limit();
        let arm = Arm { level: limit.capacity, refused: 0, taken: 0 };
        let mut model = Self {
            now: Instant::now(),
            arm,
            desk: None,
            term: 0,
            workers: Vec::new(),
            leases: BTreeMap::new(),
            delay: Duration::from_millis(20),
            lose: 0,
        };
        for _ in 0..workers {
            model.start_worker();
        }
        model.leader_comes();
        model
    }

    fn start_worker(&mut self) {
        let id = WorkerId::new(&format!("w{}", self.workers.len()), "1");
        self.leases.insert(id.clone(), self.now);
        self.workers.push(Worker {
            id,
            alive: true,
            cut_off: false,
            wants: 0,
            held: Vec::new(),
            sent: BTreeMap::new(),
            next_request: 1,
            last_sent: None,
            unanswered_since: None,
            workers: 0,
            allowance: 0.0,
            up: VecDeque::new(),
            down: VecDeque::new(),
        });
        let joined = self.workers.len() - 1;
        self.join(joined);
    }

    fn join(&mut self, worker: usize) {
        let id = self.workers[worker].id.clone();
        if let Some(desk) = &mut self.desk {
            let out = desk.joined(&id, self.now);
            self.send(out);
        }
    }

    fn leader_comes(&mut self) {
        if self.desk.is_some() {
            return;
        }
        self.term += 1;
        let metrics = Metrics::new(&opentelemetry::global::meter("test"));
        // Endless, since a fleet may be cut off for longer than the leader would wait.
        let options = Options { unheard_for: Duration::from_secs(100_000), ..Options::default() };
        self.desk = Some(Desk::new(Term(self.term), options, metrics, self.now));
        self.observe_leases();
        for worker in 0..self.workers.len() {
            if self.workers[worker].alive && !self.workers[worker].cut_off {
                self.join(worker);
            }
        }
    }

    fn leader_dies(&mut self) {
        self.desk = None;
        for worker in &mut self.workers {
            worker.up.clear();
            worker.down.clear();
        }
    }

    fn observe_leases(&mut self) {
        let now = self.now;
        for worker in self.workers.iter().filter(|worker| worker.alive) {
            self.leases.insert(worker.id.clone(), now);
        }
        self.leases.retain(|_, renewed| now - *renewed < LEASE);
        let live: BTreeSet<WorkerId> = self.leases.keys().cloned().collect();
        if let Some(desk) = &mut self.desk {
            desk.set_members(&live, now);
        }
    }

    fn send(&mut self, out: Vec<Outgoing>) {
        for Outgoing { to, message } in out {
            let due = self.now + self.delay;
            for worker in &mut self.workers {
                if worker.alive && !worker.cut_off && (to == To::All || to == To::One(worker.id.clone())) {
                    if self.lose > 0 {
                        self.lose -= 1;
                        continue;
                    }
                    let due = worker.down.back().map_or(due, |(last, _)| due.max(*last));
                    worker.down.push_back((due, message.clone()));
                }
            }
        }
    }

    fn apply(&mut self, event: &Event) {
        let workers = self.workers.len();
        match event {
            Event::Want(worker, tokens) => self.workers[worker % workers].wants += tokens,
            Event::Pass(millis) => self.pass(Duration::from_millis(*millis)),
            Event::CutOff(worker) => {
                let worker = &mut self.workers[worker % workers];
                worker.cut_off = true;
                worker.up.clear();
                worker.down.clear();
            }
            Event::Reconnect(worker) => {
                let worker = worker % workers;
                if self.workers[worker].cut_off && self.workers[worker].alive {
                    self.workers[worker].cut_off = false;
                    self.join(worker);
                }
            }
            Event::Crash(worker) => {
                let worker = &mut self.workers[worker % workers];
                worker.alive = false;
                worker.held.clear();
                worker.up.clear();
                worker.down.clear();
            }
            Event::Start => self.start_worker(),
            Event::LeaderDies => self.leader_dies(),
            Event::LeaderComes => self.leader_comes(),
            Event::Delay(millis) => self.delay = Duration::from_millis(*millis),
            Event::Lose(messages) => self.lose = *messages,
        }
    }

    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.step();
        }
    }

    fn step(&mut self) {
        self.now += STEP;
        let limit = Class::Write.limit();
        self.arm.level = (self.arm.level + limit.per_second * STEP.as_secs_f64()).min(limit.capacity);
        self.observe_leases();
        self.deliver_up();
        if let Some(desk) = &mut self.desk {
            let out = desk.tick(self.now);
            self.send(out);
        }
        for index in 0..self.workers.len() {
            self.workers[index].work(self.now, &mut self.arm, self.delay, &mut self.lose, self.desk.is_some());
        }
    }

    fn deliver_up(&mut self) {
        for index in 0..self.workers.len() {
            while self.workers[index].up.front().is_some_and(|(due, _)| *due <= self.now) {
                let Some((_, message)) = self.workers[index].up.pop_front() else { break };
                let id = self.workers[index].id.clone();
                if let Some(desk) = &mut self.desk {
                    let out = desk.receive(&id, &message, self.now).expect("a known bucket");
                    self.send(out);
                }
            }
        }
    }
}

impl Worker {
    fn work(&mut self, now: Instant, arm: &mut Arm, delay: Duration, lose: &mut u32, leader: bool) {
        if !self.alive {
            return;
        }
        self.hear(now);
        let mut say = Vec::new();
        self.spend(now, arm, &mut say);
        self.settle(now, &mut say);
        let asks = self.unanswered_since.is_none() && self.wants > 0;
        if asks || self.last_sent.is_none_or(|sent| now - sent >= RENEW) {
            let request = self.next_request;
            self.next_request += 1;
            self.sent.insert(request, now);
            self.last_sent = Some(now);
            self.unanswered_since.get_or_insert(now);
            let (bucket, workers) = (Some((&key()).into()), self.workers);
            say.push(FromWorker::BudgetRequest(v1::BudgetRequest { bucket, tokens: self.wants, request, workers }));
        }
        for message in say {
            if self.cut_off || !leader {
                continue;
            }
            if *lose > 0 {
                *lose -= 1;
                continue;
            }
            let due = self.up.back().map_or(now + delay, |(last, _)| (now + delay).max(*last));
            self.up.push_back((due, message));
        }
    }

    fn hear(&mut self, now: Instant) {
        while self.down.front().is_some_and(|(due, _)| *due <= now) {
            match self.down.pop_front() {
                Some((_, ToWorker::BudgetGrant(grant))) => {
                    self.unanswered_since = None;
                    let ends = self.sent[&grant.request] + Duration::from_millis(grant.valid_ms.into());
                    let (id, granted, left) = (grant.grant, grant.tokens, grant.tokens);
                    if grant.tokens > 0 {
                        self.held.push(Held { id, granted, left, ends });
                    }
                }
                Some((_, ToWorker::BudgetShare(share))) => self.workers = share.workers,
                _ => {}
            }
        }
    }

    fn spend(&mut self, now: Instant, arm: &mut Arm, say: &mut Vec<FromWorker>) {
        let alone = self.unanswered_since.is_some_and(|since| now - since > PATIENCE);
        let rate = match self.workers {
            0 => 0.0,
            workers => Class::Write.limit().per_second / f64::from(workers),
        };
        self.allowance = if alone { (self.allowance + rate * STEP.as_secs_f64()).min(1.0) } else { 0.0 };
        while self.wants > 0 {
            let held = self.held.iter_mut().find(|held| held.left > 0 && now < held.ends);
            if let Some(held) = held {
                held.left -= 1;
            } else if self.allowance >= 1.0 {
                self.allowance -= 1.0;
            } else {
                break;
            }
            self.wants -= 1;
            arm.call();
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most 200 and not negative")]
            let remaining = Some(arm.level.max(0.0) as u32);
            let bucket = Some((&key().in_region("westeurope")).into());
            say.push(FromWorker::BudgetObservation(v1::BudgetObservation { bucket, remaining, retry_after_ms: None }));
        }
    }

    fn settle(&mut self, now: Instant, say: &mut Vec<FromWorker>) {
        let ended = |held: &Held| held.left == 0 || now >= held.ends;
        for held in self.held.iter().filter(|held| ended(held)) {
            assert!(held.left <= held.granted);
            let bucket = Some((&key()).into());
            say.push(FromWorker::BudgetReturn(v1::BudgetReturn { bucket, grant: held.id, unused: held.left }));
        }
        self.held.retain(|held| !ended(held));
    }
}

impl Arm {
    fn call(&mut self) {
        if self.level < 1.0 - 1e-6 {
            self.refused += 1;
        } else {
            self.level -= 1.0;
            self.taken += 1;
        }
    }
}

proptest! {

    /// The law: whatever happens, ARM's bucket is never asked for more than it holds.
    #[test]
    fn arm_never_has_to_refuse(workers in 1..4_usize, events in prop::collection::vec(event(), 1..60)) {
        let mut model = BudgetModel::new(workers);
        for event in &events {
            model.apply(event);
            prop_assert_eq!(model.arm.refused, 0, "after {:?}", event);
        }
    }
}

#[test]
fn a_saturated_fleet_uses_what_arm_allows() {
    let mut model = BudgetModel::new(3);
    for worker in 0..3 {
        model.apply(&Event::Want(worker, 100_000));
    }
    model.pass(Duration::from_mins(2));
    let allowed = 200.0 + 10.0 * 120.0;
    let used = f64::from(model.arm.taken) / allowed;
    assert!(used >= 0.95, "used {used:.3} of what ARM allowed");
    assert_eq!(model.arm.refused, 0);
}

#[test]
fn a_fleet_without_a_leader_lives_on_its_shares() {
    let mut model = BudgetModel::new(3);
    for worker in 0..3 {
        model.apply(&Event::Want(worker, 100_000));
    }
    model.pass(Duration::from_mins(1));
    model.leader_dies();
    let before = model.arm.taken;
    model.pass(Duration::from_mins(1));
    let spent = model.arm.taken - before;
    assert!((500..=600).contains(&spent), "spent {spent} in 60 s without a leader, of which 5 s were patience");
    model.leader_comes();
    model.pass(Duration::from_mins(1));
    assert_eq!(model.arm.refused, 0);
}
