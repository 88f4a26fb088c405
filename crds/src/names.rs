//! Naming rules: Kubernetes names from ARM's.

/// The Kubernetes version's ARM api-version: `v1api20230101preview` is `2023-01-01-preview`. None for other forms.
pub(crate) fn api_version(version: &str) -> Option<String> {
    let version = version.strip_suffix("storage").unwrap_or(version);
    let rest = version.strip_prefix("v1api").or_else(|| version.strip_prefix('v'))?;
    let (date, suffix) = rest.split_at_checked(8)?;
    if !date.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let dashed = format!("{}-{}-{}", &date[..4], &date[4..6], &date[6..]);
    match suffix {
        "" => Some(dashed),
        "preview" => Some(format!("{dashed}-preview")),
        _ => None,
    }
}

/// The name of a reference to the resource whose id ARM calls `name`.
pub(crate) fn reference(name: &str, many: bool) -> String {
    for suffix in ["Ids", "IDs", "ids"] {
        if let Some(stem) = name.strip_suffix(suffix) {
            return if stem.is_empty() { "references".to_owned() } else { format!("{stem}References") };
        }
    }
    if many {
        return format!("{name}References");
    }
    for suffix in ["Id", "ID", "id"] {
        if let Some(stem) = name.strip_suffix(suffix) {
            return if stem.is_empty() { "reference".to_owned() } else { format!("{stem}Reference") };
        }
    }
    format!("{name}Reference")
}

/// The name of a union's alternative: `OAuth2` is `oAuth2`, `AAD` is `aad`, `HDInsight` is `hdInsight`.
pub(crate) fn alternative(value: &str) -> String {
    let mut words = String::with_capacity(value.len());
    let mut upper = false;
    for c in value.chars() {
        if !c.is_ascii_alphanumeric() {
            upper = !words.is_empty();
        } else if upper {
            words.push(c.to_ascii_uppercase());
            upper = false;
        } else {
            words.push(c);
        }
    }
    let run = words.bytes().take_while(u8::is_ascii_uppercase).count();
    let next = words.as_bytes().get(run);
    let lowered = if run > 1 && next.is_some_and(u8::is_ascii_lowercase) { run - 1 } else { run };
    format!("{}{}", words[..lowered].to_ascii_lowercase(), &words[lowered..])
}

/// The plural of a kind, lower case.
pub(crate) fn plural(kind: &str) -> String {
    let lower = kind.to_ascii_lowercase();
    if lower.ends_with("redis") || lower.ends_with("settings") {
        return lower;
    }
    if let Some(stem) = lower.strip_suffix('y')
        && !stem.ends_with(['a', 'e', 'i', 'o', 'u'])
    {
        return format!("{stem}ies");
    }
    if ["s", "x", "sh", "ch"].iter().any(|end| lower.ends_with(end)) {
        return format!("{lower}es");
    }
    format!("{lower}s")
}

/// The kind for the segments of an ARM type below its provider: `automationAccounts/runbooks` is `AutomationAccountsRunbook`.
pub(crate) fn kind(segments: &str) -> String {
    let words: Vec<String> = segments.split('/').map(pascal).collect();
    match words.split_last() {
        Some((last, above)) => format!("{}{}", above.concat(), singular(last)),
        None => String::new(),
    }
}

fn pascal(segment: &str) -> String {
    let mut word = String::with_capacity(segment.len());
    let mut upper = true;
    for c in segment.chars() {
        if !c.is_ascii_alphanumeric() {
            upper = true;
        } else if std::mem::take(&mut upper) {
            word.push(c.to_ascii_uppercase());
        } else {
            word.push(c);
        }
    }
    word
}

/// One of what a word counts, as far as Azure's names go.
fn singular(word: &str) -> String {
    let lower = word.to_ascii_lowercase();
    let ends = |ends: &[&str]| ends.iter().any(|end| lower.ends_with(end));
    let cut = if ends(&["ies"]) && word.len() > 4 {
        return format!("{}y", &word[..word.len() - 3]);
    } else if ends(&["sses", "shes", "ches", "xes", "zes", "statuses"]) {
        2
    } else {
        usize::from(ends(&["s"]) && !ends(&["ss", "us", "sis", "settings", "redis"]))
    };
    word[..word.len() - cut].to_owned()
}

/// The Kubernetes version for an ARM api-version: `2023-01-01-preview` is `v20230101preview`.
pub(crate) fn version(api_version: &str) -> String {
    let compact: String = api_version.chars().filter(char::is_ascii_alphanumeric).collect();
    format!("v{}", compact.to_ascii_lowercase())
}

/// The Kubernetes group of an ARM provider.
pub(crate) fn group(provider: &str) -> String {
    let lower = provider.to_ascii_lowercase();
    format!("{}.azure.com", lower.strip_prefix("microsoft.").unwrap_or(&lower))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_name_their_api_version() {
        for (version, expected) in [
            ("v1api20230101", Some("2023-01-01")),
            ("v20250601", Some("2025-06-01")),
            ("v1api20220131preview", Some("2022-01-31-preview")),
            ("v1api20230101storage", Some("2023-01-01")),
            ("v1", None),
            ("v1beta20230101", None),
        ] {
            assert_eq!(api_version(version).as_deref(), expected, "{version}");
        }
    }

    #[test]
    fn references_drop_the_id() {
        for (name, many, expected) in [
            ("subnetId", false, "subnetReference"),
            ("id", false, "reference"),
            ("keyVault", false, "keyVaultReference"),
            ("targetResourceUri", false, "targetResourceUriReference"),
            ("scopes", true, "scopesReferences"),
            ("groupIds", true, "groupReferences"),
            ("proximityPlacementGroupID", false, "proximityPlacementGroupReference"),
        ] {
            assert_eq!(reference(name, many), expected);
        }
    }

    #[test]
    fn alternatives_are_camel_case() {
        for (value, expected) in [
            ("AAD", "aad"),
            ("OAuth2", "oAuth2"),
            ("HDInsight", "hdInsight"),
            ("ServiceBusQueue", "serviceBusQueue"),
            ("AzureKeyVault-x", "azureKeyVaultX"),
            ("#Microsoft.Foo", "microsoftFoo"),
        ] {
            assert_eq!(alternative(value), expected);
        }
    }

    #[test]
    fn kinds_join_the_segments() {
        for (segments, expected) in [
            ("workflows", "Workflow"),
            ("automationAccounts/runbooks/draft", "AutomationAccountsRunbooksDraft"),
            ("managedInstances/azureADOnlyAuthentications", "ManagedInstancesAzureADOnlyAuthentication"),
            ("capacities", "Capacity"),
            ("spaces/applications/businessProcesses", "SpacesApplicationsBusinessProcess"),
            ("servers/auditingSettings", "ServersAuditingSettings"),
            ("labs/$default", "LabsDefault"),
            ("redis", "Redis"),
        ] {
            assert_eq!(kind(segments), expected, "{segments}");
        }
    }

    #[test]
    fn versions_are_api_versions_without_dashes() {
        assert_eq!(version("2025-01-01"), "v20250101");
        assert_eq!(api_version(&version("2025-01-01-preview")).as_deref(), Some("2025-01-01-preview"));
    }

    #[test]
    fn plurals() {
        for (kind, expected) in [
            ("Registry", "registries"),
            ("Redis", "redis"),
            ("StorageAccount", "storageaccounts"),
            ("ApiPolicy", "apipolicies"),
            ("PublicIPAddress", "publicipaddresses"),
            ("NatGateway", "natgateways"),
        ] {
            assert_eq!(plural(kind), expected);
        }
    }
}
