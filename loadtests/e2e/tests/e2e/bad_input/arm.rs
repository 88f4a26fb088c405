//! ARM refuses, fails, or does not answer.

use std::process::ExitCode;

use anyhow::{Result, ensure};
use flotilla_armsim::{App, Entry, FaultAction, FaultMatch, FaultRule, Method};
use futures::future::BoxFuture;
use kube::api::DynamicObject;

use super::{Row, Setup, Verdict, good_credential, run};
use crate::sandbox::{GROUP, Sandbox, WITHIN};
use crate::testbed::{alone, share};

const NETWORK: &str = "
apiVersion: resources.azure.com/v1api20200601
kind: ResourceGroup
metadata: {name: $NS}
spec: {location: westus2}
---
apiVersion: network.azure.com/v1api20240301
kind: VirtualNetwork
metadata: {name: net}
spec: {location: westus2, owner: {name: $NS}, addressSpace: {addressPrefixes: [10.0.0.0/16]}}
";

/// So many failed polls show how the waits between them grow.
const POLLS: usize = 10;
/// A poll takes effect at ARM a little after the moment for which it was planned; in seconds of ARM's time.
const ROUNDING: f64 = 0.5;

/// Makes the subscription's calls with this method and path go wrong.
fn fault(sandbox: &Sandbox, method: Method, path: &str, action: FaultAction) -> Result<()> {
    let path = Some(format!("/subscriptions/{}{path}", sandbox.subscription));
    let matches = FaultMatch { method: Some(method), path, ..FaultMatch::default() };
    let rule = FaultRule { name: sandbox.namespace.clone(), matches, skip: 0, count: None, action };
    sandbox.testbed.azure.add_fault(rule)?;
    Ok(())
}

/// Removes the sandbox's faults.
fn calm_down<'a>(sandbox: &'a Sandbox, _: &'a App) -> BoxFuture<'a, Result<Vec<DynamicObject>>> {
    Box::pin(async {
        let azure = &sandbox.testbed.azure;
        for fault in azure.faults().iter().filter(|fault| fault.rule.name == sandbox.namespace) {
            azure.remove_fault(fault.id)?;
        }
        Ok(Vec::new())
    })
}

fn status(status: u16, code: &str, message: &str) -> FaultAction {
    FaultAction::Status { status, code: code.to_owned(), message: message.to_owned(), retry_after: None }
}

/// A setup with a good credential and one fault on the PUT of the group.
macro_rules! refusing {
    ($action:expr) => {
        |sandbox, app| {
            Box::pin(async move {
                good_credential(sandbox, app).await?;
                fault(sandbox, Method::Put, "/resourceGroups/*", $action)
            })
        }
    };
}

fn group(name: &'static str, setup: Setup, verdict: Verdict) -> Row {
    Row { name, yaml: GROUP, setup, held_up: 0, verdict, heal: calm_down }
}

const fn verdict(reason: &'static str, severity: &'static str, says: &'static [&'static str]) -> Verdict {
    Verdict { reason, severity, says }
}

#[test]
fn refusals_of_arm_are_explained_and_overcome() -> ExitCode {
    let rows = vec![
        group(
            "400 that may pass",
            refusing!(status(400, "InvalidParameter", "The tag is not to our taste.")),
            verdict("InvalidParameter", "Warning", &["not to our taste", "change the spec"]),
        ),
        group(
            "400 that is final",
            refusing!(status(400, "InvalidRequestContent", "The request content was invalid.")),
            verdict("InvalidRequestContent", "Error", &["content was invalid", "change the spec"]),
        ),
        group(
            "403",
            refusing!(status(403, "AuthorizationFailed", "The client does not have authorization to perform action.")),
            verdict("AuthorizationFailed", "Warning", &["does not have authorization", "grant", "role"]),
        ),
        group(
            "404",
            refusing!(status(404, "ParentResourceNotFound", "Failed to find the parent.")),
            verdict("ParentResourceNotFound", "Warning", &["failed to find the parent", "must exist"]),
        ),
        group(
            "409",
            refusing!(status(409, "AnotherOperationInProgress", "Another operation on this is in progress.")),
            verdict("AnotherOperationInProgress", "Warning", &["in progress", "must finish first"]),
        ),
        group(
            "429",
            refusing!(FaultAction::Status {
                status: 429,
                code: "TooManyRequests".to_owned(),
                message: "The request is being throttled.".to_owned(),
                retry_after: Some(60),
            }),
            verdict("TooManyRequests", "Warning", &["throttled", "fewer calls"]),
        ),
        group(
            "500",
            refusing!(status(500, "InternalServerError", "Encountered internal server error.")),
            verdict("InternalServerError", "Warning", &["internal server error", "Flotilla retries"]),
        ),
        group(
            "no answer",
            refusing!(FaultAction::Drop),
            verdict("AzureUnreachable", "Warning", &["check the endpoint"]),
        ),
    ];
    share(async |testbed| run(testbed, rows).await)
}

#[test]
fn failed_operations_are_explained_and_begun_again() -> ExitCode {
    let failing: Setup = |sandbox, app| {
        Box::pin(async move {
            good_credential(sandbox, app).await?;
            let (code, message) = ("NetworkProvisioningFailed".to_owned(), "The fabric has torn.".to_owned());
            fault(sandbox, Method::Put, "/*/virtualNetworks/*", FaultAction::FailOperation { code, message })
        })
    };
    let row = Row {
        name: "an operation that fails",
        yaml: NETWORK,
        setup: failing,
        held_up: 1,
        verdict: verdict("NetworkProvisioningFailed", "Warning", &["the fabric has torn", "Flotilla retries"]),
        heal: calm_down,
    };
    share(async |testbed| run(testbed, vec![row]).await)
}

#[test]
fn failed_polls_are_explained_and_never_lead_to_a_second_put() -> ExitCode {
    alone(async |testbed| {
        // A new owner of a shard polls at once. With one worker no shard moves, so all polls are planned by it.
        for other in ["worker-1", "worker-2"] {
            testbed.fleet().await.stop_member(other).await?;
        }
        let (sandbox, app) = Sandbox::with_app(testbed, "polls").await?;
        good_credential(&sandbox, &app).await?;
        let objects = sandbox.create_ready(GROUP).await?;
        fault(&sandbox, Method::Get, "/providers/*", status(503, "ServiceUnavailable", "The service is unavailable."))?;
        let network = sandbox.read(NETWORK)?.split_off(1);
        sandbox.apply(&network).await?;
        let ready = sandbox.wait_reason(&network[0], "ServiceUnavailable").await?;
        verdict("ServiceUnavailable", "Warning", &["unavailable", "Flotilla retries"]).check(&ready)?;
        let is_failed = |call: &Entry| call.fault.as_deref() == Some(sandbox.namespace.as_str());
        let enough = || {
            let polls = testbed.azure.calls().into_iter().filter(is_failed).map(|poll| poll.sim_seconds);
            let polls: Vec<f64> = polls.collect();
            Ok((polls.len() >= POLLS).then_some(polls))
        };
        let polls = sandbox.until("failed polls", WITHIN, enough).await?;
        // By ARM's own clock the waits grow from a second by half, to 30 s at the most.
        let mut wait = 1.0_f64;
        for pair in polls.windows(2) {
            let waited = pair[1] - pair[0];
            ensure!(waited >= wait - ROUNDING, "polled after {waited:.1} s instead of {wait:.1} s: {polls:?}");
            wait = (wait * 1.5).min(30.0);
        }
        calm_down(&sandbox, &app).await?;
        sandbox.cluster().wait_ready(&network, WITHIN).await?;
        let calls = sandbox.calls()?;
        let puts = calls.iter().filter(|call| call.method == Method::Put && call.path.contains("virtualNetworks"));
        let puts = puts.count();
        ensure!(puts == 1, "{puts} PUTs");
        sandbox.clear(&[objects, network].concat()).await
    })
}
