//! Which worker gets which shard.
//!
//! [`plan`] is pure: the same view gives the same plan, so a new leader arrives at it from what it observes. It gives shards
//! that nobody holds to the least loaded workers, cuts hot shards where their workers offered, moves the smallest set that
//! evens the load out, and joins cold neighbours. Each step says why.

mod plan;

pub(crate) use plan::{Plan, Step};

use flotilla_proto::{Key, KeyRange, WorkerId};

use crate::handoff::Reason;
use crate::load::{Cut, EMPTY_NAMESPACE};

/// A round of balancing begins when a worker is this much above the mean …
const START_ABOVE: f64 = 1.08;
/// … or this much below it, as one that has just joined …
const START_BELOW: f64 = 0.85;
/// … and goes on until all are within these.
const STOP_ABOVE: f64 = 1.03;
const STOP_BELOW: f64 = 0.95;
/// … and differ from the mean by no less than this: an imbalance of fewer objects costs less than the reads that a move brings. Workers with less
/// than half of the mean get their part however small it is.
const WORTH_EVENING: f64 = 25.0;
/// A piece with a smaller share of the mean does not even out anything, however many of them move.
const WORTH_MOVING: f64 = 0.01;
/// Share of the whole load that may move in one round for the sake of balance. Workers with less than half of the mean are
/// filled up without regard to it: they are new, and idle.
const MOVED_PER_ROUND: f64 = 0.10;
/// Shards per worker above which cold neighbours are joined.
const SHARDS_PER_WORKER: usize = 12;
/// A namespace is cut inside only for an imbalance of at least so many objects: owners and children live apart then.
const WORTH_CUTTING_A_NAMESPACE: f64 = 25.0;
/// Steps in one round: what one round decides should be done before the next one begins.
const MOVES_PER_ROUND: usize = 32;

/// What may be done with a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stand {
    /// Its owner keeps it unless it is moved.
    Held,
    /// It is on its way, or its owner can't be asked now: it counts where it is and is not touched.
    Fixed,
    /// Nobody holds it.
    Vacant(Reason),
    /// Its owner wants to be rid of it.
    Evacuate,
}

/// A shard as placement sees it.
#[derive(Clone, Debug)]
pub(crate) struct ShardView {
    /// Its keys.
    pub range: KeyRange,
    /// Who has it, or had it last, or will have it.
    pub owner: Option<WorkerId>,
    /// What may be done with it.
    pub stand: Stand,
    /// What it costs.
    pub cost: f64,
    /// Where it could be cut.
    pub cuts: Vec<Cut>,
}

/// What placement decides from.
#[derive(Clone, Debug)]
pub(crate) struct View {
    /// Workers that may be given shards, in order of their names.
    pub workers: Vec<WorkerId>,
    /// All shards in order.
    pub shards: Vec<ShardView>,
    /// Whether the last plan was still evening out: then smaller differences count.
    pub balancing: bool,
    /// Whether all loads are known. Until then only free shards are placed: a new leader has not heard everybody yet.
    pub loads_known: bool,
}

/// What to change so that every shard has one live owner and the load is even.
pub(crate) fn plan(view: &View) -> Plan {
    let mut draft = Draft::new(view);
    if view.workers.is_empty() {
        return draft.plan;
    }
    draft.place_free();
    if view.loads_known {
        draft.balance(view.balancing);
        draft.merge_cold();
    }
    draft.plan
}

/// A plan in the making: the shards as they will be, and each worker's load.
struct Draft<'a> {
    workers: &'a [WorkerId],
    shards: Vec<ShardView>,
    loads: Vec<f64>,
    mean: f64,
    plan: Plan,
}

/// A piece that could move: a whole shard, or the part of it left or right of a cut.
#[derive(Clone, Copy)]
struct Piece {
    shard: usize,
    cut: Option<(Cut, Side)>,
    cost: f64,
}

#[derive(Clone, Copy, PartialEq)]
enum Side {
    Left,
    Right,
}

impl<'a> Draft<'a> {
    fn new(view: &'a View) -> Self {
        let mut draft = Self {
            workers: &view.workers,
            shards: view.shards.clone(),
            loads: vec![0.0; view.workers.len()],
            mean: 0.0,
            plan: Plan::default(),
        };
        let mut total = 0.0;
        for shard in &view.shards {
            let owner = draft.index_of(shard.owner.as_ref());
            match (shard.stand, owner) {
                (Stand::Held | Stand::Fixed, Some(owner)) => draft.loads[owner] += shard.cost,
                // With a worker that takes no part in this plan.
                (Stand::Held | Stand::Fixed, None) => continue,
                (Stand::Vacant(_) | Stand::Evacuate, _) => {}
            }
            total += shard.cost;
        }
        #[expect(clippy::cast_precision_loss, reason = "a fleet has few workers")]
        let count = view.workers.len().max(1) as f64;
        draft.mean = total / count;
        draft
    }

    fn index_of(&self, worker: Option<&WorkerId>) -> Option<usize> {
        self.workers.iter().position(|candidate| Some(candidate) == worker)
    }

    fn count_of(&self, worker: usize) -> usize {
        self.shards.iter().filter(|shard| shard.owner.as_ref() == Some(&self.workers[worker])).count()
    }

    /// The worker with the least load; of several the one with fewest shards, then the first by name.
    fn least_loaded(&self) -> usize {
        let order = |one: &usize, two: &usize| {
            self.loads[*one].total_cmp(&self.loads[*two]).then_with(|| self.count_of(*one).cmp(&self.count_of(*two)))
        };
        (0..self.workers.len()).min_by(order).unwrap_or_default()
    }

    /// Gives every shard that nobody holds, or that its owner wants to be rid of, to somebody.
    fn place_free(&mut self) {
        let free = |shard: &ShardView| matches!(shard.stand, Stand::Vacant(_) | Stand::Evacuate);
        let mut splits_left = 4 * self.workers.len();
        while let Some(index) = (0..self.shards.len())
            .filter(|index| free(&self.shards[*index]))
            .max_by(|one, two| self.shards[*one].cost.total_cmp(&self.shards[*two].cost).then(two.cmp(one)))
        {
            let cost = self.shards[index].cost;
            let last = self.index_of(self.shards[index].owner.as_ref());
            let room = |worker: usize| self.mean * STOP_ABOVE - self.loads[worker];
            let evacuated = self.shards[index].stand == Stand::Evacuate;
            // A worker that comes back gets what it had as far as it fits.
            let to = match last.filter(|last| !evacuated && (cost <= room(*last) || cost <= EMPTY_NAMESPACE)) {
                Some(last) => last,
                None => self.least_loaded(),
            };
            if cost > room(to) && splits_left > 0 {
                let wanted = self.mean - self.loads[to];
                if let Some((cut, side)) =
                    best_piece(&self.shards, [index].into(), wanted, cost).and_then(|piece| piece.cut)
                {
                    splits_left -= 1;
                    self.split(index, cut, Reason::Balance);
                    self.give(index + usize::from(side == Side::Right), to);
                    continue;
                }
            }
            self.give(index, to);
        }
    }

    /// Moves pieces from the busiest to the least busy until the load is even or the round's share is used up.
    fn balance(&mut self, balancing: bool) {
        let (above, below) = if balancing { (STOP_ABOVE, STOP_BELOW) } else { (START_ABOVE, START_BELOW) };
        let out_of = |loads: &[f64], mean: f64, above: f64, below: f64| {
            loads.iter().any(|load| *load > mean * above || *load < mean * below)
        };
        let mean = self.mean;
        let matters = |load: &f64| (load - mean).abs() >= WORTH_EVENING || *load < mean / 2.0;
        if mean <= 0.0 || !self.loads.iter().any(|load| matters(load) && out_of(&[*load], mean, above, below)) {
            return;
        }
        let total: f64 = self.loads.iter().sum();
        let idle = self.loads.iter().filter(|load| **load < self.mean / 2.0).map(|load| self.mean - load).sum::<f64>();
        let mut budget = (total * MOVED_PER_ROUND).max(idle);
        // Workers whose pieces are all too big or too small are passed over.
        let mut stuck = vec![false; self.workers.len()];
        let mut moved = false;
        for _ in 0..MOVES_PER_ROUND {
            if !out_of(&self.loads, self.mean, STOP_ABOVE, STOP_BELOW) {
                self.plan.balancing = false;
                return;
            }
            let Some(from) = (0..self.workers.len())
                .filter(|worker| !stuck[*worker] && self.loads[*worker] > self.mean)
                .max_by(|one, two| self.loads[*one].total_cmp(&self.loads[*two]))
            else {
                return;
            };
            let to = self.least_loaded();
            let (surplus, gap) = (self.loads[from] - self.mean, self.mean - self.loads[to]);
            let wanted = surplus.min(gap).min(budget);
            let own = (0..self.shards.len()).filter(|index| {
                let shard = &self.shards[*index];
                shard.stand == Stand::Held && shard.owner.as_ref() == Some(&self.workers[from])
            });
            // The one that takes must end below what the one that gives has now, by more than a hair.
            let mut most = self.loads[from] - self.loads[to] - self.mean * 0.01;
            if moved {
                // Where workers offer only coarse cuts, the first piece may be bigger than the round's share.
                most = most.min(budget * 1.2);
            }
            let piece = best_piece(&self.shards, own.collect(), wanted, most)
                .filter(|piece| piece.cost >= self.mean * WORTH_MOVING);
            let Some(Piece { shard: index, cut, cost }) = piece else {
                stuck[from] = true;
                continue;
            };
            budget -= cost;
            moved = true;
            self.plan.balancing = true;
            let index = match cut {
                Some((cut, side)) => {
                    self.split(index, cut, Reason::Balance);
                    index + usize::from(side == Side::Right)
                }
                None => index,
            };
            self.give(index, to);
            if budget <= 0.0 {
                return;
            }
        }
    }

    /// Joins neighbours of one owner while there are more shards than the fleet needs, the coldest first.
    fn merge_cold(&mut self) {
        let enough = SHARDS_PER_WORKER * self.workers.len();
        while self.shards.len() > enough {
            let mergeable = |index: &usize| {
                let (left, right) = (&self.shards[*index - 1], &self.shards[*index]);
                let held = left.stand == Stand::Held && right.stand == Stand::Held;
                held && left.owner == right.owner && left.cost + right.cost <= self.mean / 4.0
            };
            let cost = |index: usize| self.shards[index - 1].cost + self.shards[index].cost;
            let coldest = (1..self.shards.len()).filter(mergeable).min_by(|one, two| cost(*one).total_cmp(&cost(*two)));
            let Some(index) = coldest else { return };
            let right = self.shards.remove(index);
            let left = &mut self.shards[index - 1];
            self.plan.steps.push(Step::Merge { left: left.range, at: right.range.start });
            left.range.end = right.range.end;
            left.cost += right.cost;
            left.cuts.clear();
        }
    }

    /// Cuts a shard in the draft and notes it.
    fn split(&mut self, index: usize, cut: Cut, reason: Reason) {
        let whole = self.shards[index].clone();
        let (left_cuts, right_cuts): (Vec<_>, Vec<_>) = whole.cuts.iter().partition(|other| other.key < cut.key);
        let shifted = |other: Cut| Cut { cost_before: other.cost_before - cut.cost_before, ..other };
        let right = ShardView {
            range: KeyRange { start: cut.key, end: whole.range.end },
            cost: (whole.cost - cut.cost_before).max(0.0),
            cuts: right_cuts.into_iter().filter(|other: &Cut| other.key > cut.key).map(shifted).collect(),
            ..whole.clone()
        };
        let left = &mut self.shards[index];
        left.range.end = Some(cut.key);
        left.cost = cut.cost_before;
        left.cuts = left_cuts;
        self.shards.insert(index + 1, right);
        self.plan.steps.push(Step::Split { range: whole.range, at: cut.key, cost: whole.cost, reason });
    }

    /// Gives a shard to a worker in the draft and notes it.
    fn give(&mut self, index: usize, to: usize) {
        let mean = self.mean;
        let shard = &mut self.shards[index];
        let (range, from, cost) = (shard.range, shard.owner.take(), shard.cost);
        let worker = self.workers[to].clone();
        let step = match shard.stand {
            Stand::Vacant(reason) => Step::Assign { range, from, to: worker.clone(), cost, mean, reason },
            Stand::Evacuate => Step::Move { range, from, to: worker.clone(), cost, mean, reason: Reason::Leaving },
            Stand::Held | Stand::Fixed => {
                if let Some(from) = self.workers.iter().position(|worker| Some(worker) == from.as_ref()) {
                    self.loads[from] -= cost;
                }
                Step::Move { range, from, to: worker.clone(), cost, mean, reason: Reason::Balance }
            }
        };
        let shard = &mut self.shards[index];
        shard.owner = Some(worker);
        shard.stand = Stand::Fixed;
        self.loads[to] += cost;
        self.plan.steps.push(step);
    }
}

/// The piece of these shards whose cost is nearest to what is wanted and below `most`. Whole shards are preferred a little to cuts, and cuts
/// between namespaces to cuts inside one.
fn best_piece(shards: &[ShardView], among: Vec<usize>, wanted: f64, most: f64) -> Option<Piece> {
    if wanted <= 0.0 {
        return None;
    }
    let mut best: Option<(f64, Piece)> = None;
    let mut offer = |piece: Piece, penalty: f64| {
        let miss = (piece.cost - wanted).abs() + penalty * wanted;
        if piece.cost > 0.0 && piece.cost < most && best.as_ref().is_none_or(|(least, _)| miss < *least) {
            best = Some((miss, piece));
        }
    };
    for shard in among {
        let view = &shards[shard];
        offer(Piece { shard, cut: None, cost: view.cost }, 0.0);
        for cut in &view.cuts {
            let penalty = match cut.is_between_namespaces() {
                true => 0.05,
                false if wanted >= WORTH_CUTTING_A_NAMESPACE => 0.25,
                false => continue,
            };
            offer(Piece { shard, cut: Some((*cut, Side::Left)), cost: cut.cost_before }, penalty);
            offer(Piece { shard, cut: Some((*cut, Side::Right)), cost: view.cost - cut.cost_before }, penalty);
        }
    }
    best.map(|(_, piece)| piece)
}

/// The start of a range, short enough for a log line.
fn short(key: &Key) -> String {
    let (namespace, kind, uid) = (key.namespace >> 32, key.kind >> 48, key.uid >> 48);
    match (key.kind, key.uid) {
        (0, 0) => format!("{namespace:08x}"),
        (_, 0) => format!("{namespace:08x}.{kind:04x}"),
        _ => format!("{namespace:08x}.{kind:04x}.{uid:04x}"),
    }
}

#[cfg(test)]
mod quiet;
#[cfg(test)]
mod tests;
