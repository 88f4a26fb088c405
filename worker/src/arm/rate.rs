//! Reads what ARM's headers say about its budget.
//!
//! "Remaining" is a figure of the ARM region that took the call, so it is never reported without that region.

use std::time::Duration;

use azure_core::http::headers::Headers;
use jiff::Timestamp;

use super::scale::TimeScale;
use crate::budget::{Class, Observation};

const PREFIX: &str = "x-ms-ratelimit-remaining-";
const CLASSES: [(Class, &str); 3] = [(Class::Read, "reads"), (Class::Write, "writes"), (Class::Delete, "deletes")];
/// What a 429 without a header means; ARM's buckets refill within seconds, providers' windows within minutes.
const UNSAID: Duration = Duration::from_secs(10);

/// Reads the headers of an answer.
pub(crate) fn observe(status: u16, headers: &Headers, scale: TimeScale, now: Timestamp) -> Observation {
    let mut seen = Observation { region: region(headers), ..Observation::default() };
    for (class, word) in CLASSES {
        let left = number(headers, &format!("{PREFIX}subscription-{word}"))
            .or_else(|| number(headers, &format!("{PREFIX}tenant-{word}")));
        seen.remaining.extend(left.map(|left| (class, left)));
    }
    if status == 429 {
        seen.throttled_for = Some(retry_after(headers, scale, now).unwrap_or_else(|| scale.wait(UNSAID)));
        seen.by_gateway =
            text(headers, "x-ms-failure-cause").is_some_and(|cause| cause.eq_ignore_ascii_case("gateway"));
    }
    seen
}

/// `Retry-After` by our clock: whole seconds or an HTTP date, at least one of ARM's seconds.
///
/// A value of 0 occurs and would make a caller spin.
pub(crate) fn retry_after(headers: &Headers, scale: TimeScale, now: Timestamp) -> Option<Duration> {
    let text = text(headers, "retry-after")?;
    let seconds = match text.parse::<u64>() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => until_date(text, now)?,
    };
    Some(scale.wait(seconds.max(Duration::from_secs(1))))
}

fn until_date(text: &str, now: Timestamp) -> Option<Duration> {
    let at = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
    let wait = at.duration_since(now);
    Some(Duration::try_from(wait).unwrap_or(Duration::ZERO))
}

/// `SWEDENCENTRAL:20261130T110000Z:guid` begins with the region.
fn region(headers: &Headers) -> Option<String> {
    let region = text(headers, "x-ms-routing-request-id")?.split(':').next()?.trim();
    (!region.is_empty()).then(|| region.to_ascii_lowercase())
}

fn number(headers: &Headers, name: &str) -> Option<u32> {
    text(headers, name)?.parse().ok()
}

/// Looked through by hand: for a header that is absent `get_optional_str` makes an error and drops it, with a backtrace
/// where those are on. Most of these headers are absent, and that took an eighth of a worker's CPU time.
fn text<'a>(headers: &'a Headers, name: &str) -> Option<&'a str> {
    let (_, value) = headers.iter().find(|(known, _)| known.as_str() == name)?;
    Some(value.as_str().trim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn headers(pairs: &[(&str, &str)]) -> Headers {
        let mut headers = Headers::new();
        for (name, value) in pairs {
            headers.insert((*name).to_owned(), (*value).to_owned());
        }
        headers
    }

    #[test]
    fn remaining_comes_with_its_region() {
        let seen = observe(
            200,
            &headers(&[
                ("x-ms-ratelimit-remaining-subscription-writes", "199"),
                ("x-ms-ratelimit-remaining-subscription-global-writes", "2999"),
                ("x-ms-routing-request-id", "SWEDENCENTRAL:20261130T110000Z:b2c0"),
            ]),
            TimeScale::REAL,
            Timestamp::UNIX_EPOCH,
        );
        assert_eq!(seen.region.as_deref(), Some("swedencentral"));
        assert_eq!(seen.remaining, [(Class::Write, 199)]);
        assert_eq!(seen.throttled_for, None);
    }

    #[test]
    fn throttling_waits_at_least_one_of_arms_seconds() {
        let (sixty, now) = (TimeScale::new(60.0).unwrap(), Timestamp::UNIX_EPOCH);
        for (value, scale, wait) in [
            ("0", TimeScale::REAL, Duration::from_secs(1)),
            ("17", TimeScale::REAL, Duration::from_secs(17)),
            ("15", sixty, Duration::from_millis(250)),
        ] {
            let seen = observe(429, &headers(&[("retry-after", value), ("x-ms-failure-cause", "gateway")]), scale, now);
            assert_eq!(seen.throttled_for, Some(wait), "{value}");
            assert!(seen.by_gateway);
        }
        assert_eq!(observe(429, &headers(&[]), TimeScale::REAL, now).throttled_for, Some(UNSAID));
    }

    #[test]
    fn a_date_in_the_past_is_the_floor() {
        let headers = headers(&[("retry-after", "Wed, 21 Oct 2015 07:28:00 GMT")]);
        let now = "2026-11-30T11:00:00Z".parse().unwrap();
        assert_eq!(retry_after(&headers, TimeScale::REAL, now), Some(Duration::from_secs(1)));
    }

    #[test]
    fn a_date_to_come_is_waited_for_by_arms_clock() {
        let headers = headers(&[("retry-after", "Wed, 21 Oct 2015 07:28:00 GMT")]);
        let now = "2015-10-21T07:27:00Z".parse().unwrap();
        assert_eq!(retry_after(&headers, TimeScale::REAL, now), Some(Duration::from_mins(1)));
        assert_eq!(retry_after(&headers, TimeScale::new(60.0).unwrap(), now), Some(Duration::from_secs(1)));
    }

    proptest! {
        #[test]
        fn no_header_text_breaks_the_reading(name in "x-ms-ratelimit-remaining-(resource|subscription-reads)", value in "\\PC*") {
            observe(429, &headers(&[(&name, &value), ("retry-after", &value), ("x-ms-routing-request-id", &value)]), TimeScale::REAL, Timestamp::UNIX_EPOCH);
        }
    }
}
