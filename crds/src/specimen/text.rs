//! Placeholders for texts: by the field's name what people would write there, as far as the type takes it.

use regex::Regex;

use super::{NAME, pattern};

pub(super) const UUID: &str = "00000000-0000-0000-0000-000000000000";

/// What fields hold whose names end or begin so; the first that fits counts. Lower case, without a plural s.
const MEANT: [(&str, &str); 21] = [
    ("location", "westeurope"),
    ("region", "westeurope"),
    ("uri", "https://example.com/"),
    ("url", "https://example.com/"),
    ("endpoint", "https://example.com/"),
    ("addressprefix", "10.0.0.0/24"),
    ("addressprefixe", "10.0.0.0/24"),
    ("cidr", "10.0.0.0/24"),
    ("subnet", "10.0.0.0/24"),
    ("ipaddress", "10.0.0.4"),
    ("email", "user@example.com"),
    ("tenantid", UUID),
    ("principalid", UUID),
    ("objectid", UUID),
    ("clientid", UUID),
    ("applicationid", UUID),
    ("subscriptionid", UUID),
    ("date", "2026-01-01T00:00:00Z"),
    ("starttime", "2026-01-01T00:00:00Z"),
    ("endtime", "2026-02-01T00:00:00Z"),
    ("version", "1.0"),
];

/// What patterns ask for most.
const COMMON: [&str; 7] = [NAME, UUID, "10.0.0.4", "10.0.0.0/24", "https://example.com/", "ZXhhbXBsZQ==", "12:00"];

/// A text for a field.
pub(super) fn of_field(name: &str, pattern: Option<&str>, min: Option<u64>, max: Option<u64>) -> String {
    let lower = name.to_lowercase();
    let lower = lower.strip_suffix('s').unwrap_or(&lower);
    let meant = MEANT.iter().find(|(end, _)| lower.ends_with(end)).map(|(_, text)| *text);
    named(meant.unwrap_or(NAME), pattern, min, max)
}

/// This text if it fits, or one that does.
pub(super) fn named(text: &str, pattern: Option<&str>, min: Option<u64>, max: Option<u64>) -> String {
    let (min, max) = (length(min).unwrap_or(0), length(max).unwrap_or(usize::MAX));
    // What no engine of ours can read is left to the API server.
    let regex = pattern.and_then(|pattern| Regex::new(pattern).ok());
    let fits = |text: &str| {
        (min..=max).contains(&text.chars().count()) && regex.as_ref().is_none_or(|regex| regex.is_match(text))
    };
    let candidates = std::iter::once(text).chain(COMMON).map(|text| sized(text, min, max));
    let found = candidates.into_iter().find(|text| fits(text));
    let made = || pattern.and_then(|pattern| pattern::matching(pattern, fits));
    found.or_else(made).unwrap_or_else(|| sized(text, min, max))
}

/// Repeated until it is long enough, and cut where it is too long.
fn sized(text: &str, min: usize, max: usize) -> String {
    let wanted = text.chars().count().clamp(min, max.max(min));
    text.chars().cycle().take(wanted).collect()
}

fn length(bound: Option<u64>) -> Option<usize> {
    bound.map(|bound| usize::try_from(bound).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_what_people_would_write() {
        for (name, pattern, min, max, text) in [
            ("location", None, None, None, "westeurope"),
            ("publisherName", None, None, None, "example"),
            ("addressPrefixes", None, None, None, "10.0.0.0/24"),
            ("serviceUrl", None, None, Some(8), "https://"),
            ("principalId", Some("^[0-9a-f-]{36}$"), Some(36), Some(36), UUID),
            ("azureName", None, Some(10), None, "exampleexa"),
            ("utcOffset", Some(r"^(-|\+)[0-9]{2}:[0-9]{2}$"), None, None, "-00:00"),
        ] {
            assert_eq!(of_field(name, pattern, min, max), text, "{name}");
        }
    }
}
