//! Who calls ARM, in which cloud, and with which tokens.

use std::fmt;
use std::sync::Arc;

use super::call::Verb;
pub use super::cloud::{Cloud, https};
use super::error::Context;
use super::token::Tokens;
use crate::budget::{BucketKey, Class};

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
    pub(crate) fn bucket(&self, region: &str, class: Class) -> BucketKey {
        BucketKey {
            cloud: self.cloud.name().into(),
            subscription: self.subscription.to_ascii_lowercase().into(),
            principal: self.client_id.to_ascii_lowercase().into(),
            region: region.into(),
            class,
        }
    }

    /// What an error says about the call it belongs to.
    pub(crate) fn context(&self, verb: Verb, path: &str) -> Context {
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
