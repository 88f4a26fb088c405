//! What keeps an object from being ready: how its condition says so, and when another try makes sense.
//!
//! A message says the cause, then "Next:" and the step where there is one for the user, then when Flotilla retries. The words of
//! the API server and of Azure stand in it as they came; debug output never does.

use std::sync::Arc;
use std::time::Duration;

use flotilla_proto::{GroupKind, kubernetes};
use serde_json::Value;

use super::condition::{Ready, Reason, Severity};
use super::object::Id;
use super::{names, retry};
use crate::arm::error::Retry;
use crate::arm::operation::Failure;
use crate::arm::{self, Category, Verb, credentials};

/// Something that keeps the object from being ready, and when to try again.
#[derive(Clone, Debug, PartialEq)]
pub struct Trouble {
    /// What the condition says.
    pub ready: Ready,
    /// What kind of thing is wrong; `None` if it is not an error of Azure or of the API server.
    pub category: Option<Category>,
    /// When another try makes sense.
    pub retry: Retry,
    /// Objects whose change would end it.
    pub waits_for: Vec<Id>,
}

impl Trouble {
    /// Trouble without a category that no other object's change ends.
    pub fn new(ready: Ready, retry: Retry) -> Self {
        Self { ready, category: None, retry, waits_for: Vec::new() }
    }

    /// The same, of this category.
    #[must_use]
    pub fn of(self, category: Category) -> Self {
        Self { category: Some(category), ..self }
    }

    /// The same, which a change of one of these objects may end.
    #[must_use]
    pub fn until(self, waits_for: Vec<Id>) -> Self {
        Self { waits_for, ..self }
    }

    /// The API server's or Azure's error, in its own words.
    fn coded(reason: &str, severity: Severity, message: String, category: Category, retry: Retry) -> Self {
        let ready = Ready { reason: Reason::Code(reason.to_owned()), severity, message: message.into() };
        Self::new(ready, retry).of(category)
    }

    /// The credential belongs to another subscription than the claimed resource.
    pub fn other_subscription(claimed: &str, credential: &str) -> Self {
        let message = format!(
            "The resource is in subscription {claimed}, but the credential belongs to subscription {credential}. Next: use a \
             credential of the resource's subscription, or delete the object and create it again."
        );
        Self::new(Ready::error(Reason::SubscriptionMismatch, message), Retry::UntilSpecChanges)
    }

    /// The spec names another resource than the one claimed.
    pub fn other_resource(claimed: &str, stated: &str) -> Self {
        let message = format!(
            "The spec names {stated}, but this object manages {claimed}. Next: change azureName and owner back, or delete the \
             object and create it again."
        );
        Self::new(Ready::error(Reason::Failed, message), Retry::UntilSpecChanges)
    }

    /// Policy `skip`, and the resource does not exist.
    pub fn nothing_to_observe(id: &str) -> Self {
        let message = format!(
            "The resource {id} does not exist in Azure, and the policy skip keeps Flotilla from creating it. Next: create it, or \
             set the policy to manage."
        );
        Self::new(Ready::warning(Reason::AzureResourceNotFound, message), Retry::Slow)
    }

    /// Azure does not support DELETE for the type.
    pub fn not_deletable(id: &str) -> Self {
        let message = format!(
            "Azure can't delete {id} on its own; it is deleted together with its parent. Next: delete the parent, or set the \
             annotation {}: detach-on-delete to remove this object now and keep the resource.",
            names::RECONCILE_POLICY
        );
        Self::new(Ready::warning(Reason::DeletionNotSupportedInAzure, message), Retry::VerySlow)
    }

    /// ARM asked all callers to wait.
    pub fn parked(wait: Duration) -> Self {
        let ready =
            Ready::reconciling("Azure limits the rate of requests. Flotilla sends this one as soon as Azure allows.");
        Self::new(ready, Retry::After(wait)).of(Category::Throttled)
    }

    /// A long-running operation failed.
    pub fn operation(id: &str, verb: Verb, failure: &Failure) -> Self {
        Self::failed(id, verb, &failure.code, &failure.message)
    }

    /// Azure accepted a PUT, and the resource's state now says that it failed.
    pub fn failed_state(body: &Value) -> Self {
        let id = body["id"].as_str().unwrap_or_default();
        let word = body["properties"]["provisioningState"].as_str().unwrap_or("Failed");
        Self::failed(id, Verb::Put, "ProvisioningFailed", &format!("the resource's state is {word}"))
    }

    fn failed(id: &str, verb: Verb, code: &str, message: &str) -> Self {
        let context = arm::error::Context { verb: Some(verb), path: id.to_owned(), ..arm::error::Context::default() };
        Self::from(&arm::Error::operation(context, code, message))
    }

    /// Azure has the resource as it should be, and the object can't hold what it shows.
    pub fn status_too_large(resync: Option<Duration>) -> Self {
        let retry = Retry::UntilSpecChanges;
        let message = format!(
            "Azure has the resource, but the object is too large to also hold its status. Next: make the spec smaller. {}",
            retry::words(retry, resync)
        );
        Self::new(Ready::error(Reason::Failed, message), retry)
    }
}

impl From<&arm::Error> for Trouble {
    fn from(error: &arm::Error) -> Self {
        Self::coded(error.reason(), error.severity(), error.message(), error.category(), error.retry())
    }
}

impl From<&credentials::Error> for Trouble {
    fn from(error: &credentials::Error) -> Self {
        let secret = error.secret().map(|(namespace, name)| core("Secret", namespace, name));
        Self::coded(error.reason(), error.severity(), error.message(), error.category(), error.retry())
            .until(secret.into_iter().collect())
    }
}

/// The name of an object of a core kind.
pub(crate) fn core(kind: &str, namespace: &str, name: &str) -> Id {
    Id { kind: Arc::new(GroupKind::new("", kind)), namespace: namespace.into(), name: name.into() }
}

/// Something is missing that another object brings.
pub(crate) fn missing(reason: Reason, message: &str, waits_for: Vec<Id>) -> Trouble {
    let message = format!("{message} {}", retry::words(Retry::Fast, None));
    Trouble::new(Ready::warning(reason, message), Retry::Fast).until(waits_for)
}

/// The spec can't be turned into a request until somebody changes it.
pub(crate) fn wrong_spec(message: &str, resync: Option<Duration>) -> Trouble {
    let message = format!("{message} {}", retry::words(Retry::UntilSpecChanges, resync));
    Trouble::new(Ready::error(Reason::Failed, message), Retry::UntilSpecChanges)
}

/// The API server did not give what we need; that passes.
pub(crate) fn api_server(what: &str, error: &kubernetes::Error) -> Trouble {
    let message = format!("Failed to read {what}: {error}. {}", retry::words(Retry::Fast, None));
    Trouble::new(Ready::warning(Reason::UnknownError, message), Retry::Fast).of(Category::Transient)
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn refused_read_of_a_secret_is_told_in_the_words_of_the_api_server() {
        let words = "secrets \"keys\" is forbidden: User \"flotilla\" cannot get resource \"secrets\" in the namespace \"shop\"";
        let status = Status::failure(words, "Forbidden").with_code(403).boxed();
        let error = kubernetes::Error::from(kube::Error::Api(status));
        let trouble = api_server(&core("Secret", "shop", "keys").to_string(), &error);
        let message = trouble.ready.message.into_owned();
        assert_eq!(message, format!("Failed to read Secret shop/keys: {words}. Flotilla checks again within 30 s."));
        assert!(!message.contains("Status") && !message.contains("Some("), "debug text: {message}");
        assert_eq!((trouble.category, trouble.retry), (Some(Category::Transient), Retry::Fast));
    }
}
