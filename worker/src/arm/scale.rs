//! How much faster the ARM on the other side runs than the real one.
//!
//! A simulator may run its clock sixty times as fast and still answer `Retry-After: 15`. Every wait that is measured in
//! ARM's seconds passes through [`TimeScale::wait`], and through nothing else.

use std::time::Duration;

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
        let scale = TimeScale::new(60.0).unwrap();
        assert_eq!(scale.wait(Duration::from_secs(15)), Duration::from_millis(250));
    }

    #[test]
    fn nonsense_is_refused() {
        for factor in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(TimeScale::new(factor).is_none(), "{factor}");
        }
    }
}
