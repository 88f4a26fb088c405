//! The shards that this worker holds, and how grants and revokes change them.
//!
//! Keeps true: held ranges never overlap; terms and epochs only grow, so a message from the past changes nothing; what was
//! released is held again only under a newer epoch.

use flotilla_proto::{Epoch, Key, KeyRange, Term};

use super::handover::Handover;

/// A range that this worker owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldShard {
    /// Its keys.
    pub range: KeyRange,
    /// The epoch it was granted under.
    pub epoch: Epoch,
    /// How its former owner parted with it.
    pub handover: Handover,
    /// It was revoked: no new reconcile starts in it.
    pub leaving: bool,
}

/// Keys whose objects the engine has to list: a grant brought them, or they were revoked and stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gained {
    /// The keys.
    pub range: KeyRange,
    /// How their former owner parted with them.
    pub handover: Handover,
}

/// A time without interruption for which keys have been held. Cuts, joins and newer epochs do not end it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tenure(u64);

/// All held ranges, sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    term: Term,
    shards: Vec<HeldShard>,
    /// The same keys by when they were gained.
    tenures: Vec<(KeyRange, Tenure)>,
    gained: u64,
    /// Ranges released, and under which epoch; a grant that was sent before that is void.
    released: Vec<(KeyRange, Epoch)>,
}

/// Released ranges are remembered until a newer grant covers them; more than this many are never in flight.
const REMEMBERED: usize = 256;

impl Held {
    /// The newest term heard of.
    pub(crate) fn term(&self) -> Term {
        self.term
    }

    /// Takes note of a leader. False if a newer one is known.
    pub(crate) fn hear(&mut self, term: Term) -> bool {
        if term < self.term {
            return false;
        }
        self.term = term;
        true
    }

    /// All held ranges in order.
    pub(crate) fn shards(&self) -> &[HeldShard] {
        &self.shards
    }

    /// The shard that holds a key.
    pub(crate) fn shard_of(&self, key: &Key) -> Option<&HeldShard> {
        let after = self.shards.partition_point(|shard| shard.range.start <= *key);
        self.shards[..after].last().filter(|shard| shard.range.contains(key))
    }

    /// The tenure under which a key is held.
    pub(crate) fn tenure(&self, key: &Key) -> Option<Tenure> {
        self.tenures.iter().find(|(range, _)| range.contains(key)).map(|(_, tenure)| *tenure)
    }

    /// Owns `range` from now on. Returns the parts of it that were not held before.
    ///
    /// The leader may cut or join ranges without a change of owner: those come under an epoch that is known, and bring
    /// nothing new.
    pub(crate) fn grant(&mut self, term: Term, range: KeyRange, epoch: Epoch, handover: Handover) -> Vec<Gained> {
        let late = self.released.iter().any(|(gone, at)| gone.overlaps(&range) && epoch <= *at);
        if !self.hear(term) || range.is_empty() || late {
            return Vec::new();
        }
        let known = |shard: &HeldShard| shard.range.overlaps(&range) && shard.epoch > epoch;
        if self.shards.iter().any(known) {
            return Vec::new();
        }
        let mut gaps = vec![range];
        let mut before = Handover::Clean;
        for shard in &self.shards {
            gaps = gaps.into_iter().flat_map(|gap| without(gap, shard.range)).collect();
            if shard.range.overlaps(&range) {
                before = before.or(shard.handover);
            }
        }
        // What is held under this very epoch and was revoked stays revoked: the grant crossed the revoke on its way.
        let leaving = self.shards.iter().any(|s| s.range.overlaps(&range) && s.epoch == epoch && s.leaving);
        self.cut(range);
        self.released.retain(|(gone, _)| !range.covers(gone));
        self.shards.push(HeldShard { range, epoch, handover: handover.or(before), leaving });
        self.shards.sort_by_key(|shard| shard.range.start);
        self.gained += 1;
        self.tenures.extend(gaps.iter().map(|gap| (*gap, Tenure(self.gained))));
        gaps.into_iter().map(|range| Gained { range, handover }).collect()
    }

    /// Starts no new reconcile in `range`. Returns the held parts of it; empty for a revoke of the past.
    pub(crate) fn revoke(&mut self, term: Term, range: KeyRange, epoch: Epoch) -> Vec<KeyRange> {
        if !self.hear(term) || self.shards.iter().any(|shard| shard.range.overlaps(&range) && shard.epoch > epoch) {
            return Vec::new();
        }
        self.isolate(range);
        let inside = self.shards.iter_mut().filter(|shard| range.covers(&shard.range));
        inside
            .map(|shard| {
                shard.leaving = true;
                shard.range
            })
            .collect()
    }

    /// Keeps everything that was revoked and not released yet: the leader that revoked it does not listen any more. Returns
    /// those ranges.
    pub(crate) fn keep_revoked(&mut self) -> Vec<Gained> {
        let leaving = self.shards.iter_mut().filter(|shard| shard.leaving);
        leaving
            .map(|shard| {
                shard.leaving = false;
                Gained { range: shard.range, handover: shard.handover }
            })
            .collect()
    }

    /// No longer holds `range`.
    pub(crate) fn release(&mut self, range: KeyRange) {
        self.isolate(range);
        for shard in &self.shards {
            if range.covers(&shard.range) {
                self.released.push((shard.range, shard.epoch));
            }
        }
        let surplus = self.released.len().saturating_sub(REMEMBERED);
        self.released.drain(..surplus);
        self.cut(range);
        let kept = |(held, tenure)| without(held, range).into_iter().map(move |part| (part, tenure));
        self.tenures = std::mem::take(&mut self.tenures).into_iter().flat_map(kept).collect();
    }

    /// No longer holds anything. Returns what was held.
    pub(crate) fn lose_all(&mut self) -> Vec<KeyRange> {
        let ranges: Vec<_> = self.shards.iter().map(|shard| shard.range).collect();
        self.release(KeyRange::ALL);
        ranges
    }

    /// Cuts shards at the ends of `range`, so that each lies inside or outside of it.
    fn isolate(&mut self, range: KeyRange) {
        for at in [Some(range.start), range.end].into_iter().flatten() {
            let straddles = |shard: &HeldShard| shard.range.start < at && shard.range.contains(&at);
            if let Some(index) = self.shards.iter().position(straddles) {
                let mut right = self.shards[index];
                self.shards[index].range.end = Some(at);
                right.range.start = at;
                self.shards.insert(index + 1, right);
            }
        }
    }

    /// Removes `range` from what is held.
    fn cut(&mut self, range: KeyRange) {
        self.isolate(range);
        self.shards.retain(|shard| !range.covers(&shard.range));
    }
}

/// The parts of `whole` outside of `part`.
fn without(whole: KeyRange, part: KeyRange) -> Vec<KeyRange> {
    if !whole.overlaps(&part) {
        return vec![whole];
    }
    let left = KeyRange { start: whole.start, end: Some(part.start) };
    let right = part.end.map(|end| KeyRange { start: end, end: whole.end });
    [Some(left), right].into_iter().flatten().filter(|range| !range.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(namespace: u64) -> Key {
        Key { namespace, ..Key::MIN }
    }

    fn range(start: u64, end: u64) -> KeyRange {
        KeyRange { start: key(start), end: Some(key(end)) }
    }

    fn gained(held: &mut Held, term: u64, range: KeyRange, epoch: u64) -> Vec<KeyRange> {
        held.grant(Term(term), range, Epoch(epoch), Handover::Clean).into_iter().map(|gained| gained.range).collect()
    }

    #[test]
    fn a_grant_says_which_keys_are_new() {
        let mut held = Held::default();
        assert_eq!(gained(&mut held, 1, range(10, 20), 1), [range(10, 20)]);
        assert_eq!(gained(&mut held, 1, range(0, 30), 2), [range(0, 10), range(20, 30)]);
        assert_eq!(gained(&mut held, 1, range(0, 30), 2), []);
    }

    #[test]
    fn messages_of_an_older_leader_or_epoch_change_nothing() {
        let mut held = Held::default();
        gained(&mut held, 2, range(0, 10), 5);
        let before = held.clone();
        assert_eq!(gained(&mut held, 1, range(10, 20), 6), []);
        assert_eq!(gained(&mut held, 2, range(0, 10), 4), []);
        assert_eq!(held.revoke(Term(1), range(0, 10), Epoch(5)), []);
        assert_eq!(held.revoke(Term(2), range(0, 10), Epoch(4)), []);
        assert_eq!(held, before);
    }

    #[test]
    fn released_keys_come_back_only_under_a_newer_epoch() {
        let mut held = Held::default();
        gained(&mut held, 1, range(0, 10), 5);
        assert_eq!(held.revoke(Term(1), range(0, 10), Epoch(5)), [range(0, 10)]);
        held.release(range(0, 10));
        assert_eq!(gained(&mut held, 1, range(0, 10), 5), []);
        assert_eq!(gained(&mut held, 1, range(0, 10), 7), [range(0, 10)]);
    }

    #[test]
    fn a_part_of_a_shard_can_be_revoked() {
        let mut held = Held::default();
        gained(&mut held, 1, range(0, 30), 1);
        assert_eq!(held.revoke(Term(1), range(10, 20), Epoch(1)), [range(10, 20)]);
        assert!(held.shard_of(&key(15)).unwrap().leaving);
        assert!(!held.shard_of(&key(5)).unwrap().leaving);
        held.release(range(10, 20));
        assert_eq!(held.shard_of(&key(15)), None);
        assert_eq!(held.shard_of(&key(20)).unwrap().range, range(20, 30));
    }

    #[test]
    fn revoked_and_unreleased_keys_stay_once_their_leader_is_gone() {
        let mut held = Held::default();
        held.grant(Term(1), range(0, 30), Epoch(1), Handover::Unclean);
        let tenure = held.tenure(&key(15));
        held.revoke(Term(1), range(0, 5), Epoch(1));
        held.revoke(Term(1), range(10, 20), Epoch(1));
        held.release(range(0, 5));
        assert_eq!(held.keep_revoked(), [Gained { range: range(10, 20), handover: Handover::Unclean }]);
        assert!(!held.shard_of(&key(15)).unwrap().leaving);
        assert_eq!((held.shard_of(&key(3)), held.tenure(&key(15))), (None, tenure));
        assert_eq!(held.keep_revoked(), []);
    }

    #[test]
    fn cuts_joins_and_newer_epochs_do_not_end_a_tenure_and_a_release_does() {
        let mut held = Held::default();
        gained(&mut held, 1, range(0, 10), 1);
        gained(&mut held, 1, range(10, 20), 2);
        let (left, right) = (held.tenure(&key(5)), held.tenure(&key(15)));
        gained(&mut held, 1, range(0, 20), 2);
        gained(&mut held, 1, range(0, 30), 3);
        gained(&mut held, 1, range(0, 7), 3);
        assert_eq!((held.tenure(&key(5)), held.tenure(&key(15))), (left, right));
        held.release(range(4, 6));
        assert_eq!(held.tenure(&key(5)), None);
        assert_eq!(held.tenure(&key(3)), left);
        gained(&mut held, 1, range(4, 6), 9);
        assert_ne!(held.tenure(&key(5)), left);
    }

    #[derive(Clone, Debug)]
    enum Message {
        Grant(u64, u64, u64),
        Revoke(u64, u64, u64),
        Release(u64, u64),
        LoseAll,
    }

    fn message() -> impl Strategy<Value = Message> {
        prop_oneof![
            4 => (0..20_u64, 1..10_u64, 0..8_u64).prop_map(|(s, l, e)| Message::Grant(s, s + l, e)),
            2 => (0..20_u64, 1..10_u64, 0..8_u64).prop_map(|(s, l, e)| Message::Revoke(s, s + l, e)),
            2 => (0..20_u64, 1..10_u64).prop_map(|(s, l)| Message::Release(s, s + l)),
            1 => Just(Message::LoseAll),
        ]
    }

    proptest! {
        #[test]
        fn ranges_never_overlap_and_epochs_of_a_key_only_grow(messages in prop::collection::vec(message(), 0..60)) {
            let mut held = Held::default();
            let mut newest = [Epoch(0); 30];
            let mut gone = [None; 30];
            for message in messages {
                match message {
                    Message::Grant(s, e, epoch) => { gained(&mut held, 1, range(s, e), epoch); }
                    Message::Revoke(s, e, epoch) => { held.revoke(Term(1), range(s, e), Epoch(epoch)); }
                    Message::Release(s, e) => held.release(range(s, e)),
                    Message::LoseAll => { held.lose_all(); }
                }
                prop_assert!(held.shards().windows(2).all(|two| !two[0].range.overlaps(&two[1].range)));
                prop_assert!(held.shards().iter().all(|shard| !shard.range.is_empty()));
                for at in 0..30_u64 {
                    let index = usize::try_from(at).unwrap();
                    prop_assert_eq!(held.shard_of(&key(at)).is_some(), held.tenure(&key(at)).is_some());
                    match held.shard_of(&key(at)) {
                        Some(shard) => {
                            prop_assert!(shard.epoch >= newest[index]);
                            prop_assert!(gone[index].is_none_or(|epoch| shard.epoch > epoch));
                            (newest[index], gone[index]) = (shard.epoch, None);
                        }
                        None if newest[index] > Epoch(0) => gone[index] = Some(newest[index]),
                        None => {}
                    }
                }
            }
        }
    }
}
