//! The kinds that patterns mean. A pattern that means none is an error: it is a typing mistake.

use std::collections::BTreeSet;

use anyhow::{Result, bail};
use flotilla_crds::{Asked, Catalog, KindEntry, Pattern};

use crate::suggest::nearest;

/// A kind, and the versions of it that are meant.
#[derive(Clone, Debug)]
pub(super) struct Selected<'a> {
    pub(super) entry: &'a KindEntry,
    pub(super) asked: Asked,
}

/// The kinds that some pattern means, all of ASO's set without patterns, by group and kind.
pub(super) fn kinds<'a>(catalog: &'a Catalog, patterns: &[String]) -> Result<Vec<&'a KindEntry>> {
    Ok(selected(catalog, patterns)?.into_iter().map(|selected| selected.entry).collect())
}

/// The same, with the versions that the patterns ask for.
pub(super) fn selected<'a>(catalog: &'a Catalog, patterns: &[String]) -> Result<Vec<Selected<'a>>> {
    let pattern = pattern(catalog, patterns)?;
    let asks = |entry| pattern.asks(entry).map(|asked| Selected { entry, asked });
    Ok(catalog.kinds().filter_map(asks).collect())
}

fn pattern(catalog: &Catalog, patterns: &[String]) -> Result<Pattern> {
    if patterns.is_empty() {
        return Ok(Pattern::parse("*")?);
    }
    let parts: Vec<&str> =
        patterns.iter().flat_map(|p| p.split(';')).map(str::trim).filter(|p| !p.is_empty()).collect();
    if parts.is_empty() {
        bail!("the pattern is empty; leave it out to mean every kind of ASO's set");
    }
    for part in &parts {
        let whole = whole(catalog, part);
        if !Pattern::parse(&whole)?.unused(catalog).is_empty() {
            let near = suggestion(catalog, &whole).map(|near| format!("; did you mean {near:?}?")).unwrap_or_default();
            bail!("no kind matches {part:?}{near}");
        }
    }
    let whole: Vec<String> = parts.into_iter().map(|part| whole(catalog, part)).collect();
    Ok(Pattern::parse(&whole.join(";"))?)
}

/// A group or a kind alone is a pattern too, and so is the name of a CRD.
fn whole(catalog: &Catalog, pattern: &str) -> String {
    if pattern == "*" || pattern.contains('/') {
        return pattern.to_owned();
    }
    if !pattern.contains('.') {
        return format!("*/{pattern}");
    }
    let named = catalog.kind_of_crd(&pattern.to_lowercase());
    named.map_or_else(|| format!("{pattern}/*"), |entry| format!("{}/{}", entry.group, entry.kind))
}

fn suggestion(catalog: &Catalog, pattern: &str) -> Option<String> {
    let (group, kind) = pattern.split_once('/')?;
    if !group.contains('*') && !group.to_lowercase().ends_with(".azure.com") {
        return arm_type(catalog, pattern.split('@').next()?);
    }
    let groups: BTreeSet<&str> = catalog.kinds().map(|e| e.group.as_str()).collect();
    let known = groups.iter().any(|g| g.eq_ignore_ascii_case(group));
    let near_group = if known || group == "*" { group } else { nearest(group, groups)? };
    if kind == "*" {
        return Some(format!("{near_group}/*"));
    }
    let full = |entry: &KindEntry| format!("{}/{}", entry.group, entry.kind);
    let elsewhere = catalog.kinds().find(|e| e.kind.eq_ignore_ascii_case(kind));
    if group == "*" {
        let near = || nearest(kind, catalog.standard().map(|e| e.kind.as_str())).map(str::to_owned);
        return elsewhere.map(full).or_else(near);
    }
    let within = catalog.kinds().filter(|e| e.group.eq_ignore_ascii_case(near_group)).map(|e| e.kind.as_str());
    if let Some(near) = nearest(kind, within) {
        return Some(format!("{near_group}/{near}"));
    }
    let begun = || catalog.kinds().find(|e| kind.len() > 2 && e.kind.to_lowercase().starts_with(&kind.to_lowercase()));
    elsewhere.or_else(begun).map(full)
}

/// The ARM type that was meant: first its provider, then a type of that.
fn arm_type(catalog: &Catalog, text: &str) -> Option<String> {
    let provider_of = |arm_type: &str| arm_type.split('/').next().unwrap_or_default().to_lowercase();
    let types = || catalog.kinds().map(|e| e.arm_type.as_str());
    let providers: BTreeSet<String> = types().map(provider_of).collect();
    let provider = nearest(&provider_of(text), providers.iter().map(String::as_str))?;
    nearest(text, types().filter(|arm_type| provider_of(arm_type) == provider)).map(str::to_owned)
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
        assert_eq!(names(&["storageaccounts.storage.azure.com"]).unwrap(), ["storage.azure.com/StorageAccount"]);
        assert!(names(&[" ; "]).unwrap_err().to_string().contains("empty"));
        assert_eq!(
            names(&["app.azure.com/Job", "resources.azure.com"]).unwrap(),
            ["app.azure.com/Job", "resources.azure.com/ResourceGroup"]
        );
        assert_eq!(names(&["*"]).unwrap(), names(&[]).unwrap());
        assert_eq!(
            names(&["microsoft.automation/automationaccounts"]).unwrap(),
            ["automation.azure.com/AutomationAccount"]
        );
        assert_eq!(names(&["automation.azure.com"]).unwrap(), names(&["Microsoft.Automation"]).unwrap());
        assert_eq!(names(&["storage.azure.com/StorageAccount;app.azure.com/Job"]).unwrap().len(), 2);
    }

    #[test]
    fn what_matches_nothing_is_refused_with_what_was_meant() {
        for (pattern, meant) in [
            ("StorageAcount", "\"StorageAccount\""),
            ("storag.azure.com/*", "\"storage.azure.com/*\""),
            ("storage.azure.com/StorageAcount", "\"storage.azure.com/StorageAccount\""),
            ("storage.azure.com/ContainerApp", "\"app.azure.com/ContainerApp\""),
            ("AutomationAccount", "\"automation.azure.com/AutomationAccount\""),
            ("Microsoft.Workload/monitor", "\"Microsoft.Workloads/monitors\""),
            ("Microsoft.Automation/automationAcounts@2023-11-01", "\"Microsoft.Automation/automationAccounts\""),
        ] {
            let error = names(&["*", pattern]).unwrap_err().to_string();
            assert!(error.contains("no kind matches") && error.ends_with(&format!("did you mean {meant}?")), "{error}");
        }
        assert!(!names(&["qqqqqqqqqqqq/zzzzzzzzzzz"]).unwrap_err().to_string().contains("did you mean"));
    }
}
