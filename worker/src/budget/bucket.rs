//! One bucket as this worker sees it: the tokens in hand, who waits for them, and what the leader knows of that.

use std::collections::VecDeque;
use std::time::Duration;

use flotilla_proto::Limit;
use tokio::time::Instant;

use super::options::Options;
use super::permit::Source;
use super::queue::Queue;
use super::share::Share;

/// How long an answer of the leader is expected to take; tokens are asked for so much ahead.
const AHEAD: f64 = 0.5;
/// The demand of the last second decides how much is asked for ahead.
const WINDOW: Duration = Duration::from_secs(1);

/// Tokens of one grant.
#[derive(Clone, Copy, Debug)]
struct Purse {
    grant: u64,
    left: u32,
    /// Calls that have begun and have no answer yet.
    flying: u32,
    ends: Instant,
}

/// A grant that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Settled {
    pub(super) grant: u64,
    pub(super) unused: u32,
    /// Whether its time was up, and not its tokens or the demand.
    pub(super) ended: bool,
}

/// What the leader was asked for.
#[derive(Clone, Copy, Debug, Default)]
struct Asked {
    at: Option<Instant>,
    /// Whether the last request still has no answer.
    unanswered: bool,
    /// Tokens that the leader still owes by what we said.
    standing: u32,
}

/// Tokens, waiting calls, and demand.
#[derive(Debug)]
pub(super) struct Bucket {
    limit: Limit,
    purses: VecDeque<Purse>,
    pub(super) queue: Queue,
    share: Option<Share>,
    asked: Asked,
    /// Tokens taken in this window and in the one before.
    taken: (u32, u32),
    window: Instant,
    last_taken: Instant,
    /// ARM's last word on what is left, until the leader is told.
    pub(super) remaining: Option<u32>,
    pub(super) told_remaining: Option<Instant>,
}

impl Bucket {
    pub(super) fn new(limit: Limit, now: Instant) -> Self {
        Self {
            limit,
            purses: VecDeque::new(),
            queue: Queue::default(),
            share: None,
            asked: Asked::default(),
            taken: (0, 0),
            window: now,
            last_taken: now,
            remaining: None,
            told_remaining: None,
        }
    }

    /// Takes a token of a grant, the one that ends first.
    pub(super) fn take_granted(&mut self, now: Instant) -> Option<Source> {
        let purse = self.purses.iter_mut().filter(|purse| purse.left > 0 && now < purse.ends).min_by_key(|p| p.ends)?;
        purse.left -= 1;
        purse.flying += 1;
        let grant = purse.grant;
        self.count(now);
        Some(Source::Grant(grant))
    }

    /// Takes a token of our share, for when the leader does not answer.
    pub(super) fn take_share(&mut self, workers: u32, now: Instant) -> Result<Source, Option<Duration>> {
        if self.share.as_ref().is_none_or(|share| share.workers() != workers) {
            self.share = Share::new(self.limit, workers, now);
        }
        self.share.as_ref().ok_or(None)?.take(now).map_err(Some)?;
        self.count(now);
        Ok(Source::Share)
    }

    /// The leader answers again: the share is put away, and starts used up when it is needed again.
    pub(super) fn put_share_away(&mut self) {
        self.share = None;
    }

    /// A call has its answer, or was not made after all. A grant that is over keeps the token as spent.
    pub(super) fn finished(&mut self, grant: u64, used: bool) {
        if let Some(purse) = self.purses.iter_mut().find(|purse| purse.grant == grant) {
            purse.flying -= 1;
            purse.left += u32::from(!used);
        }
    }

    /// Tokens that can be spent now.
    pub(super) fn in_hand(&self, now: Instant) -> u32 {
        self.purses.iter().filter(|purse| now < purse.ends).map(|purse| purse.left).sum()
    }

    /// The leader answered a request.
    pub(super) fn granted(&mut self, grant: u64, tokens: u32, ends: Instant) {
        self.asked.unanswered = false;
        self.asked.standing = self.asked.standing.saturating_sub(tokens);
        if tokens > 0 {
            self.purses.push_back(Purse { grant, left: tokens, flying: 0, ends });
        }
    }

    /// Ends grants: those used up, those whose time is up, and those that nobody needs.
    pub(super) fn settle(&mut self, options: &Options, now: Instant) -> Vec<Settled> {
        let idle = self.queue.is_empty() && now.saturating_duration_since(self.last_taken) >= options.keep_idle;
        let mut settled = Vec::new();
        self.purses.retain(|purse| {
            let ended = now >= purse.ends;
            // A fresh grant is not idle: the call it was asked for may be on its way.
            let unwanted = idle && purse.ends.saturating_duration_since(now) < options.keep_idle * 3;
            let over = ended || purse.flying == 0 && (purse.left == 0 || unwanted);
            if over {
                settled.push(Settled { grant: purse.grant, unused: purse.left, ended: ended && purse.left > 0 });
            }
            !over
        });
        settled
    }

    /// How many tokens to ask the leader for now, if it is time to.
    ///
    /// One request at a time; the leader remembers it for a while, so it is repeated only when the wish changes.
    pub(super) fn ask(&mut self, options: &Options, now: Instant) -> Option<u32> {
        let wants = self.wants(now);
        let since = self.asked.at.map_or(Duration::MAX, |at| now.saturating_duration_since(at));
        let due = if self.asked.unanswered { since >= options.renew } else { wants > self.asked.standing };
        let fades = self.asked.standing > 0 && (wants == 0 || since >= options.renew);
        if !due && !fades {
            return None;
        }
        self.asked = Asked { at: Some(now), unanswered: true, standing: wants };
        Some(wants)
    }

    /// Calls waiting, and those expected while the answer is on its way, less what is in hand.
    fn wants(&mut self, now: Instant) -> u32 {
        self.roll(now);
        let waiting = u32::try_from(self.queue.waiting()).unwrap_or(u32::MAX);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive, and casts saturate")]
        let ahead = (f64::from(self.taken.0.max(self.taken.1)) * AHEAD) as u32;
        waiting.saturating_add(ahead).saturating_sub(self.in_hand(now))
    }

    fn count(&mut self, now: Instant) {
        self.roll(now);
        self.taken.0 += 1;
        self.last_taken = now;
    }

    fn roll(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.window);
        if passed >= WINDOW {
            self.taken = (0, if passed < WINDOW * 2 { self.taken.0 } else { 0 });
            self.window = now;
        }
    }
}
