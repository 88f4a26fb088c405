//! What the user can do next about an error.

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
            Retry::After(wait) => format!("Azure asks for fewer calls; Flotilla retries in {}", seconds(wait)),
            _ => "Azure asks for fewer calls; Flotilla retries automatically".to_owned(),
        },
        (Category::Busy, "CannotDeleteResource" | "InUseSubnetCannotBeDeleted" | "PublicIPAddressCannotBeDeleted") => {
            "delete the resource in Azure that still uses this one or is nested in it; Flotilla retries automatically"
                .to_owned()
        }
        (Category::Busy, "ResourceGroupBeingDeleted") => {
            "the resource group is being deleted; Flotilla retries until the deletion has ended".to_owned()
        }
        (Category::Busy, _) => "another operation must finish first; Flotilla retries automatically".to_owned(),
        (Category::Transient, _) => "Azure failed to answer; Flotilla retries automatically".to_owned(),
        (Category::Unreachable, _) => {
            "check the endpoint, DNS, proxy and network policies of the worker; Flotilla retries automatically"
                .to_owned()
        }
        (Category::NotFound, _) => "the resource does not exist in Azure; Flotilla retries automatically".to_owned(),
        (Category::MissingDependency, "PrincipalNotFound" | "InvalidPrincipalId" | "FailedIdentityOperation") => {
            "a new identity can take minutes to become known everywhere; Flotilla retries automatically".to_owned()
        }
        (Category::MissingDependency, _) => {
            "another resource must exist and be ready first; Flotilla retries automatically".to_owned()
        }
        (Category::NotRegistered, _) => match provider {
            Some(namespace) => format!(
                "the subscription must register {namespace}; Flotilla does so if {who} is allowed to, otherwise run: \
                 az provider register --namespace {namespace}"
            ),
            None => "register the resource provider in the subscription".to_owned(),
        },
        (Category::Authentication, _) => {
            format!("check the credential of {who}; Flotilla picks up a corrected one automatically")
        }
        (Category::Authorization, "SubscriptionNotFound") => {
            format!("check the subscription id, and that {who} has a role in it")
        }
        (Category::Authorization, "LinkedAuthorizationFailed") => {
            format!("grant {who} a role on the resource that this one refers to; Flotilla retries automatically")
        }
        (Category::Authorization, _) => format!(
            "grant {who} a role that allows this; a new role can take minutes to take effect, and Flotilla retries automatically"
        ),
        (Category::Quota, "SkuNotAvailable" | "RegionIsOfferRestricted") => {
            "choose another size or location, or ask Azure for access; Flotilla retries every sync period".to_owned()
        }
        (Category::Quota, _) => "ask Azure for more quota or free some; Flotilla retries automatically".to_owned(),
        (Category::Policy, "ScopeLocked") => "remove the lock; Flotilla retries every sync period".to_owned(),
        (Category::Policy, _) => "change the spec or the policy assignment; Flotilla retries automatically".to_owned(),
        (Category::Invalid, "NoRegisteredProviderFound") => {
            "choose one of the API versions and locations that Azure lists here".to_owned()
        }
        (Category::Invalid, _) if retry == Retry::UntilSpecChanges => {
            "change the spec; Flotilla retries then, and every sync period".to_owned()
        }
        (Category::Invalid, _) => "change the spec if it is wrong; Flotilla retries at growing intervals".to_owned(),
        (Category::Unknown, _) => "Flotilla retries automatically".to_owned(),
    }
}

/// A wait in words.
fn seconds(wait: Duration) -> String {
    let seconds = wait.as_secs_f64().ceil();
    if seconds >= 120.0 { format!("{:.0} min", (seconds / 60.0).ceil()) } else { format!("{seconds:.0} s") }
}
