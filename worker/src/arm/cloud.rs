//! One Azure cloud: where ARM and Entra are, and where a token may go.

use azure_core::http::Url;

use super::error::ConfigError;

/// One Azure cloud: public, sovereign or private.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cloud {
    /// Where ARM is.
    pub endpoint: Url,
    /// What tokens are asked for.
    pub audience: String,
    /// Where Entra is.
    pub authority: Url,
}

impl Cloud {
    /// A cloud by its three URLs.
    ///
    /// Both hosts must be https: one gets secrets, the other tokens.
    pub fn new(endpoint: &str, audience: &str, authority: &str) -> Result<Self, ConfigError> {
        let https = |key: &'static str, text: &str| {
            https(text).ok_or_else(|| ConfigError::Value { key, value: text.to_owned(), wanted: "an https URL" })
        };
        Ok(Self {
            endpoint: https("AZURE_RESOURCE_MANAGER_ENDPOINT", endpoint)?,
            audience: audience.trim().to_owned(),
            authority: https("AZURE_AUTHORITY_HOST", authority)?,
        })
    }

    /// The public cloud.
    pub const PUBLIC: [&'static str; 3] =
        ["https://management.azure.com", "https://management.core.windows.net/", "https://login.microsoftonline.com"];

    /// Host of the ARM endpoint: the cloud's name in metrics and budgets.
    pub fn name(&self) -> &str {
        self.endpoint.host_str().unwrap_or_default()
    }

    /// The scope of a token for ARM. A slash at the end of the audience is part of it, so two of them are right.
    pub(crate) fn scope(&self) -> String {
        format!("{}/.default", self.audience)
    }

    /// Whether `url` leads to this cloud's ARM or to a regional host of it, so that our token may go there.
    pub(crate) fn owns(&self, url: &Url) -> bool {
        let (Some(ours), Some(theirs)) = (self.endpoint.host_str(), url.host_str()) else { return false };
        let regional =
            theirs.len().checked_sub(ours.len()).and_then(|at| theirs.get(at..).zip(theirs.get(..at))).is_some_and(
                |(tail, head)| tail.eq_ignore_ascii_case(ours) && (head.is_empty() || head.ends_with('.')),
            );
        url.scheme() == "https" && regional && url.port_or_known_default() == self.endpoint.port_or_known_default()
    }
}

/// The URL in `text`, if it is an https one with a host.
pub fn https(text: &str) -> Option<Url> {
    Url::parse(text.trim()).ok().filter(|url| url.scheme() == "https" && url.has_host())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_goes_to_regional_hosts_of_the_same_cloud_and_nowhere_else() {
        let [endpoint, audience, authority] = Cloud::PUBLIC;
        let cloud = Cloud::new(endpoint, audience, authority).unwrap();
        for (url, ours) in [
            ("https://management.azure.com/subscriptions/1", true),
            ("https://MANAGEMENT.azure.com:443/subscriptions/1", true),
            ("https://swedencentral.management.azure.com/x", true),
            ("https://evilmanagement.azure.com/x", false),
            ("https://management.azure.com.evil.example/x", false),
            ("https://user.cloudapp.azure.com/x", false),
            ("http://management.azure.com/x", false),
            ("https://management.azure.com:8443/x", false),
        ] {
            assert_eq!(cloud.owns(&Url::parse(url).unwrap()), ours, "{url}");
        }
    }

    #[test]
    fn plain_http_is_refused() {
        assert!(Cloud::new("http://arm.example", "a", "https://entra.example").is_err());
        assert!(Cloud::new("https://arm.example", "a", "entra.example").is_err());
    }
}
