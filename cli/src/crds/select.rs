//! The kinds that patterns mean. A pattern that means none is an error: it is a typing mistake.

use anyhow::{Result, bail};
use flotilla_crds::{Catalog, KindEntry, Pattern};

use crate::suggest::nearest;

/// The kinds that some pattern means, all without patterns, by group and kind.
pub(super) fn kinds<'a>(catalog: &'a Catalog, patterns: &[String]) -> Result<Vec<&'a KindEntry>> {
    if patterns.is_empty() {
        return Ok(catalog.kinds().collect());
    }
    let parts: Vec<&str> =
        patterns.iter().flat_map(|p| p.split(';')).map(str::trim).filter(|p| !p.is_empty()).collect();
    let names = catalog.kinds().map(|e| (e.group.as_str(), e.kind.as_str()));
    for part in &parts {
        let whole = whole(part);
        if !Pattern::parse(&whole)?.unused(&names).is_empty() {
            let near = suggestion(catalog, &whole).map(|near| format!("; did you mean {near:?}?")).unwrap_or_default();
            bail!("no kind matches {part:?}{near}");
        }
    }
    let whole: Vec<String> = parts.into_iter().map(whole).collect();
    let pattern = Pattern::parse(&whole.join(";"))?;
    Ok(catalog.kinds().filter(|e| pattern.matches(&e.group, &e.kind)).collect())
}

/// A group or a kind alone is a pattern too.
fn whole(pattern: &str) -> String {
    match pattern {
        "*" => pattern.to_owned(),
        _ if pattern.contains('/') => pattern.to_owned(),
        _ if pattern.contains('.') => format!("{pattern}/*"),
        _ => format!("*/{pattern}"),
    }
}

fn suggestion(catalog: &Catalog, pattern: &str) -> Option<String> {
    let (group, kind) = pattern.split_once('/')?;
    let groups = || catalog.kinds().map(|e| e.group.as_str());
    let known = groups().any(|g| g.eq_ignore_ascii_case(group));
    let near_group = if known || group == "*" { group } else { nearest(group, groups())? };
    if kind == "*" {
        return Some(format!("{near_group}/*"));
    }
    let kinds = |within: &str| {
        let within = within.to_owned();
        catalog.kinds().filter(move |e| within == "*" || e.group.eq_ignore_ascii_case(&within)).map(|e| e.kind.as_str())
    };
    if let Some(near) = nearest(kind, kinds(near_group)) {
        return Some(if group == "*" { near.to_owned() } else { format!("{near_group}/{near}") });
    }
    let elsewhere = catalog.kinds().find(|e| e.kind.eq_ignore_ascii_case(kind));
    let begun = || catalog.kinds().find(|e| kind.len() > 2 && e.kind.to_lowercase().starts_with(&kind.to_lowercase()));
    elsewhere.or_else(begun).map(|e| format!("{}/{}", e.group, e.kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(patterns: &[&str]) -> Result<Vec<String>> {
        let patterns: Vec<String> = patterns.iter().map(|&p| p.to_owned()).collect();
        let found = kinds(Catalog::embedded(), &patterns)?;
        Ok(found.iter().map(|e| format!("{}/{}", e.group, e.kind)).collect())
    }

    #[test]
    fn groups_and_kinds_alone_are_patterns() {
        assert_eq!(names(&["storageaccount"]).unwrap(), ["storage.azure.com/StorageAccount"]);
        assert_eq!(
            names(&["app.azure.com/Job", "resources.azure.com"]).unwrap(),
            ["app.azure.com/Job", "resources.azure.com/ResourceGroup"]
        );
        assert_eq!(names(&["*"]).unwrap(), names(&[]).unwrap());
        assert_eq!(names(&["storage.azure.com/StorageAccount;app.azure.com/Job"]).unwrap().len(), 2);
    }

    #[test]
    fn what_matches_nothing_is_refused_with_what_was_meant() {
        for (pattern, meant) in [
            ("StorageAcount", "\"StorageAccount\""),
            ("storag.azure.com/*", "\"storage.azure.com/*\""),
            ("storage.azure.com/StorageAcount", "\"storage.azure.com/StorageAccount\""),
            ("storage.azure.com/ContainerApp", "\"app.azure.com/ContainerApp\""),
        ] {
            let error = names(&["*", pattern]).unwrap_err().to_string();
            assert!(error.contains("no kind matches") && error.ends_with(&format!("did you mean {meant}?")), "{error}");
        }
        assert!(!names(&["qqqqqqqqqqqq/zzzzzzzzzzz"]).unwrap_err().to_string().contains("did you mean"));
    }
}
