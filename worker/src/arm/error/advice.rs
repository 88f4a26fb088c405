//! What to tell people: the cause in a sentence, and what to do next.

use std::time::Duration;

use super::Context;
use super::category::{Category, Retry};

/// Says what the reader can do about an error.
pub(super) fn next_step(
    category: Category,
    code: &str,
    retry: Retry,
    context: &Context,
    provider: Option<&str>,
) -> String {
    let who = context.identity();
    match (category, code) {
        (Category::Throttled, _) => match retry {
            Retry::After(wait) => format!("Azure asks for fewer calls; tried again in {}", seconds(wait)),
            _ => "Azure asks for fewer calls; tried again by itself".to_owned(),
        },
        (Category::Busy, "CannotDeleteResource" | "InUseSubnetCannotBeDeleted" | "PublicIPAddressCannotBeDeleted") => {
            "something in Azure still uses or lies under it; tried again by itself, and done once that is deleted"
                .to_owned()
        }
        (Category::Busy, "ResourceGroupBeingDeleted") => {
            "its resource group is being deleted; tried again once that has ended".to_owned()
        }
        (Category::Busy, _) => "another operation has to end first; tried again by itself".to_owned(),
        (Category::Transient, _) => "Azure failed to answer; tried again by itself".to_owned(),
        (Category::Unreachable, _) => {
            "check the endpoint, DNS, proxy and network policies of the worker; tried again by itself".to_owned()
        }
        (Category::NotFound, _) => "it is not there in Azure; tried again by itself".to_owned(),
        (Category::MissingDependency, "PrincipalNotFound" | "InvalidPrincipalId" | "FailedIdentityOperation") => {
            "a new identity can take minutes to be known everywhere; tried again by itself".to_owned()
        }
        (Category::MissingDependency, _) => {
            "another resource has to be there and ready first; tried again by itself".to_owned()
        }
        (Category::NotRegistered, _) => match provider {
            Some(namespace) => format!(
                "the subscription has to register {namespace}; done by itself where {who} may, otherwise run: \
                 az provider register --namespace {namespace}"
            ),
            None => "the subscription has to register the resource provider".to_owned(),
        },
        (Category::Authentication, _) => {
            format!("check the credential of {who}; a corrected one is picked up by itself")
        }
        (Category::Authorization, "SubscriptionNotFound") => {
            format!("check the subscription id, and that {who} has a role in it")
        }
        (Category::Authorization, "LinkedAuthorizationFailed") => {
            format!("grant {who} a role on the resource that this one refers to; tried again by itself")
        }
        (Category::Authorization, _) => format!(
            "grant {who} a role that allows this; a new role can take minutes to show, and it is tried again by itself"
        ),
        (Category::Quota, "SkuNotAvailable" | "RegionIsOfferRestricted") => {
            "choose another size or location, or ask Azure for access; tried again each sync period".to_owned()
        }
        (Category::Quota, _) => "ask Azure for more quota or free some; tried again by itself".to_owned(),
        (Category::Policy, "ScopeLocked") => "remove the lock; tried again each sync period".to_owned(),
        (Category::Policy, _) => "change the spec or the policy assignment; tried again by itself".to_owned(),
        (Category::Invalid, "NoRegisteredProviderFound") => {
            "choose a version of the kind and a location that Azure lists here".to_owned()
        }
        (Category::Invalid, _) if retry == Retry::UntilSpecChanges => {
            "change the spec; it is tried again then, and each sync period".to_owned()
        }
        (Category::Invalid, _) => "change the spec if it is wrong; tried again more and more slowly".to_owned(),
        (Category::Unknown, _) => "tried again by itself".to_owned(),
    }
}

/// A wait for people.
fn seconds(wait: Duration) -> String {
    let seconds = wait.as_secs_f64().ceil();
    if seconds >= 120.0 { format!("{:.0} min", (seconds / 60.0).ceil()) } else { format!("{seconds:.0} s") }
}
