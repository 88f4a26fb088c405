//! The closed set of what can be wrong with a call, and when to retry.

use std::fmt;
use std::time::Duration;

/// What kind of thing is wrong: what the engine decides by, and what `flotilla plan` names.
///
/// A condition has the error's own reason instead, which is ARM's code where there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Category {
    /// ARM or a resource provider asks for fewer calls.
    Throttled,
    /// Something else is happening to this resource or one near it.
    Busy,
    /// Azure failed to answer properly.
    Transient,
    /// No answer: no connection, no name, no trust in the certificate, or out of time.
    Unreachable,
    /// The resource itself does not exist.
    NotFound,
    /// Another resource that this one needs does not exist or is not ready.
    MissingDependency,
    /// The subscription does not know the resource provider yet.
    NotRegistered,
    /// Entra gives no token, or ARM does not take it.
    Authentication,
    /// The identity may not do this.
    Authorization,
    /// Out of quota, capacity or offers.
    Quota,
    /// A policy or a lock forbids it.
    Policy,
    /// The request is wrong; usually the spec has to change.
    Invalid,
    /// None of the above.
    Unknown,
}

impl Category {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::Throttled,
        Self::Busy,
        Self::Transient,
        Self::Unreachable,
        Self::NotFound,
        Self::MissingDependency,
        Self::NotRegistered,
        Self::Authentication,
        Self::Authorization,
        Self::Quota,
        Self::Policy,
        Self::Invalid,
        Self::Unknown,
    ];

    /// The word for people and tests.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Throttled => "throttled",
            Self::Busy => "busy",
            Self::Transient => "transient",
            Self::Unreachable => "unreachable",
            Self::NotFound => "not_found",
            Self::MissingDependency => "missing_dependency",
            Self::NotRegistered => "not_registered",
            Self::Authentication => "authentication",
            Self::Authorization => "authorization",
            Self::Quota => "quota",
            Self::Policy => "policy",
            Self::Invalid => "invalid",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for Category {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// When another try makes sense.
///
/// Every error is retried: any verdict can be wrong, and causes go away unannounced. Our own waits end within the sync period
/// (1 h where that is `never`), or within 3 min where that is shorter; only Azure can ask for a longer one, by `Retry-After`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// 1 s, 2 s, 4 s … 30 s.
    Fast,
    /// 1 s, 2 s, 4 s … 3 min.
    Slow,
    /// 15 s, 1 min, 4 min, 16 min, then each sync period: an unclear refusal often passes once a sibling exists,
    /// and one that does not must not cost a call a minute for ever.
    VerySlow,
    /// As long as Azure said, by our clock.
    After(Duration),
    /// Each sync period. The engine also retries at once when the spec changes, as after every error.
    UntilSpecChanges,
}

/// The sync period where none is set (`never`): errors are still retried.
const DEFAULT_SYNC_PERIOD: Duration = Duration::from_hours(1);

impl Retry {
    /// How long to wait after `failures` failures in a row, the latest included.
    pub fn delay(self, failures: u32, sync_period: Option<Duration>) -> Duration {
        let period = sync_period.unwrap_or(DEFAULT_SYNC_PERIOD);
        let grow = |first: u64, factor: u32, cap: Duration| {
            let factor = factor.saturating_pow(failures.saturating_sub(1));
            Duration::from_secs(first).checked_mul(factor).map_or(cap, |wait| wait.min(cap))
        };
        match self {
            Self::Fast => grow(1, 2, Duration::from_secs(30)),
            Self::Slow => grow(1, 2, Duration::from_mins(3)),
            Self::VerySlow => grow(15, 4, period),
            Self::After(wait) => wait,
            Self::UntilSpecChanges => period,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn waits_grow_to_their_cap() {
        let seconds = |retry: Retry| [1, 2, 3, 9, 40].map(|n| retry.delay(n, None).as_secs());
        assert_eq!(seconds(Retry::Fast), [1, 2, 4, 30, 30]);
        assert_eq!(seconds(Retry::Slow), [1, 2, 4, 180, 180]);
        assert_eq!(seconds(Retry::VerySlow), [15, 60, 240, 3600, 3600]);
        assert_eq!(seconds(Retry::UntilSpecChanges), [3600; 5]);
    }

    proptest! {
        #[test]
        fn no_verdict_waits_longer_than_the_sync_period(failures in 0..u32::MAX, period in 180_u64..100_000) {
            let period = Duration::from_secs(period);
            for retry in [Retry::Fast, Retry::Slow, Retry::VerySlow, Retry::UntilSpecChanges] {
                prop_assert!(retry.delay(failures, Some(period)) <= period);
            }
        }
    }
}
