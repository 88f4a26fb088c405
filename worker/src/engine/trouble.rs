//! What keeps an object from being ready, as conditions say it.

use std::sync::Arc;
use std::time::Duration;

use flotilla_proto::{GroupKind, kubernetes};

use super::condition::{Ready, Reason, Severity};
use super::memory::Trouble;
use super::object::Id;
use super::retry;
use crate::arm::error::Retry;
use crate::arm::{self, credentials};

impl From<arm::Severity> for Severity {
    fn from(severity: arm::Severity) -> Self {
        match severity {
            arm::Severity::Info => Severity::Info,
            arm::Severity::Warning => Severity::Warning,
            arm::Severity::Error => Severity::Error,
        }
    }
}

impl From<&arm::Error> for Trouble {
    fn from(error: &arm::Error) -> Self {
        Trouble {
            ready: Ready {
                reason: Reason::Code(error.reason().to_owned()),
                severity: error.severity().into(),
                message: error.message().into(),
            },
            category: Some(error.category()),
            retry: error.retry(),
            waits_for: Vec::new(),
        }
    }
}

impl From<&credentials::Error> for Trouble {
    fn from(error: &credentials::Error) -> Self {
        let secret = error.secret().map(|(namespace, name)| core("Secret", namespace, name));
        Trouble {
            ready: Ready {
                reason: Reason::Code(error.reason().to_owned()),
                severity: error.severity().into(),
                message: error.message().into(),
            },
            category: Some(error.category()),
            retry: error.retry(),
            waits_for: secret.into_iter().collect(),
        }
    }
}

/// The name of an object of a core kind.
pub fn core(kind: &str, namespace: &str, name: &str) -> Id {
    Id { kind: Arc::new(GroupKind::new("", kind)), namespace: namespace.into(), name: name.into() }
}

/// Something is missing that another object brings.
pub fn missing(reason: Reason, message: &str, waits_for: Vec<Id>) -> Trouble {
    let message = format!("{message} {}", retry::words(Retry::Fast, None));
    Trouble { ready: Ready::warning(reason, message), category: None, retry: Retry::Fast, waits_for }
}

/// The spec can't be turned into a request until somebody changes it.
pub fn wrong_spec(message: &str, resync: Option<Duration>) -> Trouble {
    let message = format!("{message} {}", retry::words(Retry::UntilSpecChanges, resync));
    Trouble {
        ready: Ready::error(Reason::Failed, message),
        category: None,
        retry: Retry::UntilSpecChanges,
        waits_for: Vec::new(),
    }
}

/// The API server did not give what we need; that passes.
pub fn api_server(what: &str, error: &kubernetes::Error) -> Trouble {
    let message = format!("Failed to read {what}: {error}. {}", retry::words(Retry::Fast, None));
    Trouble {
        ready: Ready::warning(Reason::UnknownError, message),
        category: Some(arm::Category::Transient),
        retry: Retry::Fast,
        waits_for: Vec::new(),
    }
}
