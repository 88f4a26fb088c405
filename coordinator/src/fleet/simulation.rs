//! Random histories: crashes, pauses, delays, lost and repeated messages, leaders that overlap.
//!
//! After each step, no key has two workers that would write for it, and no epoch of a key was granted to two workers. After
//! all of it, in calm, every key has exactly one.

mod model;

use std::time::Duration;

use proptest::prelude::*;

use self::model::{FleetModel, PROBES, probe};

const WORKERS: usize = 4;

#[derive(Clone, Debug)]
enum Step {
    Wait(u64),
    Elect,
    Depose(usize),
    Tick(usize),
    ReadLeases(usize),
    Store(usize, bool),
    Renew(usize, u64),
    Join(usize),
    Up(usize),
    Down(usize),
    Duplicate(usize),
    Break(usize),
    Release(usize),
    Report(usize),
    Hang(usize),
    Crash(usize),
    Restart(usize),
    Leave(usize),
    /// Everybody does what is due, for so many rounds of 500 ms.
    Calm(u8),
}

fn step() -> impl Strategy<Value = Step> {
    let worker = 0..WORKERS;
    prop_oneof![
        8 => (50..3000_u64).prop_map(Step::Wait),
        1 => Just(Step::Elect),
        1 => any::<usize>().prop_map(Step::Depose),
        4 => any::<usize>().prop_map(Step::Tick),
        6 => any::<usize>().prop_map(Step::ReadLeases),
        12 => (any::<usize>(), any::<bool>()).prop_map(|(leader, newest)| Step::Store(leader, newest)),
        10 => (worker.clone(), 0..1500_u64).prop_map(|(worker, took)| Step::Renew(worker, took)),
        4 => worker.clone().prop_map(Step::Join),
        8 => any::<usize>().prop_map(Step::Up),
        8 => any::<usize>().prop_map(Step::Down),
        2 => any::<usize>().prop_map(Step::Duplicate),
        1 => any::<usize>().prop_map(Step::Break),
        4 => worker.clone().prop_map(Step::Release),
        3 => worker.clone().prop_map(Step::Report),
        1 => worker.clone().prop_map(Step::Hang),
        1 => worker.clone().prop_map(Step::Crash),
        2 => worker.clone().prop_map(Step::Restart),
        1 => worker.prop_map(Step::Leave),
        6 => (1..30_u8).prop_map(Step::Calm),
    ]
}

fn run(model: &mut FleetModel, step: &Step) {
    let leader = |index: &usize| index % model.leaders().max(1);
    // Old streams matter less than young ones: most have nothing left to bring.
    let stream = |index: &usize| model.streams().saturating_sub(1 + index % model.streams().clamp(1, 6));
    match step {
        Step::Wait(millis) => model.now += Duration::from_millis(*millis),
        Step::Elect => model.elect(),
        Step::Depose(index) => model.depose(leader(index)),
        Step::Tick(index) => model.tick(leader(index)),
        Step::ReadLeases(index) => model.begin_read(leader(index)),
        Step::Store(index, newest) => model.run_operation(leader(index), *newest),
        Step::Renew(worker, took) => model.renew(*worker, Duration::from_millis(*took)),
        Step::Join(worker) => model.join(*worker),
        Step::Up(index) => model.deliver_up(stream(index)),
        Step::Down(index) => model.deliver_down(stream(index)),
        Step::Duplicate(index) => model.duplicate_up(stream(index)),
        Step::Break(index) => model.break_stream(stream(index)),
        Step::Release(worker) => model.release(*worker),
        Step::Report(worker) => model.report(*worker),
        Step::Hang(worker) => model.workers[*worker].hung = true,
        Step::Crash(worker) => model.crash(*worker),
        Step::Restart(worker) => model.restart(*worker),
        Step::Leave(worker) => model.leave(*worker),
        Step::Calm(rounds) => (0..*rounds).for_each(|_| calm(model)),
    }
}

/// Half a second in which everybody who lives does what is due.
fn calm(model: &mut FleetModel) {
    model.now += Duration::from_millis(500);
    let newest = model.leaders().saturating_sub(1);
    model.begin_read(newest);
    for worker in 0..WORKERS {
        model.renew(worker, Duration::from_millis(20));
        if !model.has_stream(worker) {
            model.join(worker);
        }
        model.report(worker);
    }
    for _ in 0..6 {
        for _ in 0..8 {
            model.run_operation(newest, false);
        }
        let young = model.streams().saturating_sub(3 * WORKERS);
        for stream in young..model.streams() {
            for _ in 0..8 {
                model.deliver_up(stream);
                model.deliver_down(stream);
            }
        }
        (0..WORKERS).for_each(|worker| model.release(worker));
        check(model);
    }
    model.tick(newest);
}

fn check(model: &FleetModel) {
    for index in 0..PROBES {
        let writers = model.writers(&probe(index));
        assert!(writers.len() <= 1, "{} has several writers: {writers:?}", probe(index));
    }
}

/// Ends all trouble and gives the fleet a minute.
fn settle(model: &mut FleetModel) {
    if !model.newest_leads() {
        model.elect();
    }
    model.depose_all_but_newest();
    for worker in 0..WORKERS {
        model.workers[worker].hung = false;
        if !model.workers[worker].alive {
            model.restart(worker);
        }
    }
    for _ in 0..90 {
        calm(model);
        if !model.newest_leads() {
            // Its write met one of the leader before; another takes over.
            model.elect();
        }
    }
}

fn check_calm(model: &FleetModel) {
    let map = model.stored_map().expect("a leader writes the map");
    for index in 0..PROBES {
        let key = probe(index);
        let owner = map.shard_of(&key).owner.clone();
        assert_eq!(
            model.writers(&key).into_iter().cloned().collect::<Vec<_>>(),
            owner.into_iter().collect::<Vec<_>>(),
            "{key}"
        );
        assert_eq!(model.writers(&key).len(), 1, "nobody writes for {key}");
    }
    for worker in &model.workers {
        let held = (0..PROBES).filter(|index| worker.writes(&probe(*index), model.now)).count();
        assert!((4..=8).contains(&held), "{} holds {held} of {PROBES} equal keys", worker.id);
    }
}

#[test]
fn quiet_fleet_shares_the_keys_evenly() {
    let mut model = FleetModel::new(WORKERS);
    settle(&mut model);
    check_calm(&model);
}

#[test]
fn hung_worker_loses_its_lease_and_its_shards() {
    let mut model = FleetModel::new(WORKERS);
    model.elect();
    model.crash(3);
    (0..40).for_each(|_| calm(&mut model));
    (0..3).for_each(|worker| model.workers[worker].hung = true);
    // The fourth comes and is to be given a share that the hung ones do not release.
    model.restart(3);
    (0..80).for_each(|_| calm(&mut model));
    let held = (0..PROBES).filter(|index| model.workers[3].writes(&probe(*index), model.now)).count();
    assert!(held > 0, "the worker that answers has nothing");
}

#[test]
fn crashed_workers_shards_are_taken_within_ten_seconds() {
    let mut model = FleetModel::new(WORKERS);
    model.elect();
    (0..60).for_each(|_| calm(&mut model));
    model.crash(0);
    (0..19).for_each(|_| calm(&mut model));
    for index in 0..PROBES {
        assert_eq!(model.writers(&probe(index)).len(), 1, "nobody writes for {}", probe(index));
    }
}

#[test]
fn leaving_workers_shards_are_taken_at_once() {
    let mut model = FleetModel::new(WORKERS);
    model.elect();
    (0..60).for_each(|_| calm(&mut model));
    model.leave(0);
    (0..2).for_each(|_| calm(&mut model));
    for index in 0..PROBES {
        assert_eq!(model.writers(&probe(index)).len(), 1, "nobody writes for {}", probe(index));
    }
}

#[test]
fn new_leader_moves_nothing() {
    let mut model = FleetModel::new(WORKERS);
    model.elect();
    (0..60).for_each(|_| calm(&mut model));
    let before = model.stored_map().cloned().expect("a leader writes the map");
    model.elect();
    model.depose_all_but_newest();
    (0..60).for_each(|_| calm(&mut model));
    let after = model.stored_map().expect("a leader writes the map");
    assert_eq!((before.shards(), before.epoch), (after.shards(), after.epoch));
    assert!(after.term > before.term);
}

/// Nobody knows what a worker holds that has a lease and never says Hello.
#[test]
fn silent_worker_does_not_stop_a_fleet_whose_map_is_lost() {
    let mut model = FleetModel::new(WORKERS);
    model.elect();
    model.workers[0].mute = true;
    (0..80).for_each(|_| calm(&mut model));
    for index in 0..PROBES {
        assert_eq!(model.writers(&probe(index)).len(), 1, "nobody writes for {}", probe(index));
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        // 128; more by PROPTEST_CASES.
        cases: ProptestConfig::default().cases / 2,
        max_shrink_iters: 2000,
        ..ProptestConfig::default()
    })]

    #[test]
    fn one_writer_per_key_whatever_happens(steps in prop::collection::vec(step(), 1..160)) {
        let mut model = FleetModel::new(WORKERS);
        model.elect();
        for step in &steps {
            run(&mut model, step);
            check(&model);
        }
        settle(&mut model);
        check_calm(&model);
    }
}
