//! Simulated time: real time, running faster by a factor, that can be pushed forward by hand.
//!
//! Kept true here: time never goes back, also when the factor changes.

use std::time::{Duration, Instant};

/// A moment of simulated time, counted from the start of the simulator.
pub(crate) type SimTime = Duration;

/// Turns moments of real time into moments of simulated time.
#[derive(Debug)]
pub(crate) struct Clock {
    /// The real moment from which `since` counts on.
    anchor: Instant,
    /// The simulated moment at `anchor`.
    since: SimTime,
    /// How many simulated seconds pass in a real one.
    scale: f64,
}

impl Clock {
    pub(crate) fn new(anchor: Instant, scale: f64) -> Self {
        Self { anchor, since: SimTime::ZERO, scale }
    }

    /// The simulated moment that belongs to a real one.
    pub(crate) fn at(&self, real: Instant) -> SimTime {
        self.since + real.saturating_duration_since(self.anchor).mul_f64(self.scale)
    }

    /// Time runs `scale` times as fast as real time from here on.
    pub(crate) fn set_scale(&mut self, real: Instant, scale: f64) {
        self.since = self.at(real);
        self.anchor = self.anchor.max(real);
        self.scale = scale;
    }

    /// Jumps forward.
    pub(crate) fn advance(&mut self, by: Duration) {
        self.since += by;
    }
}

/// How ARM writes a moment.
pub(crate) fn text(epoch: jiff::Timestamp, at: SimTime) -> String {
    let moment = epoch.checked_add(at).unwrap_or(jiff::Timestamp::MAX);
    moment.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_scale_keeps_the_time_reached() {
        let start = Instant::now();
        let mut clock = Clock::new(start, 60.0);
        let later = start + Duration::from_secs(2);
        assert_eq!(clock.at(later), Duration::from_mins(2));
        clock.set_scale(later, 1.0);
        assert_eq!(clock.at(later), Duration::from_mins(2));
        assert_eq!(clock.at(later + Duration::from_secs(3)), Duration::from_secs(123));
        clock.advance(Duration::from_secs(7));
        assert_eq!(clock.at(later), Duration::from_secs(127));
        assert_eq!(clock.at(start), Duration::from_secs(127), "time goes back");
        assert_eq!(text(jiff::Timestamp::UNIX_EPOCH, Duration::from_millis(1500)), "1970-01-01T00:00:01.500000Z");
    }
}
