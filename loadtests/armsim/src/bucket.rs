//! ARM's token buckets: how many calls may still be made, and how a call beyond them is refused.
//!
//! Kept true here: a call that is refused costs nothing, and no call passes before the wait that the first refusal announced is over.

use std::time::Duration;

use super::clock::SimTime;

/// How many tokens a bucket holds and how fast they come back.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rate {
    /// The most tokens it holds; a fresh bucket is full.
    pub capacity: f64,
    /// Tokens that come back in a second.
    pub refill: f64,
}

impl Rate {
    /// A bucket of `capacity` tokens, of which `refill` come back in a second.
    pub const fn new(capacity: f64, refill: f64) -> Self {
        Self { capacity, refill }
    }
}

/// The longest wait that a refusal states, however often it calls too early.
const LONGEST_WAIT: Duration = Duration::from_mins(1);

/// A bucket and its level.
#[derive(Debug, Clone)]
pub(crate) struct Bucket {
    rate: Rate,
    level: f64,
    as_of: SimTime,
    /// Until then every call is refused, as was announced.
    closed_until: SimTime,
    /// Refusals since the last call that passed; each makes the next announced wait longer.
    refusals: u32,
}

impl Bucket {
    pub(crate) fn full(rate: Rate, now: SimTime) -> Self {
        Self { rate, level: rate.capacity, as_of: now, closed_until: now, refusals: 0 }
    }

    /// Whether a call may pass now; if not, after how many whole seconds it may.
    pub(crate) fn check(&mut self, now: SimTime) -> Result<(), u64> {
        self.refill(now);
        if now >= self.closed_until {
            if self.level >= 1.0 {
                return Ok(());
            }
            let missing = (1.0 - self.level) / self.rate.refill;
            self.closed_until = now + Duration::from_secs(whole_seconds(Duration::from_secs_f64(missing)).max(1));
        }
        let wait = self.closed_until.saturating_sub(now) + Duration::from_secs(self.refusals.into());
        self.refusals += 1;
        Err(whole_seconds(wait.min(LONGEST_WAIT)).max(1))
    }

    /// Takes one token. Call only after [`Bucket::check`] let the call pass.
    pub(crate) fn take(&mut self) {
        self.level -= 1.0;
        self.refusals = 0;
    }

    /// Whole tokens left.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a level is between 0 and its capacity"
    )]
    pub(crate) fn left(&self) -> u64 {
        self.level.max(0.0).floor() as u64
    }

    /// Whether the bucket has been full for so long that it may be forgotten.
    pub(crate) fn is_idle(&self, now: SimTime) -> bool {
        let idle = now.saturating_sub(self.as_of).as_secs_f64();
        now >= self.closed_until && self.level + idle * self.rate.refill >= self.rate.capacity
    }

    fn refill(&mut self, now: SimTime) {
        let passed = now.saturating_sub(self.as_of).as_secs_f64();
        self.level = (self.level + passed * self.rate.refill).min(self.rate.capacity);
        self.as_of = self.as_of.max(now);
    }
}

fn whole_seconds(wait: Duration) -> u64 {
    wait.as_secs() + u64::from(wait.subsec_nanos() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> SimTime {
        Duration::from_secs_f64(seconds)
    }

    #[test]
    fn a_full_bucket_lets_its_capacity_pass_and_refills_at_its_rate() {
        let mut bucket = Bucket::full(Rate::new(200.0, 10.0), at(0.0));
        let pass = |bucket: &mut Bucket, now| bucket.check(now).map(|()| bucket.take()).is_ok();
        assert_eq!((0..300).filter(|_| pass(&mut bucket, at(0.0))).count(), 200);
        assert_eq!(
            bucket.check(at(0.5)).map_err(|_| ()),
            Err(()),
            "five tokens are back, but the announced second is not over"
        );
        assert_eq!(bucket.check(at(1.0)), Ok(()));
        assert_eq!((0..300).filter(|_| pass(&mut bucket, at(10.0))).count(), 100);
        assert_eq!(bucket.left(), 0);
    }

    #[test]
    fn no_call_passes_before_the_announced_wait_is_over_and_impatience_makes_it_longer() {
        let mut bucket = Bucket::full(Rate::new(1.0, 0.1), at(0.0));
        bucket.check(at(0.0)).unwrap();
        bucket.take();
        assert_eq!(bucket.check(at(0.0)), Err(10));
        assert_eq!(bucket.check(at(1.0)), Err(10), "nine seconds are left, and one more for calling early");
        assert_eq!(bucket.check(at(9.9)), Err(3), "a tenth of a second is left, and two more");
        assert_eq!(bucket.check(at(10.0)), Ok(()));
    }

    #[test]
    fn only_a_bucket_that_is_full_again_is_idle() {
        let mut bucket = Bucket::full(Rate::new(10.0, 1.0), at(0.0));
        bucket.check(at(0.0)).unwrap();
        bucket.take();
        assert!(!bucket.is_idle(at(0.5)));
        assert!(bucket.is_idle(at(1.0)));
    }
}
