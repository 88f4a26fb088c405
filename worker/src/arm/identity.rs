//! Who calls ARM, in which cloud, and with which tokens.

use std::fmt;
use std::sync::Arc;

use azure_core::http::Url;

use super::call::Verb;
use super::error::{ConfigError, Context};
use super::token::Tokens;
use crate::budget::{BucketKey, Class};

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
    pub fn scope(&self) -> String {
        format!("{}/.default", self.audience)
    }

    /// Whether `url` leads to this cloud's ARM or to a regional host of it, so that our token may go there.
    pub fn owns(&self, url: &Url) -> bool {
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

/// Where a credential came from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// The operator's own settings.
    Global,
    /// A Secret.
    Secret {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Global => f.write_str("from the operator's settings"),
            Self::Secret { namespace, name } => write!(f, "from Secret {namespace}/{name}"),
        }
    }
}

/// Who calls ARM.
#[derive(Clone)]
pub struct Identity {
    /// Subscription that resources go to.
    pub subscription: String,
    /// Tenant of the caller.
    pub tenant: String,
    /// Client id of the caller.
    pub client_id: String,
    /// Cloud.
    pub cloud: Arc<Cloud>,
    /// Where the credential came from.
    pub origin: Origin,
    pub(super) tokens: Arc<Tokens>,
}

impl Identity {
    /// The bucket that pays for a call of `class` which reaches ARM in `region` (empty where unknown).
    pub fn bucket(&self, region: &str, class: Class) -> BucketKey {
        BucketKey {
            cloud: self.cloud.name().into(),
            subscription: self.subscription.to_ascii_lowercase().into(),
            principal: self.client_id.to_ascii_lowercase().into(),
            region: region.into(),
            class,
        }
    }

    /// What an error says about the call it belongs to.
    pub fn context(&self, verb: Verb, path: &str) -> Context {
        Context {
            verb: Some(verb),
            path: path.to_owned(),
            client_id: self.client_id.clone(),
            tenant: self.tenant.clone(),
            origin: self.origin.to_string(),
        }
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity")
            .field("subscription", &self.subscription)
            .field("tenant", &self.tenant)
            .field("client_id", &self.client_id)
            .field("origin", &self.origin)
            .finish_non_exhaustive()
    }
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
