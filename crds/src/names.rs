//! Naming rules: Kubernetes names from ARM's.

/// The Kubernetes version's ARM api-version: `v1api20230101preview` is `2023-01-01-preview`. None for other forms.
pub fn api_version(version: &str) -> Option<String> {
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
pub fn reference(name: &str, many: bool) -> String {
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
pub fn alternative(value: &str) -> String {
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
pub fn plural(kind: &str) -> String {
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

/// The Kubernetes group of an ARM provider.
pub fn group(provider: &str) -> String {
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
