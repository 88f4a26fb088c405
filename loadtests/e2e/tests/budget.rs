//! Three workers' spenders and the leader's ledger against one of ARM's buckets, on a stopped clock.
//!
//! Measures what the design promises: with work waiting nearly all of what ARM allows is used, 429s hardly occur, and the
//! sum fits as well while no leader is there.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flotilla_coordinator::{BudgetDesk, BudgetMetrics, BudgetOptions, Outgoing, Recipient};
use flotilla_proto::v1::leader_message::Message as ToWorker;
use flotilla_proto::v1::worker_message::Message as FromWorker;
use flotilla_proto::{BucketKey, Class, Term, WorkerId};
use flotilla_worker::budget::{Budget, Metrics, Observation, Options, Priority};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};
use tokio_util::sync::{CancellationToken, DropGuard};

/// One way between leader and worker.
const DELAY: Duration = Duration::from_millis(15);
/// How many calls a worker would make at once if it could.
const CALLERS: usize = 100;

/// ARM's bucket for writes, as ARM keeps it: a refused call closes it for at least a second.
struct Arm {
    time_scale: f64,
    level: f64,
    refilled: Instant,
    closed_until: Instant,
    calls: u32,
    refused: u32,
}

impl Arm {
    fn call(&mut self) -> Observation {
        let limit = Class::Write.limit().scaled(self.time_scale);
        let now = Instant::now();
        self.refill(now);
        let second = Duration::from_secs_f64(1.0 / self.time_scale);
        let mut seen = Observation { region: Some("westeurope".to_owned()), ..Observation::default() };
        if now >= self.closed_until && self.level >= 1.0 {
            self.level -= 1.0;
            self.calls += 1;
        } else {
            self.closed_until = self.closed_until.max(now + second);
            self.refused += 1;
            seen.throttled_for = Some(second);
            seen.by_gateway = true;
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and a bucket's size")]
        let left = self.level.clamp(0.0, limit.capacity) as u32;
        seen.remaining = vec![(Class::Write, left)];
        seen
    }

    fn refill(&mut self, now: Instant) {
        let limit = Class::Write.limit().scaled(self.time_scale);
        self.level = (self.level + (now - self.refilled).as_secs_f64() * limit.per_second).min(limit.capacity);
        self.refilled = now;
    }
}

/// Spenders and a ledger on a stopped clock, without an API server: workers that never run out of calls to make.
struct BusyFleet {
    time_scale: f64,
    arm: Arc<Mutex<Arm>>,
    workers: Vec<(WorkerId, Budget)>,
    up: mpsc::UnboundedSender<(WorkerId, FromWorker)>,
    heard: Option<mpsc::UnboundedReceiver<(WorkerId, FromWorker)>>,
    leader: Option<tokio::task::JoinHandle<mpsc::UnboundedReceiver<(WorkerId, FromWorker)>>>,
    stop_leader: CancellationToken,
    term: u64,
    _stop: DropGuard,
}

impl BusyFleet {
    fn start(workers: usize, time_scale: f64) -> Self {
        let now = Instant::now();
        let level = Class::Write.limit().capacity;
        let arm = Arm { time_scale, level, refilled: now, closed_until: now, calls: 0, refused: 0 };
        #[expect(clippy::disallowed_methods, reason = "what workers say while no leader lives is dropped by the next")]
        let (up, heard) = mpsc::unbounded_channel();
        let stop = CancellationToken::new();
        let mut fleet = Self {
            time_scale,
            arm: Arc::new(Mutex::new(arm)),
            workers: Vec::new(),
            up,
            heard: Some(heard),
            leader: None,
            stop_leader: CancellationToken::new(),
            term: 0,
            _stop: stop.clone().drop_guard(),
        };
        for worker in 0..workers {
            fleet.start_worker(WorkerId::new(&format!("worker-{worker}"), "1"), &stop);
        }
        fleet.start_leader();
        fleet
    }

    fn start_worker(&mut self, id: WorkerId, stop: &CancellationToken) {
        let (outbox, mut outgoing) = mpsc::channel(64);
        let metrics = Metrics::new(&opentelemetry::global::meter("test"));
        let (budget, spender) =
            Budget::new(Options { time_scale: self.time_scale, ..Options::default() }, outbox, metrics);
        tokio::spawn(spender.run(stop.clone()));
        let (up, from) = (self.up.clone(), id.clone());
        tokio::spawn(async move {
            while let Some(message) = outgoing.recv().await {
                let (up, from) = (up.clone(), from.clone());
                tokio::spawn(async move {
                    sleep(DELAY).await;
                    let _ = up.send((from, message));
                });
            }
        });
        for caller in 0..CALLERS {
            let (budget, arm) = (budget.clone(), Arc::clone(&self.arm));
            tokio::spawn(call_for_ever(budget, arm, caller));
        }
        self.workers.push((id, budget));
    }

    fn start_leader(&mut self) {
        self.term += 1;
        self.stop_leader = CancellationToken::new();
        let metrics = BudgetMetrics::new(&opentelemetry::global::meter("test"));
        let now = Instant::now().into_std();
        let options = BudgetOptions { time_scale: self.time_scale, ..BudgetOptions::default() };
        let desk = BudgetDesk::new(Term(self.term), options, metrics, now);
        let heard = self.heard.take().expect("there is a leader already");
        self.leader = Some(tokio::spawn(lead(desk, self.workers.clone(), heard, self.stop_leader.clone())));
    }

    async fn kill_leader(&mut self) {
        self.stop_leader.cancel();
        let leader = self.leader.take().expect("there is no leader");
        self.heard = Some(leader.await.expect("the leader's task"));
    }

    /// Calls that went through, and those that were refused, in the time from now on.
    async fn measure(&self, time: Duration) -> (u32, u32) {
        let count = |arm: &Arc<Mutex<Arm>>| {
            let arm = arm.lock().expect("no caller panics");
            (arm.calls, arm.refused)
        };
        let before = count(&self.arm);
        sleep(time).await;
        let after = count(&self.arm);
        (after.0 - before.0, after.1 - before.1)
    }
}

/// Makes one call after the other, each with some latency.
async fn call_for_ever(budget: Budget, arm: Arc<Mutex<Arm>>, caller: usize) {
    let key = BucketKey::new("management.azure.com", "sub", "app", Class::Write);
    loop {
        match budget.acquire(&key, Priority::UserChange).await {
            Ok(_permit) => {
                sleep(Duration::from_millis(20 + (caller as u64 * 7) % 90)).await;
                let seen = arm.lock().expect("no caller panics").call();
                sleep(Duration::from_millis(15)).await;
                budget.observe(&key, &seen);
            }
            Err(parked) => tokio::time::sleep_until(parked.until.into()).await,
        }
    }
}

/// A leader that does nothing but the budget.
async fn lead(
    mut desk: BudgetDesk,
    workers: Vec<(WorkerId, Budget)>,
    mut heard: mpsc::UnboundedReceiver<(WorkerId, FromWorker)>,
    stop: CancellationToken,
) -> mpsc::UnboundedReceiver<(WorkerId, FromWorker)> {
    while heard.try_recv().is_ok() {} // said to nobody
    let ids: BTreeSet<WorkerId> = workers.iter().map(|(id, _)| id.clone()).collect();
    desk.set_members(&ids, Instant::now().into_std());
    let mut tick = tokio::time::interval(BudgetDesk::TICK);
    loop {
        let out = tokio::select! {
            () = stop.cancelled() => return heard,
            _ = tick.tick() => desk.tick(Instant::now().into_std()),
            Some((worker, message)) = heard.recv() => {
                desk.receive(&worker, &message, Instant::now().into_std()).expect("a known bucket")
            }
        };
        for Outgoing { to, message } in out {
            for (_, budget) in workers.iter().filter(|(id, _)| to == Recipient::All || to == Recipient::One(id.clone()))
            {
                deliver(budget.clone(), message.clone());
            }
        }
    }
}

fn deliver(budget: Budget, message: ToWorker) {
    tokio::spawn(async move {
        sleep(DELAY).await;
        budget.receive(&message);
    });
}

#[tokio::test(start_paused = true)]
async fn three_workers_use_what_arm_allows_and_are_not_refused() {
    let fleet = BusyFleet::start(3, 1.0);
    let minutes = 10;
    let (calls, refused) = fleet.measure(Duration::from_mins(minutes)).await;
    #[expect(clippy::cast_precision_loss, reason = "a few minutes")]
    let allowed = 200.0 + 10.0 * 60.0 * minutes as f64;
    let used = f64::from(calls) / allowed;
    println!("used {:.2} % of what ARM allowed in {minutes} min; {refused} of {calls} calls refused", used * 100.0);
    assert!(used >= 0.95, "used {used:.4} of what ARM allowed");
    assert!(f64::from(refused) <= f64::from(calls) * 0.001, "{refused} of {calls} calls were refused");
}

/// Against a simulator that runs sixty times as fast, a bucket holds no more than a third of a second's refill.
#[tokio::test(start_paused = true)]
async fn a_sixtyfold_arm_is_used_as_well() {
    let fleet = BusyFleet::start(3, 60.0);
    let (calls, refused) = fleet.measure(Duration::from_mins(1)).await;
    let allowed = 200.0 + 600.0 * 60.0;
    let used = f64::from(calls) / allowed;
    println!("used {:.2} % of what a sixtyfold ARM allowed; {refused} of {calls} calls refused", used * 100.0);
    assert!(used >= 0.9, "used {used:.4} of what ARM allowed");
    assert!(f64::from(refused) <= f64::from(calls) * 0.001, "{refused} of {calls} calls were refused");
}

#[tokio::test(start_paused = true)]
async fn without_a_leader_the_sum_still_fits_and_with_a_new_one_nothing_is_lost() {
    let mut fleet = BusyFleet::start(3, 1.0);
    let (_, refused) = fleet.measure(Duration::from_mins(1)).await;
    assert_eq!(refused, 0);

    fleet.kill_leader().await;
    let (calls, refused) = fleet.measure(Duration::from_mins(2)).await;
    println!("without a leader: {calls} calls in 120 s, {refused} refused");
    assert_eq!(refused, 0);
    assert!(calls >= 1_080, "{calls} calls in 120 s of which 5 were patience: less than 9 per second");

    fleet.start_leader();
    let (calls, refused) = fleet.measure(Duration::from_mins(2)).await;
    println!("with a new leader: {calls} calls in 120 s, {refused} refused");
    assert_eq!(refused, 0);
    assert!(calls >= 1_140, "{calls} calls in 120 s: less than 95 % of the refill");
}

#[tokio::test(start_paused = true)]
async fn spending_by_others_is_noticed_and_left_to_them() {
    let fleet = BusyFleet::start(3, 1.0);
    let arm = Arc::clone(&fleet.arm);
    tokio::spawn(async move {
        loop {
            sleep(Duration::from_millis(250)).await; // four per second by another tool
            let mut arm = arm.lock().expect("no caller panics");
            arm.refill(Instant::now());
            arm.level = (arm.level - 1.0).max(0.0);
        }
    });
    let (calls, refused) = fleet.measure(Duration::from_mins(10)).await;
    println!("beside another tool: {calls} calls in 600 s, {refused} refused");
    assert!(f64::from(calls) >= 0.95 * 6.0 * 600.0, "{calls} calls of the 3,600 that were left to us");
    assert!(f64::from(refused) <= f64::from(calls) * 0.01, "{refused} of {calls} calls were refused");
}
