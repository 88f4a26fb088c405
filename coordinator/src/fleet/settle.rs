//! What follows from the leader's state after any event: deaths, deadlines, placement, the next write of the map.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use flotilla_proto::v1::leader_message::Message as ToWorker;
use flotilla_proto::{Key, KeyRange, WorkerId, v1};

use super::{Action, Fencing, Fleet, Note, PendingGrant, send, wire};
use crate::handoff::{Do, Tenure, Vacancy};
use crate::membership::State;
use crate::placement::{self, ShardView, Stand, Step, View};
use crate::shard_map::Shard;

/// Heartbeats that a worker has for its first report; then the load is evened out without it.
const REPORTS_WAITED_FOR: u32 = 5;

impl Fleet {
    pub(super) fn settle(&mut self, now: Instant, actions: &mut Vec<Action>) {
        self.bury(now, actions);
        self.check_deadlines(now, actions);
        self.check_gathering(now);
        self.fence(actions);
        if self.gathering.is_none() {
            self.place(now, actions);
        }
        self.save(actions);
    }

    /// Frees the shards of the dead and ends their streams.
    fn bury(&mut self, now: Instant, actions: &mut Vec<Action>) {
        for shard in self.map.shards() {
            let Some(owner) = &shard.owner else { continue };
            if self.members.state(owner, now) != State::Dead {
                continue;
            }
            let since = self.members.last_seen(owner).unwrap_or(now);
            if let Some(tenure) = self.tenures.get_mut(&shard.range.start) {
                tenure.owner_died(self.members.released(owner), since);
            }
        }
        let members = &self.members;
        self.condemned.retain(|worker| members.state(worker, now) != State::Dead);
        self.peers.retain(|worker, peer| {
            let dead = members.state(worker, now) == State::Dead;
            if dead {
                actions.push(Action::Close { worker: worker.clone(), stream: peer.stream });
            }
            !dead
        });
        let owners: BTreeSet<_> = self.map.shards().iter().filter_map(|shard| shard.owner.as_ref()).collect();
        self.members.forget_dead(now, |worker| owners.contains(worker));
    }

    fn check_deadlines(&mut self, now: Instant, actions: &mut Vec<Action>) {
        for shard in self.map.shards() {
            let Some(tenure) = self.tenures.get_mut(&shard.range.start) else { continue };
            if tenure.tick(now) == Do::Fence
                && let Some(owner) = &shard.owner
                && self.condemned.insert(owner.clone())
            {
                tracing::warn!(worker = %owner, %shard, "Worker did not answer a revoke in time");
                actions.push(Action::Note(Note::Unanswered));
            }
        }
    }

    /// A new leader places nothing until every owner that is alive was heard. Where the map was lost, anybody with a lease
    /// may hold something, and who does not say so in time loses its lease.
    fn check_gathering(&mut self, now: Instant) {
        let Some(until) = self.gathering else { return };
        if !self.members.has_read() {
            return;
        }
        let unheard = |worker: &WorkerId| !self.peers.contains_key(worker) && !self.excused.contains(worker);
        let waited_for: Vec<WorkerId> = if self.adopting {
            let alive = self.members.states(now).filter(|(worker, state)| *state != State::Dead && unheard(worker));
            alive.map(|(worker, _)| worker.clone()).collect()
        } else {
            let unconfirmed = |shard: &&Shard| self.tenures.get(&shard.range.start) == Some(&Tenure::Unconfirmed);
            self.map.shards().iter().filter(unconfirmed).filter_map(|shard| shard.owner.clone()).collect()
        };
        if waited_for.is_empty() || (now >= until && !self.adopting) {
            self.gathering = None;
            self.adopting = false;
        } else if now >= until {
            self.condemned.extend(waited_for);
        }
    }

    /// Takes leases away: of workers whose time has run out, and of those that do not answer.
    fn fence(&mut self, actions: &mut Vec<Action>) {
        let overdue = self.members.to_fence().map(|(worker, version)| (worker.clone(), version.to_owned()));
        let condemned =
            self.condemned.iter().filter_map(|worker| Some((worker.clone(), self.members.version(worker)?.to_owned())));
        let wanted: BTreeMap<WorkerId, String> = overdue.chain(condemned).collect();
        for (worker, version) in wanted {
            if !self.fencing.contains_key(&worker) {
                self.fencing.insert(worker.clone(), Fencing::Asked);
                actions.push(Action::Fence { worker, version });
            }
        }
    }

    /// Grants what is free and evens the load out.
    fn place(&mut self, now: Instant, actions: &mut Vec<Action>) {
        let workers: Vec<WorkerId> = self
            .peers
            .iter()
            .filter(|(worker, peer)| !peer.leaving && self.members.state(worker, now) == State::Ready)
            .filter(|(worker, _)| !self.condemned.contains(*worker))
            .map(|(worker, _)| worker.clone())
            .collect();
        self.grant_promised(&workers, now);
        let evacuates = |shard: &Shard| {
            let leaving = shard.owner.as_ref().and_then(|owner| self.peers.get(owner)).is_some_and(|peer| peer.leaving);
            leaving && self.tenures.get(&shard.range.start) == Some(&Tenure::Held)
        };
        let free = self.tenures.values().any(Tenure::is_vacant) || self.map.shards().iter().any(evacuates);
        let moving = self.tenures.values().any(|tenure| matches!(tenure, Tenure::Revoking(_)));
        let due = now >= self.next_balance && !moving;
        if workers.is_empty() || !(free || due) {
            return;
        }
        self.next_balance = now + self.settings.balance_every;
        let view = self.view(workers, now);
        let plan = placement::plan(&view);
        self.balancing = plan.balancing;
        if plan.is_empty() {
            return;
        }
        tracing::info!(%plan, term = self.map.term.0, epoch = self.map.epoch.0, "Placement changed");
        let mut revokes: BTreeMap<WorkerId, Vec<v1::Shard>> = BTreeMap::new();
        for step in plan.steps {
            self.take(step, now, &mut revokes);
        }
        for (worker, shards) in revokes {
            if let Some(peer) = self.peers.get(&worker) {
                actions.push(send(&worker, peer.stream, self.revoke(shards)));
            }
        }
    }

    /// A planned move ends with the worker it was planned for, if that still can take it.
    fn grant_promised(&mut self, workers: &[WorkerId], now: Instant) {
        let promised = |(start, tenure): (&Key, &Tenure)| match tenure {
            Tenure::Vacant(Vacancy { to: Some(to), .. }) if workers.contains(to) => Some((*start, to.clone())),
            _ => None,
        };
        let promised: Vec<_> = self.tenures.iter().filter_map(promised).collect();
        for (start, to) in promised {
            self.grant(start, to, now);
        }
    }

    fn view(&self, workers: Vec<WorkerId>, now: Instant) -> View {
        let told = |worker: &WorkerId| {
            let silent_too_long = |joined| now >= joined + REPORTS_WAITED_FOR * self.settings.heartbeat;
            let told = self.peers.get(worker).is_none_or(|peer| peer.reported || silent_too_long(peer.joined));
            told || self.map.owned_by(worker).next().is_none()
        };
        let loads_known = workers.iter().all(told);
        let shard = |shard: &Shard| {
            let owner = shard.owner.clone();
            // What the worker does not know yet stays as it is until then.
            let pending =
                self.grants.iter().any(|grant| grant.start == shard.range.start && grant.epoch == shard.epoch);
            let (owner, stand) = match self.tenures.get(&shard.range.start) {
                Some(Tenure::Vacant(vacancy)) => (owner, Stand::Vacant(vacancy.reason)),
                Some(Tenure::Revoking(revoking)) => (revoking.to.clone().or(owner), Stand::Fixed),
                Some(Tenure::Held) if pending => (owner, Stand::Fixed),
                Some(Tenure::Held) if owner.as_ref().is_some_and(|owner| workers.contains(owner)) => {
                    (owner, Stand::Held)
                }
                Some(Tenure::Held)
                    if owner.as_ref().and_then(|owner| self.peers.get(owner)).is_some_and(|peer| peer.leaving) =>
                {
                    (owner, Stand::Evacuate)
                }
                Some(Tenure::Held | Tenure::Unconfirmed) | None => (owner, Stand::Fixed),
            };
            let cuts = if stand == Stand::Fixed { Vec::new() } else { self.loads.cuts(&shard.range) };
            ShardView { range: shard.range, owner, stand, cost: self.loads.cost(&shard.range), cuts }
        };
        let shards = self.map.shards().iter().map(shard).collect();
        View { workers, shards, balancing: self.balancing, loads_known }
    }

    /// Carries one step out.
    fn take(&mut self, step: Step, now: Instant, revokes: &mut BTreeMap<WorkerId, Vec<v1::Shard>>) {
        match step {
            Step::Split { at, .. } => {
                let start = self.map.shard_of(&at).range.start;
                if self.map.split(at)
                    && let Some(tenure) = self.tenures.get(&start).cloned()
                {
                    self.tenures.insert(at, tenure);
                    self.version += 1;
                }
            }
            Step::Merge { at, .. } => {
                if self.map.merge(at) {
                    self.tenures.remove(&at);
                    self.version += 1;
                }
            }
            Step::Assign { range, to, .. } => self.grant(range.start, to, now),
            Step::Move { range, to, .. } => self.begin_move(&range, to, now, revokes),
        }
    }

    fn begin_move(
        &mut self,
        range: &KeyRange,
        to: WorkerId,
        now: Instant,
        revokes: &mut BTreeMap<WorkerId, Vec<v1::Shard>>,
    ) {
        let deadline = self.revoke_deadline(now);
        let shard = self.map.shard_of(&range.start);
        let (Some(owner), Some(tenure)) = (shard.owner.clone(), self.tenures.get_mut(&range.start)) else { return };
        if tenure.revoke(Some(to), deadline, now) == Do::Revoke {
            revokes.entry(owner).or_default().push(wire(&shard.range, shard.epoch));
        }
    }

    fn grant(&mut self, start: Key, to: WorkerId, now: Instant) {
        let Some(tenure) = self.tenures.get_mut(&start) else { return };
        let Tenure::Vacant(vacancy) = tenure else { return };
        let Vacancy { unclean, reason, since, .. } = vacancy.clone();
        *tenure = Tenure::Held;
        let epoch = self.map.assign(start, Some(to.clone()));
        self.version += 1;
        let note = Note::Granted { reason, unclean, took: now.saturating_duration_since(since) };
        self.grants.push(PendingGrant { version: self.version, worker: to, start, epoch, unclean, note });
    }

    fn save(&mut self, actions: &mut Vec<Action>) {
        if self.version > self.saved && self.saving.is_none() {
            self.saving = Some(self.version);
            actions.push(Action::Save { version: self.version, map: self.map.clone() });
        }
    }

    /// Sends the grants whose map is in the store now. One whose worker has gone is dropped: if it comes back it says that
    /// it does not hold the shard, otherwise its lease runs out.
    pub(super) fn send_grants(&mut self, actions: &mut Vec<Action>) {
        let (ready, waiting): (Vec<_>, Vec<_>) = self.grants.drain(..).partition(|grant| grant.version <= self.saved);
        self.grants = waiting;
        let mut messages: BTreeMap<(WorkerId, bool), Vec<v1::Shard>> = BTreeMap::new();
        for PendingGrant { worker, start, epoch, unclean, note, .. } in ready {
            let shard = self.map.shard_of(&start);
            let held = self.tenures.get(&shard.range.start) == Some(&Tenure::Held);
            if shard.owner.as_ref() != Some(&worker) || shard.epoch != epoch || !held {
                continue;
            }
            if self.peers.contains_key(&worker) {
                actions.push(Action::Note(note));
                messages.entry((worker, unclean)).or_default().push(wire(&shard.range, shard.epoch));
            }
        }
        for ((worker, unclean), shards) in messages {
            if let Some(peer) = self.peers.get(&worker) {
                let grant = v1::Grant { term: self.map.term.0, shards, unclean };
                actions.push(send(&worker, peer.stream, ToWorker::Grant(grant)));
            }
        }
    }
}
