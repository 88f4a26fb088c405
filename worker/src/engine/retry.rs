//! When Flotilla tries again, and how a condition says so.

use std::fmt;
use std::time::Duration;

use crate::arm::error::Retry;

/// Used where resync is off: a retry is still due at some time.
const HOUR: Duration = Duration::from_hours(1);

/// The longest that a retry of this kind waits, in words for a condition's message.
///
/// The words don't change from try to try, so that waiting costs no writes.
pub(crate) fn words(retry: Retry, resync: Option<Duration>) -> String {
    match retry {
        Retry::Fast => "Flotilla checks again within 30 s.".into(),
        Retry::Slow => "Flotilla retries within 3 min.".into(),
        Retry::VerySlow | Retry::UntilSpecChanges => {
            format!("Flotilla retries when the spec changes, or within {}.", Words(resync.unwrap_or(HOUR)))
        }
        Retry::After(_) => "Flotilla retries as soon as Azure allows.".into(),
    }
}

/// A duration as people say it.
struct Words(Duration);

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_secs() {
            secs if secs >= 3600 && secs % 3600 == 0 => write!(f, "{} h", secs / 3600),
            secs if secs >= 120 => write!(f, "{} min", secs.div_ceil(60)),
            secs => write!(f, "{} s", secs.max(1)),
        }
    }
}

/// A fixed spread of ±25 % around a period, different for each object and the same at each call.
///
/// Objects that were created together drift apart, so that resync is a steady trickle instead of a wave.
pub(crate) fn jittered(period: Duration, seed: u64) -> Duration {
    // 16 bits of the seed are spread enough for a share between 0.75 and 1.25.
    let share = f64::from(u16::try_from(seed >> 48).unwrap_or(0)) / f64::from(u16::MAX);
    period.mul_f64(0.75 + share / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_stays_within_a_quarter_and_is_stable() {
        let period = Duration::from_secs(1000);
        for seed in [0, u64::MAX, 0x8000_0000_0000_0000, 0x1234_5678_9abc_def0] {
            let secs = jittered(period, seed).as_secs();
            assert!((750..=1250).contains(&secs), "{secs}");
            assert_eq!(jittered(period, seed), jittered(period, seed));
        }
    }

    #[test]
    fn words_name_the_longest_wait() {
        let within = |period| words(Retry::VerySlow, period);
        assert_eq!(within(Some(HOUR)), "Flotilla retries when the spec changes, or within 1 h.");
        assert_eq!(within(Some(Duration::from_mins(90))), "Flotilla retries when the spec changes, or within 90 min.");
        assert_eq!(within(Some(Duration::from_secs(5))), "Flotilla retries when the spec changes, or within 5 s.");
    }
}
