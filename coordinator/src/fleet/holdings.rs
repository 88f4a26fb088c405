//! What workers say they hold: at Hello, when they give shards up, and when their lease was lost.
//!
//! The map decides. What a worker holds beside it is asked back; only where the map was lost, what workers hold becomes the map.

use std::collections::BTreeMap;
use std::time::Instant;

use flotilla_proto::v1::leader_message::Message as ToWorker;
use flotilla_proto::{Epoch, KeyRange, WorkerId, v1};

use super::{Action, Fleet, Note, Peer, StreamId, send, wire};
use crate::handoff::{Do, Holding, Tenure};

impl Fleet {
    pub(super) fn joined(
        &mut self,
        worker: &WorkerId,
        stream: StreamId,
        held: &[(KeyRange, Epoch)],
        now: Instant,
        actions: &mut Vec<Action>,
    ) {
        let peer = Peer { stream, leaving: false, joined: now, reported: false };
        if let Some(old) = self.peers.insert(worker.clone(), peer) {
            actions.push(Action::Close { worker: worker.clone(), stream: old.stream });
        }
        let heartbeat_seconds = u32::try_from(self.settings.heartbeat.as_secs().max(1)).unwrap_or(1);
        let welcome = v1::Welcome { term: self.map.term.0, leader: self.leader.clone(), heartbeat_seconds };
        actions.push(send(worker, stream, ToWorker::Welcome(welcome)));
        actions.push(send(worker, stream, self.kinds()));
        actions.push(Action::ReadLeases);
        if self.adopting {
            self.adopt(worker, held, now);
        }
        self.compare(worker, stream, held, now, actions);
    }

    /// A worker took its lease again after a fence, and had to give everything up for that.
    pub(super) fn emptied(&mut self, worker: WorkerId, now: Instant) {
        for shard in self.map.owned_by(&worker) {
            if let Some(tenure) = self.tenures.get_mut(&shard.range.start) {
                tenure.owner_died(false, now);
            }
        }
        self.excused.insert(worker);
    }

    /// Takes over what a worker holds where the map was lost.
    fn adopt(&mut self, worker: &WorkerId, held: &[(KeyRange, Epoch)], now: Instant) {
        for (range, epoch) in held {
            if self.map.adopt(*range, worker, *epoch) {
                self.version += 1;
            }
        }
        let mut tenures = BTreeMap::new();
        for shard in self.map.shards() {
            let known = self.tenures.get(&shard.range.start).filter(|known| known.is_vacant() == shard.owner.is_none());
            let found = || Tenure::found(shard.owner.is_some(), true, now);
            tenures.insert(shard.range.start, known.cloned().unwrap_or_else(found));
        }
        self.tenures = tenures;
    }

    /// Compares what a worker says it holds with what the map gives it.
    fn compare(
        &mut self,
        worker: &WorkerId,
        stream: StreamId,
        held: &[(KeyRange, Epoch)],
        now: Instant,
        actions: &mut Vec<Action>,
    ) {
        let deadline = self.revoke_deadline(now);
        let mut revoke = Vec::new();
        for shard in self.map.shards() {
            if shard.owner.as_ref() != Some(worker) {
                let strays = held.iter().filter_map(|(range, epoch)| Some((range.intersection(&shard.range)?, *epoch)));
                for (range, epoch) in strays {
                    actions.push(Action::Note(Note::Stray));
                    revoke.push(wire(&range, shard.epoch.max(epoch)));
                }
                continue;
            }
            let Some(tenure) = self.tenures.get_mut(&shard.range.start) else { continue };
            if tenure.hello(holding(&shard.range, held), deadline, now) == Do::Revoke {
                revoke.push(wire(&shard.range, shard.epoch));
            }
        }
        if !revoke.is_empty() {
            actions.push(send(worker, stream, self.revoke(revoke)));
        }
    }

    pub(super) fn released(&mut self, worker: &WorkerId, shards: &[(KeyRange, Epoch)], now: Instant) {
        for (range, epoch) in shards {
            for shard in self.map.owned_by(worker).filter(|shard| shard.range.overlaps(range)) {
                let Some(tenure) = self.tenures.get_mut(&shard.range.start) else { continue };
                // An older epoch is the answer to an older question.
                if *epoch < shard.epoch {
                    continue;
                }
                if matches!(tenure, Tenure::Held | Tenure::Unconfirmed)
                    && let Some(peer) = self.peers.get_mut(worker)
                {
                    // Nobody asked for this one.
                    peer.leaving = true;
                }
                if range.covers(&shard.range) {
                    tenure.released(now);
                }
            }
        }
    }
}

/// How much of a range is covered by others.
fn holding(range: &KeyRange, held: &[(KeyRange, Epoch)]) -> Holding {
    let mut parts: Vec<KeyRange> = held.iter().filter_map(|(other, _)| other.intersection(range)).collect();
    if parts.is_empty() {
        return Holding::Nothing;
    }
    parts.sort_by_key(|part| part.start);
    let mut covered = Some(range.start);
    for part in parts {
        match covered {
            Some(until) if part.start <= until => covered = part.end.map(|end| end.max(until)),
            Some(_) => return Holding::Part,
            None => break,
        }
    }
    let whole = covered.is_none_or(|until| range.end.is_some_and(|end| until >= end));
    if whole { Holding::All } else { Holding::Part }
}
