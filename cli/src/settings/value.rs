//! Reads the values of flags and variables. An error says what was expected; clap adds the value, and what it was for.

use std::convert::Infallible;
use std::fmt;
use std::time::Duration;

use flotilla_worker::arm::{TimeScale, identity};

use crate::names;

/// A text that nobody may read by accident.
#[derive(Clone)]
pub struct Hidden(pub(super) String);

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<hidden>")
    }
}

/// How often an unchanged object is reconciled; never without a duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period(pub Option<Duration>);

/// Secrets often end with a line break.
#[expect(clippy::unnecessary_wraps, reason = "clap's parsers return a result")]
pub(super) fn trimmed(text: &str) -> Result<String, Infallible> {
    Ok(text.trim().to_owned())
}

/// Never fails: clap would print the value.
#[expect(clippy::unnecessary_wraps, reason = "clap's parsers return a result")]
pub(super) fn hidden(text: &str) -> Result<Hidden, Infallible> {
    Ok(Hidden(text.trim().to_owned()))
}

/// As Go reads them, which is how ASO does.
pub(super) fn boolean(text: &str) -> Result<bool, &'static str> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" | "t" | "1" => Ok(true),
        "false" | "f" | "0" => Ok(false),
        _ => Err("expected true or false"),
    }
}

pub(super) fn https(text: &str) -> Result<String, &'static str> {
    let text = text.trim();
    let printable = text.bytes().all(|byte| byte.is_ascii_graphic());
    if printable && identity::https(text).is_some() {
        Ok(text.to_owned())
    } else {
        Err("expected an https URL such as https://management.azure.com")
    }
}

pub(super) fn subscription(text: &str) -> Result<String, &'static str> {
    let text = text.trim();
    let fits = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if fits { Ok(text.to_owned()) } else { Err("expected an id of letters, digits and -") }
}

/// An empty one, as after a trailing comma, is ignored later.
pub(super) fn namespace(text: &str) -> Result<String, &'static str> {
    let text = text.trim();
    if !text.is_empty() {
        names::namespace(text)?;
    }
    Ok(text.to_owned())
}

pub(super) fn time_scale(text: &str) -> Result<TimeScale, &'static str> {
    text.trim().parse().ok().and_then(TimeScale::new).ok_or("expected a number greater than zero")
}

/// As Go writes durations, `1h30m` or `500ms`, or `never`.
pub(super) fn period(text: &str) -> Result<Period, &'static str> {
    const EXPECTED: &str = "expected a duration such as 1h30m, or never";
    let text = text.trim();
    if text.eq_ignore_ascii_case("never") {
        return Ok(Period(None));
    }
    let (mut rest, mut total) = (text, 0.0);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or(EXPECTED)?;
        let (number, tail) = rest.split_at(digits);
        let unit_length = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_length);
        let seconds = match unit {
            "ms" => 0.001,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return Err(EXPECTED),
        };
        total += number.parse::<f64>().map_err(|_| EXPECTED)? * seconds;
        rest = tail;
    }
    let period = Duration::try_from_secs_f64(total).map_err(|_| EXPECTED)?;
    if period.is_zero() { Err(EXPECTED) } else { Ok(Period(Some(period))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sync_periods_are_go_durations_or_never() {
        assert_eq!(period("1h"), Ok(Period(Some(Duration::from_hours(1)))));
        assert_eq!(period("1h30m"), Ok(Period(Some(Duration::from_mins(90)))));
        assert_eq!(period("3600000ms"), Ok(Period(Some(Duration::from_hours(1)))));
        assert_eq!(period("1.5s"), Ok(Period(Some(Duration::from_millis(1500)))));
        assert_eq!(period("never"), Ok(Period(None)));
        for bad in ["", "0s", "1", "h", "1d", "-1h"] {
            assert!(period(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn switches_are_read_as_go_reads_them() {
        for (text, expected) in [("true", true), ("TRUE\n", true), ("1", true), ("false", false), ("0", false)] {
            assert_eq!(boolean(text), Ok(expected), "{text}");
        }
        assert!(boolean("yes please").is_err());
    }

    #[test]
    fn time_scale_is_a_positive_number() {
        assert_eq!(time_scale("60").unwrap(), TimeScale::new(60.0).unwrap());
        for bad in ["0", "-1", "fast", "", "NaN", "inf"] {
            assert!(time_scale(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn urls_are_https_and_have_a_host() {
        assert_eq!(https(" https://arm.example/ ").as_deref(), Ok("https://arm.example/"));
        for bad in ["management.azure.com", "http://arm.example", "https://", "https://a b"] {
            assert!(https(bad).is_err(), "{bad}");
        }
    }
}
