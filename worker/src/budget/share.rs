//! What may be spent while no leader answers: an even trickle, never a burst.
//!
//! A limiter's rate can't be changed, so a new share is a new limiter; it starts used up, since the one before may have
//! been spent a moment ago.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use flotilla_proto::Limit;
use governor::clock::{Clock, Reference as _};
use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};
use tokio::time::Instant;

/// Tokens may clump for this long: the spender looks only so often.
const CLUMP: Duration = Duration::from_millis(100);

/// A clock that shows what it was last set to: the limiter asks a clock, and we are given the time.
#[derive(Clone, Debug)]
struct GivenClock {
    start: Instant,
    /// Nanoseconds since `start`; shared with the limiter.
    passed: Arc<AtomicU64>,
}

impl GivenClock {
    fn starting_at(start: Instant) -> Self {
        Self { start, passed: Arc::default() }
    }

    fn set(&self, now: Instant) {
        let passed = now.saturating_duration_since(self.start).as_nanos();
        self.passed.store(u64::try_from(passed).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

impl Clock for GivenClock {
    type Instant = Nanos;

    fn now(&self) -> Nanos {
        Nanos::new(self.passed.load(Ordering::Relaxed))
    }
}

/// One part of a bucket's refill.
#[derive(Debug)]
pub(super) struct Share {
    /// Of how many workers we are one.
    workers: u32,
    clock: GivenClock,
    limiter: RateLimiter<NotKeyed, InMemoryState, GivenClock, NoOpMiddleware<Nanos>>,
}

impl Share {
    /// The part of one of so many workers. None if there is nothing to share: we were never told, or it is too little.
    pub(super) fn new(limit: Limit, workers: u32, now: Instant) -> Option<Self> {
        let rate = limit.per_second / f64::from(NonZeroU32::new(workers)?.get());
        let every = Duration::try_from_secs_f64(1.0 / rate).ok().filter(|every| *every < Duration::from_hours(1))?;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive, and casts saturate")]
        let burst = NonZeroU32::new((rate * CLUMP.as_secs_f64()) as u32).unwrap_or(NonZeroU32::MIN);
        let quota = Quota::with_period(every)?.allow_burst(burst);
        let clock = GivenClock::starting_at(now);
        let limiter = RateLimiter::direct_with_clock(quota, clock.clone());
        while limiter.check().is_ok() {} // starts used up
        Some(Self { workers, clock, limiter })
    }

    /// Of how many workers this is the share of one.
    pub(super) fn workers(&self) -> u32 {
        self.workers
    }

    /// Takes a token, or says how long until there is one.
    pub(super) fn take(&self, now: Instant) -> Result<(), Duration> {
        self.clock.set(now);
        self.limiter.check().map_err(|not_until| {
            let now = self.clock.now();
            not_until.earliest_possible().duration_since(now).into()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn spent_in(share: &Share, time: Duration) -> u32 {
        let end = Instant::now() + time;
        let mut spent = 0;
        loop {
            match share.take(Instant::now()) {
                Ok(()) => spent += 1,
                Err(wait) if Instant::now() + wait > end => return spent,
                Err(wait) => tokio::time::sleep(wait).await,
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_third_of_ten_per_second_is_a_hundred_in_half_a_minute_and_no_burst() {
        let share = Share::new(Limit { capacity: 200.0, per_second: 10.0 }, 3, Instant::now()).unwrap();
        assert!(share.take(Instant::now()).is_err(), "starts used up");
        let spent = spent_in(&share, Duration::from_secs(30)).await;
        assert!((99..=100).contains(&spent), "{spent}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_fast_share_is_spent_in_full() {
        let share = Share::new(Limit { capacity: 250.0, per_second: 1500.0 }, 3, Instant::now()).unwrap();
        let spent = spent_in(&share, Duration::from_secs(10)).await;
        assert!((4_950..=5_000).contains(&spent), "{spent}");
    }

    #[test]
    fn who_was_never_told_has_no_share() {
        let limit = Limit { capacity: 200.0, per_second: 10.0 };
        assert!(Share::new(limit, 0, Instant::now()).is_none());
        assert!(Share::new(limit, u32::MAX, Instant::now()).is_none());
    }
}
