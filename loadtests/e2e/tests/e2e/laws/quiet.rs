//! What does not change costs nothing, what changes costs little, and what drifts comes back.

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use flotilla_armsim::{Method, ResourceChange};
use flotilla_testbed::cluster::Named;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use crate::audit::{self, Writes};
use crate::sandbox::{Sandbox, WITHIN};
use crate::testbed::share;

const GROUP: &str = "
apiVersion: resources.azure.com/v1api20200601
kind: ResourceGroup
metadata: {name: $NS}
spec: {location: westus2, tags: {app: quiet}}
";

/// Resources whose PUT is done at once.
const IDENTITIES: &str = "
apiVersion: managedidentity.azure.com/v1api20230131
kind: UserAssignedIdentity
metadata: {name: id-a-$NS}
spec: {location: westus2, owner: {name: $NS}}
---
apiVersion: managedidentity.azure.com/v1api20230131
kind: UserAssignedIdentity
metadata: {name: id-b-$NS}
spec: {location: westus2, owner: {name: $NS}, tags: {app: quiet}}
";

/// Resources whose PUT begins a long-running operation.
const SLOW: &str = "
apiVersion: network.azure.com/v1api20240301
kind: VirtualNetwork
metadata: {name: vnet-$NS}
spec: {location: westus2, owner: {name: $NS}, addressSpace: {addressPrefixes: [10.0.0.0/16]}}
---
apiVersion: app.azure.com/v1api20250101
kind: ManagedEnvironment
metadata: {name: env-$NS}
spec: {location: westus2, owner: {name: $NS}, workloadProfiles: [{name: Consumption, workloadProfileType: Consumption}]}
";

#[test]
fn an_unchanged_object_costs_no_write_over_three_sync_periods() -> ExitCode {
    share(async |testbed| {
        let sandbox = Sandbox::create(testbed, "unchanged").await?;
        let objects = sandbox.create_ready(&format!("{GROUP}---{IDENTITIES}---{SLOW}")).await?;
        // An event follows the condition that it announces: it is the last write about an object.
        most(&sandbox, "at first", &objects).await?;
        let (calls_before, writes_before) = (sandbox.calls()?.len(), written(&sandbox)?);
        // Each resource is read once per period; the third read ends the third period.
        let read_thrice = || {
            let mut reads: BTreeMap<String, usize> = BTreeMap::new();
            for call in sandbox.calls()?.iter().skip(calls_before).filter(|call| call.method == Method::Get) {
                *reads.entry(call.path.to_lowercase()).or_default() += 1;
            }
            Ok((reads.values().filter(|reads| **reads >= 3).count() >= objects.len()).then_some(()))
        };
        sandbox.until("three reads of each resource", WITHIN, read_thrice).await?;
        let calls = sandbox.calls()?;
        let changes: Vec<_> = calls[calls_before..].iter().filter(|call| call.method != Method::Get).collect();
        ensure!(changes.is_empty(), "unchanged resources were written to: {changes:#?}");
        let writes = written(&sandbox)?;
        ensure!(
            writes.len() == writes_before.len(),
            "unchanged objects were written to: {:#?}",
            &writes[writes_before.len()..]
        );
        sandbox.clear(&objects).await
    })
}

/// What the fleet wrote in the sandbox's namespace.
fn written(sandbox: &Sandbox) -> Result<Vec<String>> {
    let writes = audit::of_the_fleet(sandbox.testbed)?;
    let here =
        writes.iter().filter(|event| event.object.as_ref().is_some_and(|object| object.namespace == sandbox.namespace));
    Ok(here.map(|event| format!("{event:?}")).collect())
}

#[test]
fn drift_is_corrected_with_one_put() -> ExitCode {
    share(async |testbed| {
        let sandbox = Sandbox::create(testbed, "drift").await?;
        let objects = sandbox.create_ready(GROUP).await?;
        let puts = || Ok::<_, anyhow::Error>(sandbox.calls()?.iter().filter(|call| call.method == Method::Put).count());
        let before = puts()?;
        let merge = json!({"tags": {"app": "noisy", "added-by": "a policy"}});
        sandbox.testbed.azure.change_resource(&ResourceChange {
            id: sandbox.group(),
            merge,
            provisioning_state: None,
        })?;
        let tag = || {
            let resource = sandbox.testbed.azure.resource(&sandbox.group());
            resource.and_then(|resource| resource.body.pointer("/tags/app").cloned()).unwrap_or(Value::Null)
        };
        sandbox.until("the stated tag in Azure again", WITHIN, || Ok((tag() == "quiet").then_some(()))).await?;
        let reads = sandbox.calls()?.len();
        // Two more reads show that the fleet is content.
        let more = || Ok((sandbox.calls()?.len() >= reads + 2).then_some(()));
        sandbox.until("two more reads of the resource", WITHIN, more).await?;
        ensure!(puts()? == before + 1, "{} PUTs corrected the drift", puts()? - before);
        sandbox.clear(&objects).await
    })
}

#[test]
fn creation_costs_few_writes_to_the_api_server() -> ExitCode {
    share(async |testbed| {
        let sandbox = Sandbox::create(testbed, "writes").await?;
        let mut all = sandbox.create_ready(GROUP).await?;
        let simple = sandbox.create_ready(IDENTITIES).await?;
        let slow = sandbox.create_ready(SLOW).await?;
        let plain = [all.clone(), simple.clone()].concat();
        let plain_most = most(&sandbox, "without a long-running operation", &plain).await?;
        let slow_most = most(&sandbox, "with a long-running operation", &slow).await?;
        ensure!(plain_most.object <= 3, "{} writes to an object without an operation", plain_most.object);
        ensure!(plain_most.events == 1, "{} events about an object without an operation", plain_most.events);
        ensure!(slow_most.object <= 5, "{} writes to an object with an operation", slow_most.object);
        ensure!(slow_most.events == 1, "{} events about an object with an operation", slow_most.events);
        all.extend(simple.into_iter().chain(slow));
        sandbox.clear(&all).await
    })
}

#[test]
fn creation_of_all_at_once_costs_one_write_more_for_those_that_wait() -> ExitCode {
    share(async |testbed| {
        let sandbox = Sandbox::create(testbed, "at-once").await?;
        let objects = sandbox.create_ready(&format!("{IDENTITIES}---{GROUP}")).await?;
        let most = most(&sandbox, "applied together with the owner", &objects).await?;
        ensure!(most.object <= 3, "{} writes to an object that waited for its owner", most.object);
        ensure!(most.events <= 2, "{} events about an object that waited for its owner", most.events);
        sandbox.clear(&objects).await
    })
}

/// The most that was written for one of the objects, once the last event has come.
async fn most(sandbox: &Sandbox, what: &str, objects: &[DynamicObject]) -> Result<Writes> {
    let count = || {
        let writes = audit::of_the_fleet(sandbox.testbed)?;
        objects.iter().map(|object| audit::count(&writes, object)).collect::<Result<Vec<_>>>()
    };
    // An event follows the condition that it tells of.
    let told = || Ok(count()?.iter().all(|writes| writes.events > 0).then_some(()));
    sandbox.until("an event about each object", WITHIN, told).await?;
    let counts = count()?;
    for (object, writes) in objects.iter().zip(&counts) {
        println!("{what}: {} took {} object writes and {} events", Named::of(object), writes.object, writes.events);
    }
    let of = |part: fn(&Writes) -> usize| counts.iter().map(part).max().unwrap_or_default();
    Ok(Writes { object: of(|writes| writes.object), events: of(|writes| writes.events) })
}
