//! Placement on a made-up population of objects: balance, movement, rest.
#![expect(clippy::cast_precision_loss, reason = "counts of a test's objects")]

use std::collections::BTreeMap;

use flotilla_proto::GroupKind;
use proptest::prelude::*;

use super::*;

/// Objects with their keys, and who holds which range.
struct Workload {
    objects: Vec<Key>,
    shards: Vec<(KeyRange, Option<WorkerId>)>,
    balancing: bool,
}

fn workers(count: usize) -> Vec<WorkerId> {
    (0..count).map(|index| WorkerId::new(&format!("w{index:02}"), "1")).collect()
}

/// So many objects of three kinds in each of these namespaces.
fn population(namespaces: &[usize]) -> Vec<Key> {
    let kinds = ["ResourceGroup", "StorageAccount", "VirtualNetwork"].map(|kind| GroupKind::new("x.azure.com", kind));
    let object = |namespace: usize, index: usize| {
        Key::of(&format!("team-{namespace}"), &kinds[index % 3], &format!("{namespace}-{index}"))
    };
    let all = |(namespace, count): (usize, &usize)| (0..*count).map(move |index| (namespace, index));
    let mut keys: Vec<Key> =
        namespaces.iter().enumerate().flat_map(all).map(|(namespace, index)| object(namespace, index)).collect();
    keys.sort();
    keys
}

impl Workload {
    fn new(namespaces: &[usize]) -> Self {
        Self { objects: population(namespaces), shards: vec![(KeyRange::ALL, None)], balancing: false }
    }

    fn cost(&self, range: &KeyRange) -> f64 {
        self.objects.iter().filter(|key| range.contains(key)).count() as f64
    }

    /// What a worker would offer: first keys of namespaces, of kinds in them, and every so many objects.
    fn cuts(&self, range: &KeyRange) -> Vec<Cut> {
        let inside: Vec<_> = self.objects.iter().filter(|key| range.contains(key)).collect();
        let step = (inside.len() / 64).max(1);
        let mut cuts = BTreeMap::new();
        for (index, key) in inside.iter().enumerate().skip(1) {
            let before = inside[index - 1];
            if before.namespace != key.namespace {
                cuts.insert(Key { kind: 0, uid: 0, ..**key }, index as f64);
            } else if before.kind != key.kind {
                cuts.insert(Key { uid: 0, ..**key }, index as f64);
            } else if index % step == 0 {
                cuts.insert(**key, index as f64);
            }
        }
        let inside = |key: &Key| *key > range.start && range.contains(key);
        cuts.into_iter().filter(|(key, _)| inside(key)).map(|(key, cost_before)| Cut { key, cost_before }).collect()
    }

    fn view(&self, workers: &[WorkerId]) -> View {
        let shard = |(range, owner): &(KeyRange, Option<WorkerId>)| ShardView {
            range: *range,
            owner: owner.clone(),
            stand: match owner {
                Some(owner) if workers.contains(owner) => Stand::Held,
                Some(_) => Stand::Vacant(Reason::LeaseExpired),
                None => Stand::Vacant(Reason::Unowned),
            },
            cost: self.cost(range),
            cuts: self.cuts(range),
        };
        let shards = self.shards.iter().map(shard).collect();
        View { workers: workers.to_vec(), shards, balancing: self.balancing, loads_known: true }
    }

    /// Plans and carries it out; returns the cost that changed hands.
    fn round(&mut self, workers: &[WorkerId]) -> f64 {
        let plan = plan(&self.view(workers));
        self.balancing = plan.balancing;
        let mut moved = 0.0;
        for step in &plan.steps {
            match step {
                Step::Split { range, at, .. } => {
                    let index = self.index(range);
                    let owner = self.shards[index].1.clone();
                    self.shards[index].0.end = Some(*at);
                    self.shards.insert(index + 1, (KeyRange { start: *at, end: range.end }, owner));
                }
                Step::Merge { left, at } => {
                    let index = self.index(left);
                    let (right, owner) = self.shards.remove(index + 1);
                    assert_eq!((right.start, &owner), (*at, &self.shards[index].1), "{plan}");
                    self.shards[index].0.end = right.end;
                }
                Step::Assign { range, from, to, .. } | Step::Move { range, from, to, .. } => {
                    let index = self.index(range);
                    assert_eq!(&self.shards[index].1, from, "{plan}");
                    if from.is_some() {
                        moved += self.cost(range);
                    }
                    self.shards[index].1 = Some(to.clone());
                }
            }
        }
        moved
    }

    fn index(&self, range: &KeyRange) -> usize {
        self.shards.iter().position(|(known, _)| known == range).expect("plan names a shard that exists")
    }

    /// Rounds until nothing moves; returns the cost that changed hands.
    fn settle(&mut self, workers: &[WorkerId]) -> f64 {
        let mut moved = 0.0;
        for _ in 0..60 {
            let shards = self.shards.clone();
            moved += self.round(workers);
            if self.shards == shards {
                return moved;
            }
        }
        panic!("placement does not come to rest: {:?}", self.loads(workers));
    }

    fn loads(&self, workers: &[WorkerId]) -> Vec<f64> {
        let load = |worker: &WorkerId| {
            let own = self.shards.iter().filter(|(_, owner)| owner.as_ref() == Some(worker));
            own.map(|(range, _)| self.cost(range)).sum()
        };
        workers.iter().map(load).collect()
    }

    fn busiest_over_mean(&self, workers: &[WorkerId]) -> f64 {
        let loads = self.loads(workers);
        let mean = loads.iter().sum::<f64>() / loads.len() as f64;
        loads.iter().copied().fold(0.0, f64::max) / mean
    }

    /// Namespaces whose objects are with more than one worker.
    fn divided_namespaces(&self) -> usize {
        let mut owners: BTreeMap<u64, Vec<&WorkerId>> = BTreeMap::new();
        for key in &self.objects {
            let owner = self.shards.iter().find(|(range, _)| range.contains(key)).and_then(|(_, owner)| owner.as_ref());
            let known = owners.entry(key.namespace).or_default();
            if let Some(owner) = owner.filter(|owner| !known.contains(owner)) {
                known.push(owner);
            }
        }
        owners.values().filter(|owners| owners.len() > 1).count()
    }
}

#[test]
fn first_worker_gets_one_shard() {
    let mut workload = Workload::new(&[]);
    workload.settle(&workers(1));
    assert_eq!(workload.shards, [(KeyRange::ALL, Some(workers(1)[0].clone()))]);
}

#[test]
fn burst_on_one_worker_is_spread_in_one_round_along_namespaces() {
    let mut workload = Workload::new(&[10; 6]);
    workload.settle(&workers(1));
    workload.round(&workers(3));
    assert_eq!(workload.loads(&workers(3)), [20.0, 20.0, 20.0]);
    assert_eq!(workload.divided_namespaces(), 0);
}

#[test]
fn even_namespaces_stay_whole() {
    let mut workload = Workload::new(&[100; 40]);
    workload.settle(&workers(1));
    workload.settle(&workers(5));
    assert!(workload.busiest_over_mean(&workers(5)) <= 1.05, "{:?}", workload.loads(&workers(5)));
    assert_eq!(workload.divided_namespaces(), 0);
}

#[test]
fn heavy_namespace_is_cut_inside() {
    let mut workload = Workload::new(&[5000, 10, 10, 10]);
    workload.settle(&workers(1));
    workload.settle(&workers(4));
    assert!(workload.busiest_over_mean(&workers(4)) <= 1.05, "{:?}", workload.loads(&workers(4)));
}

#[test]
fn balanced_fleet_is_left_alone_when_load_drifts_a_little() {
    let mut workload = Workload::new(&[100; 30]);
    workload.settle(&workers(3));
    workload.objects.extend(population(&[40]));
    workload.objects.sort();
    let plan = plan(&workload.view(&workers(3)));
    assert!(plan.is_empty(), "{plan}");
}

#[test]
fn nothing_is_evened_out_before_all_loads_are_known() {
    let mut workload = Workload::new(&[100; 30]);
    workload.settle(&workers(1));
    let view = View { loads_known: false, ..workload.view(&workers(3)) };
    assert!(plan(&view).is_empty());
    assert!(!plan(&workload.view(&workers(3))).is_empty());
}

#[test]
fn worker_that_comes_back_gets_what_it_had() {
    let mut workload = Workload::new(&[100; 30]);
    workload.settle(&workers(3));
    let mut view = workload.view(&workers(3));
    for shard in view.shards.iter_mut().filter(|shard| shard.owner.as_ref() == Some(&workers(3)[1])) {
        shard.stand = Stand::Vacant(Reason::NotHeld);
    }
    let plan = plan(&view);
    assert!(!plan.is_empty());
    for step in &plan.steps {
        assert!(matches!(step, Step::Assign { from: Some(from), to, .. } if from == to), "{step}");
    }
}

#[test]
fn plan_says_why() {
    let mut workload = Workload::new(&[10, 10]);
    workload.settle(&workers(2));
    let text = plan(&workload.view(&workers(1))).to_string();
    assert!(text.contains("w01->w00 (lease expired, cost 10.00 of mean 20.00)"), "{text}");
}

#[test]
fn leaving_worker_is_emptied_at_once() {
    let mut workload = Workload::new(&[50; 20]);
    workload.settle(&workers(3));
    let mut view = workload.view(&workers(3));
    let leaving = view.workers.remove(2);
    for shard in view.shards.iter_mut().filter(|shard| shard.owner.as_ref() == Some(&leaving)) {
        shard.stand = Stand::Evacuate;
    }
    let steps = plan(&view).steps;
    let evacuated = steps.iter().filter(|step| matches!(step, Step::Move { reason: Reason::Leaving, .. })).count();
    let owned = workload.shards.iter().filter(|(_, owner)| owner.as_ref() == Some(&leaving)).count();
    assert!(evacuated >= owned, "{steps:?}");
}

#[test]
fn cold_neighbours_are_joined_when_there_are_too_many() {
    let mut workload = Workload::new(&[1; 200]);
    let owner = workers(1)[0].clone();
    let starts: Vec<_> = [Key::MIN].into_iter().chain(workload.objects.iter().copied()).collect();
    let end = |index: usize| starts.get(index + 1).copied();
    workload.shards = (0..starts.len())
        .map(|index| (KeyRange { start: starts[index], end: end(index) }, Some(owner.clone())))
        .collect();
    workload.settle(&workers(1));
    assert!(workload.shards.len() <= SHARDS_PER_WORKER, "{}", workload.shards.len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// With namespaces that can be cut anywhere the load is even, and a join or a leave moves no more than it must.
    #[test]
    fn joins_and_leaves_move_the_ideal_share(
        namespaces in prop::collection::vec(1..400_usize, 30..80),
        count in 2..9_usize,
    ) {
        let mut workload = Workload::new(&namespaces);
        let total = workload.objects.len() as f64;
        workload.settle(&workers(count));
        prop_assert!(workload.busiest_over_mean(&workers(count)) <= 1.08, "{:?}", workload.loads(&workers(count)));

        let joined = workload.settle(&workers(count + 1)) / total;
        let ideal = 1.0 / (count + 1) as f64;
        prop_assert!(joined <= ideal + 0.05, "join moved {joined:.3}, ideal {ideal:.3}");
        prop_assert!(workload.busiest_over_mean(&workers(count + 1)) <= 1.08, "{:?}", workload.loads(&workers(count + 1)));

        let left = workload.settle(&workers(count)) / total;
        prop_assert!(left <= ideal + 0.05, "leave moved {left:.3}, ideal {ideal:.3}");
        prop_assert!(workload.busiest_over_mean(&workers(count)) <= 1.08, "{:?}", workload.loads(&workers(count)));
        prop_assert!(workload.shards.len() <= (SHARDS_PER_WORKER * count).max(24), "{} shards", workload.shards.len());
    }
}

#[test]
fn pieces_that_even_nothing_out_stay_where_they_are() {
    let workers = workers(2);
    let key = |namespace: u64| Key { namespace, kind: 0, uid: 0 };
    let shard = |start: u64, end: Option<u64>, owner: usize, cost: f64| ShardView {
        range: KeyRange { start: key(start), end: end.map(key) },
        owner: Some(workers[owner].clone()),
        stand: Stand::Held,
        cost,
        cuts: Vec::new(),
    };
    // One shard that cannot be cut makes the load uneven, and the crumbs beside it are no cure.
    let shards = vec![
        shard(0, Some(1), 0, 100.0),
        shard(1, Some(2), 0, 0.01),
        shard(2, Some(3), 0, 0.02),
        shard(3, None, 1, 10.0),
    ];
    let plan = plan(&View { workers, shards, balancing: false, loads_known: true });
    assert!(plan.steps.is_empty(), "{plan}");
}
