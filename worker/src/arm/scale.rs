//! How much faster the ARM on the other side runs than the real one.
//!
//! A simulator may run its clock sixty times as fast and still answer `Retry-After: 15`. Every wait that is measured in
//! ARM's seconds passes through [`TimeScale::wait`], and through nothing else.

use std::time::Duration;

use super::error::ConfigError;

/// Factor between ARM's seconds and ours; 1 for the real ARM.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimeScale(f64);

impl TimeScale {
    /// ARM runs at our speed.
    pub const REAL: Self = Self(1.0);

    /// A factor that is finite and greater than zero.
    pub fn new(factor: f64) -> Option<Self> {
        (factor.is_finite() && factor > 0.0).then_some(Self(factor))
    }

    /// Reads the value of `FLOTILLA_ARM_TIME_SCALE`.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        text.trim().parse().ok().and_then(Self::new).ok_or_else(|| ConfigError::Value {
            key: "FLOTILLA_ARM_TIME_SCALE",
            value: text.to_owned(),
            wanted: "a number greater than zero",
        })
    }

    /// How many of ARM's seconds pass in one of ours.
    pub const fn factor(self) -> f64 {
        self.0
    }

    /// How long to wait by our clock while `arm` passes by ARM's.
    pub fn wait(self, arm: Duration) -> Duration {
        Duration::try_from_secs_f64(arm.as_secs_f64() / self.0).unwrap_or(Duration::MAX)
    }
}

impl Default for TimeScale {
    fn default() -> Self {
        Self::REAL
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fifteen_seconds_of_a_sixtyfold_arm_are_a_quarter_of_ours() {
        let scale = TimeScale::parse("60").unwrap();
        assert_eq!(scale.wait(Duration::from_secs(15)), Duration::from_millis(250));
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["0", "-1", "fast", "", "NaN", "inf"] {
            assert!(TimeScale::parse(text).is_err(), "{text}");
        }
    }
}
