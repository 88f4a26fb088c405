//! Why an object has no identity to be reconciled with.

use std::sync::Arc;

use flotilla_proto::kubernetes;
use flotilla_proto::names::CREDENTIAL_FROM;

use super::super::error::{Category, Retry, Severity};
use super::NAMESPACE_SECRET;

/// Why an object has no identity.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The Secret that the object or its namespace names does not exist.
    #[error("secret {namespace}/{name} does not exist")]
    NoSecret {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },

    /// The Secret lacks a key.
    #[error("secret {namespace}/{name} has no key {key}")]
    NoKey {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// The key that is missing or empty.
        key: &'static str,
    },

    /// The annotation does not name a Secret of the object's namespace.
    #[error("{name:?} is not the name of a secret in the object's namespace")]
    BadName {
        /// What the annotation says.
        name: String,
    },

    /// The Secret asks for something that cannot be done.
    #[error("secret {namespace}/{name}: {key} {problem}")]
    Unusable {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// The key.
        key: &'static str,
        /// What is wrong with it; never its value.
        problem: &'static str,
    },

    /// Neither the namespace nor the operator has a credential.
    #[error("neither namespace {namespace} nor the operator has a credential")]
    Nothing {
        /// Namespace of the object.
        namespace: String,
    },

    /// The API server did not let us read the Secret.
    #[error("failed to read secret {namespace}/{name}")]
    Unreadable {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// It refused, rather than failed to answer.
        forbidden: bool,
        /// Cause.
        #[source]
        source: Arc<kubernetes::Error>,
    },
}

impl Error {
    pub(super) fn unreadable(namespace: &str, name: &str, source: kube::Error) -> Self {
        let source = kubernetes::Error::from(source);
        let forbidden = source.is_forbidden();
        Self::Unreadable { namespace: namespace.to_owned(), name: name.to_owned(), forbidden, source: Arc::new(source) }
    }

    /// What kind of thing is wrong.
    pub fn category(&self) -> Category {
        match self {
            Self::NoSecret { .. } | Self::NoKey { .. } | Self::Nothing { .. } => Category::MissingDependency,
            Self::BadName { .. } | Self::Unusable { .. } => Category::Invalid,
            Self::Unreadable { forbidden: true, .. } => Category::Authorization,
            Self::Unreadable { .. } => Category::Transient,
        }
    }

    /// How bad it is: all of these may heal without a change to the object.
    pub fn severity(&self) -> Severity {
        Severity::Warning
    }

    /// When another try makes sense.
    pub fn retry(&self) -> Retry {
        Retry::Fast
    }

    /// The reason to put into a condition.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NoSecret { .. } | Self::NoKey { .. } | Self::BadName { .. } | Self::Nothing { .. } => {
                "SecretNotFound"
            }
            Self::Unusable { .. } => "InvalidCredential",
            Self::Unreadable { .. } => "SecretUnreadable",
        }
    }

    /// The Secret to wait for, as namespace and name.
    pub fn secret(&self) -> Option<(&str, &str)> {
        match self {
            Self::NoSecret { namespace, name }
            | Self::NoKey { namespace, name, .. }
            | Self::Unusable { namespace, name, .. }
            | Self::Unreadable { namespace, name, .. } => Some((namespace, name)),
            Self::Nothing { namespace } => Some((namespace, NAMESPACE_SECRET)),
            Self::BadName { .. } => None,
        }
    }

    /// The cause and the next step, for a condition or an event.
    pub fn message(&self) -> String {
        let step = match self {
            Self::NoSecret { .. } => "create it; Flotilla picks it up automatically".to_owned(),
            Self::NoKey { .. } => "add the key; Flotilla picks it up automatically".to_owned(),
            Self::BadName { .. } => {
                format!("name a Secret of the object's own namespace in the annotation {CREDENTIAL_FROM}")
            }
            Self::Unusable { .. } => "correct the Secret; Flotilla picks it up automatically".to_owned(),
            Self::Nothing { namespace } => format!(
                "create Secret {namespace}/{NAMESPACE_SECRET} with AZURE_SUBSCRIPTION_ID, AZURE_TENANT_ID, AZURE_CLIENT_ID \
                 and AZURE_CLIENT_SECRET, or give the operator a credential"
            ),
            Self::Unreadable { forbidden: true, namespace, .. } => {
                format!("allow the worker's service account to get secrets in namespace {namespace}")
            }
            Self::Unreadable { .. } => "Flotilla retries automatically".to_owned(),
        };
        format!("{self}. Next: {step}.")
    }
}
