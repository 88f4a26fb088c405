//! The table that turns an error code into a verdict.
//!
//! A row names a provider (or any), a code and sometimes a status or a part of the message. Rows of one provider come
//! before those of all: the same code means different things in different places. What no row names is judged by its
//! HTTP status, and never given up for good.

use flotilla_proto::Severity;

use super::category::Category;
use super::fault::Fault;

/// When to retry, before the answer's own `Retry-After` counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    Fast,
    Slow,
    VerySlow,
    UntilSpecChanges,
}

/// What a row says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) category: Category,
    pub(super) pace: Pace,
    pub(super) severity: Severity,
}

struct Row {
    /// Beginning of the resource type, in any case; empty for all.
    resource_type: &'static str,
    /// Codes; empty for any.
    codes: &'static [&'static str],
    /// One of these must be in the message; empty for any.
    texts: &'static [&'static str],
    category: Category,
    pace: Pace,
}

const fn row(codes: &'static [&'static str], category: Category, pace: Pace) -> Row {
    Row { resource_type: "", codes, texts: &[], category, pace }
}

const fn of(resource_type: &'static str, codes: &'static [&'static str], category: Category, pace: Pace) -> Row {
    Row { resource_type, codes, texts: &[], category, pace }
}

const fn saying(
    resource_type: &'static str,
    codes: &'static [&'static str],
    texts: &'static [&'static str],
    category: Category,
    pace: Pace,
) -> Row {
    Row { resource_type, codes, texts, category, pace }
}

use Category as C;
use Pace as P;

const ROWS: &[Row] = &[
    // Of one provider.
    saying("Microsoft.Cache/redis", &["BadRequest"], &["linked server"], C::Busy, P::Slow),
    saying("Microsoft.Cdn/profiles/customDomains", &["BadRequest"], &["associated with"], C::Busy, P::Slow),
    saying("Microsoft.Cdn/profiles/afdEndpoints", &["BadRequest"], &["origin"], C::MissingDependency, P::Slow),
    saying("Microsoft.Cdn/profiles/ruleSets", &["BadRequest"], &["origin"], C::MissingDependency, P::Slow),
    saying(
        "Microsoft.Cdn/profiles/securityPolicies",
        &["BadRequest"],
        &["associat", "provisioning"],
        C::MissingDependency,
        P::Slow,
    ),
    saying("Microsoft.Compute/disks", &[], &["DiskAccess", "diskAccess"], C::MissingDependency, P::Slow),
    of("Microsoft.Compute/virtualMachine", &["OperationNotAllowed"], C::Busy, P::Slow),
    of("Microsoft.DocumentDB/databaseAccounts/mongodbDatabases", &["BadRequest"], C::Busy, P::Slow),
    of("Microsoft.DocumentDB/databaseAccounts/sqlDatabases", &["BadRequest"], C::Busy, P::Slow),
    saying("Microsoft.DocumentDB/cassandraClusters", &["BadRequest"], &["principal"], C::MissingDependency, P::Slow),
    saying("Microsoft.DocumentDB", &["ServiceUnavailable"], &["high demand"], C::Quota, P::UntilSpecChanges),
    saying("Microsoft.DocumentDB", &[], &["was not found in the AAD tenant"], C::MissingDependency, P::Slow),
    saying(
        "Microsoft.Insights/scheduledQueryRules",
        &[],
        &["does not exist", "insufficient access"],
        C::MissingDependency,
        P::Slow,
    ),
    saying("Microsoft.Network", &["NotFound", "BadRequest"], &["was not found"], C::MissingDependency, P::Slow),
    of("Microsoft.Sql/servers", &["PasswordNotComplex"], C::Invalid, P::UntilSpecChanges),
    of("Microsoft.ServiceBus", &["MessagingGatewayBadRequest"], C::Busy, P::Slow),
    of("Microsoft.ServiceBus", &["SubscriptionNotFound"], C::NotFound, P::Slow), // a topic's, not Azure's
    // Rates. The number is what some gateways give as code.
    row(
        &[
            "SubscriptionRequestsThrottled",
            "TooManyRequests",
            "Throttled",
            "RequestThrottled",
            "ResourceRequestsThrottled",
            "TenantRequestsThrottled",
            "SubscriptionTooManyCreateUpdateRequests",
            "SubscriptionTooManyRequests",
            "OperationPreempted",
            "429",
        ],
        C::Throttled,
        P::Slow,
    ),
    // Something else goes on. Some of these come as 429 though no rate is meant.
    row(
        &[
            "AnotherOperationInProgress",
            "Conflict",
            "CannotDeleteResource",
            "InUseSubnetCannotBeDeleted",
            "PublicIPAddressCannotBeDeleted",
            "ConflictingDatabaseOperation",
            "ConflictingServerOperation",
            "DeploymentActiveAndUneditable",
            "OperationNotAllowedOnResource",
            "ResourceGroupBeingDeleted",
            "RetryableError",
            "RetryableErrorDueToAnotherOperation",
            "ServerIsBusy",
            "ServerSecurityAlertPolicyInProgress",
            "OperationCancelled",
        ],
        C::Busy,
        P::Slow,
    ),
    row(&["PreconditionFailed", "ConcurrentWriteFailed"], C::Busy, P::Fast),
    // Another resource first.
    row(
        &[
            "FailedIdentityOperation",
            "InvalidResourceReference",
            "InvalidPrincipalId",
            "ParentResourceNotFound",
            "PrincipalNotFound",
            "ResourceGroupNotFound",
            "ManagedEnvironmentNotFound",
            "ManagedEnvironmentNotProvisioned",
            "StorageAccountIsNotProvisioned",
            "StorageProvisioningStateNotSucceeded",
            "ReferencedResourceNotProvisioned",
            "DependentResourceNotFound",
            "NetcfgSubnetRangeOutsideVnet",
            "AzfwAddToFirewallPolicyFailed",
            "NetworkSecurityGroupNotFoundForFlowLog",
            "CustomKubeletIdentityMissingPermissionError",
            "NodePoolMcVersionIncompatible",
            "VirtualEndpointOwnerServerNotInReadyState",
            "VulnerabilityAssessmentADSIsDisabled",
            "WorkspaceNotFound",
        ],
        C::MissingDependency,
        P::Slow,
    ),
    row(&["NotFound", "ResourceNotFound", "OperationNotFound"], C::NotFound, P::Slow),
    // The provider exists, but not in this version or location: registering it changes nothing.
    saying("", &["NoRegisteredProviderFound"], &["supported api-versions"], C::Invalid, P::Slow),
    row(
        &[
            "InvalidSubscriptionRegistrationState",
            "MissingRegistrationForLocation",
            "MissingSubscriptionRegistration",
            "NoRegisteredProviderFound",
            "SubscriptionNotRegistered",
        ],
        C::NotRegistered,
        P::Slow,
    ),
    // Who may.
    row(
        &[
            "AuthenticationFailed",
            "ExpiredAuthenticationToken",
            "InvalidAuthenticationToken",
            "InvalidAuthenticationTokenTenant",
        ],
        C::Authentication,
        P::Fast,
    ),
    row(&["AuthorizationFailed", "LinkedAuthorizationFailed"], C::Authorization, P::Slow),
    row(&["SubscriptionNotFound"], C::Authorization, P::VerySlow),
    row(&["RequestDisallowedByPolicy"], C::Policy, P::Slow),
    row(&["ScopeLocked"], C::Policy, P::VerySlow),
    // How much there is.
    row(&["AllocationFailed", "ResourceQuotaExceeded", "QuotaExceeded"], C::Quota, P::Slow),
    row(&["RegionIsOfferRestricted", "SkuNotAvailable"], C::Quota, P::VerySlow),
    // Wrong, perhaps.
    row(
        &[
            "BadRequest",
            "BadRequestFormat",
            "InvalidParameter",
            "InvalidParameterValue",
            "InvalidResourceGroupLocation",
            "MethodNotAllowed",
            "ReservedResourceName",
        ],
        C::Invalid,
        P::VerySlow,
    ),
    // Wrong, for sure.
    row(
        &[
            "InvalidGatewaySize",
            "InvalidGatewaySkuProvidedForGatewayVpnType",
            "InvalidRequestContent",
            "InvalidResourceType",
            "InvalidTemplate",
            "InvalidValuesForRequestParameters",
            "K8sVersionNotSupported",
            "LocationRequired",
            "MissingRequiredParameter",
            "PasswordTooLong",
            "PrivateIPAddressInReservedRange",
            "PrivateIPAddressNotInSubnet",
            "PropertyChangeNotAllowed",
            "PublicIpForGatewayIsRequired",
            "RequestContentTooLarge",
        ],
        C::Invalid,
        P::UntilSpecChanges,
    ),
    row(&["InternalServerError", "ServiceUnavailable", "ServerTimeout", "GatewayTimeout"], C::Transient, P::Fast),
];

/// Judges an error that came with `status` (0 for a failed operation) from a resource of `resource_type`.
pub(super) fn classify(resource_type: &str, status: u16, fault: &Fault) -> Verdict {
    let message = fault.text();
    let code = fault.code.as_deref().unwrap_or_default();
    // A rate limit may hide inside a 4xx, and a lock inside a 429: there the inner codes say more than the outer one.
    let inner = fault.codes().skip(1).find_map(|inner| {
        let found = find(resource_type, inner, &message)?;
        let outer_is_vague = matches!(code, "BadRequest" | "RetryableError" | "Conflict" | "");
        let told = found.category == Category::Throttled || (outer_is_vague && found.category != Category::Invalid);
        told.then_some(found)
    });
    let row = inner.or_else(|| find(resource_type, code, &message));
    let (category, pace) = row.map_or_else(|| by_status(status), |row| (row.category, row.pace));
    let severity = if pace == Pace::UntilSpecChanges { Severity::Error } else { Severity::Warning };
    Verdict { category, pace, severity }
}

fn find(resource_type: &str, code: &str, message: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| {
        let of_type = resource_type.get(..row.resource_type.len());
        of_type.is_some_and(|head| head.eq_ignore_ascii_case(row.resource_type))
            && (row.codes.is_empty() || row.codes.iter().any(|known| known.eq_ignore_ascii_case(code)))
            && (row.texts.is_empty() || row.texts.iter().any(|text| message.contains(text)))
    })
}

/// For codes that no row names.
fn by_status(status: u16) -> (Category, Pace) {
    match status {
        401 => (Category::Authentication, Pace::Fast),
        403 => (Category::Authorization, Pace::Slow),
        404 | 410 => (Category::NotFound, Pace::Slow),
        408 | 500..=599 => (Category::Transient, Pace::Fast),
        409 => (Category::Busy, Pace::Slow),
        412 => (Category::Busy, Pace::Fast),
        429 => (Category::Throttled, Pace::Slow),
        // Sometimes these pass: a sibling does not exist yet, or a proxy failed.
        400 | 405 | 422 => (Category::Invalid, Pace::VerySlow),
        _ => (Category::Unknown, Pace::Slow),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fault(code: &str, message: &str) -> Fault {
        Fault { code: Some(code.to_owned()), message: Some(message.to_owned()), inner: Vec::new() }
    }

    #[track_caller]
    fn verdict(resource_type: &str, status: u16, fault: &Fault, category: Category, pace: Pace) {
        let found = classify(resource_type, status, fault);
        assert_eq!((found.category, found.pace), (category, pace), "{resource_type} {status} {fault:?}");
    }

    #[test]
    fn same_code_means_another_thing_in_another_provider() {
        let refused = fault("OperationNotAllowed", "quota or conflict");
        verdict("Microsoft.Compute/virtualMachines", 409, &refused, C::Busy, P::Slow);
        let bad = fault("BadRequest", "nope");
        verdict("microsoft.documentdb/databaseaccounts/SQLDATABASES", 400, &bad, C::Busy, P::Slow);
        verdict("Microsoft.Storage/storageAccounts", 400, &bad, C::Invalid, P::VerySlow);
    }

    #[test]
    fn rate_limit_inside_a_bad_request_is_a_rate_limit() {
        let mut nested = fault("BadRequest", "failed");
        nested.inner.push(fault("TooManyRequests", "slow"));
        verdict("Microsoft.Insights/components", 400, &nested, C::Throttled, P::Slow);
    }

    #[test]
    fn lock_inside_a_429_is_no_rate_limit() {
        let mut lock = fault("RetryableError", "A retryable error occurred.");
        verdict("Microsoft.Network/natGateways", 429, &lock, C::Busy, P::Slow);
        lock.inner.push(fault("ReferencedResourceNotProvisioned", "ip is Updating"));
        verdict("Microsoft.Network/natGateways", 429, &lock, C::MissingDependency, P::Slow);
    }

    #[test]
    fn each_row_is_reached_and_only_errors_of_the_spec_are_severe() {
        let cases = ROWS.iter().flat_map(|row| {
            let codes = if row.codes.is_empty() { &["Any"] } else { row.codes };
            codes.iter().map(move |code| (row, *code))
        });
        for (row, code) in cases {
            let text = row.texts.first().copied().unwrap_or_default();
            let found = classify(row.resource_type, 400, &fault(code, text));
            assert_eq!((found.category, found.pace), (row.category, row.pace), "{code} is hidden by a row before it");
            assert_eq!(found.severity == Severity::Error, row.pace == Pace::UntilSpecChanges, "{code}");
        }
    }

    #[test]
    fn unknown_codes_are_judged_by_status() {
        for (status, category, pace) in [
            (400, C::Invalid, P::VerySlow),
            (401, C::Authentication, P::Fast),
            (403, C::Authorization, P::Slow),
            (404, C::NotFound, P::Slow),
            (405, C::Invalid, P::VerySlow),
            (409, C::Busy, P::Slow),
            (418, C::Unknown, P::Slow),
            (429, C::Throttled, P::Slow),
            (500, C::Transient, P::Fast),
            (504, C::Transient, P::Fast),
        ] {
            verdict("Microsoft.Foo/bars", status, &fault("NeverHeardOf", "x"), category, pace);
            verdict("", status, &Fault::default(), category, pace);
        }
    }

    proptest! {
        #[test]
        fn every_error_has_a_verdict(resource_type in "\\PC{0,30}", status in 0_u16..700, code in "\\PC{0,30}", text in "\\PC{0,30}") {
            classify(&resource_type, status, &fault(&code, &text));
        }
    }
}
