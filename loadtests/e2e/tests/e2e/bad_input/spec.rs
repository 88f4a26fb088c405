//! Specs that are wrong, or refer to what is not there.

use std::process::ExitCode;

use anyhow::{Context as _, Result, ensure};
use kube::api::DynamicObject;
use serde_json::json;

use super::{Row, Verdict, good_credential, run};
use crate::sandbox::{GROUP, Sandbox};
use crate::testbed::share;

const LONELY_IDENTITY: &str = "
apiVersion: managedidentity.azure.com/v1api20230131
kind: UserAssignedIdentity
metadata: {name: lonely}
spec: {location: westus2, owner: {name: $NS}}
";

const IDENTITY_IN_A_NETWORK: &str = "
apiVersion: resources.azure.com/v1api20200601
kind: ResourceGroup
metadata: {name: $NS}
spec: {location: westus2}
---
apiVersion: managedidentity.azure.com/v1api20230131
kind: UserAssignedIdentity
metadata: {name: stray}
spec:
  location: westus2
  owner: {armId: /subscriptions/33333333-3333-4333-8333-333333333333/resourceGroups/a/providers/Microsoft.Network/virtualNetworks/b}
";

const IMPOSSIBLE_NAME: &str = "
apiVersion: resources.azure.com/v1api20200601
kind: ResourceGroup
metadata: {name: $NS}
spec: {location: westus2, azureName: group/of/slashes}
";

const NAME_THAT_AZURE_REFUSES: &str = "
apiVersion: resources.azure.com/v1api20200601
kind: ResourceGroup
metadata: {name: $NS}
spec: {location: westus2, azureName: ends-with-a-dot.}
";

const APP_WITHOUT_ENVIRONMENT: &str = "
apiVersion: resources.azure.com/v1api20200601
kind: ResourceGroup
metadata: {name: $NS}
spec: {location: westus2}
---
apiVersion: app.azure.com/v1api20250101
kind: ContainerApp
metadata: {name: app}
spec:
  location: westus2
  owner: {name: $NS}
  environmentReference: {group: app.azure.com, kind: ManagedEnvironment, name: nowhere}
  template: {containers: [{name: app, image: nginx}]}
";

const THE_ENVIRONMENT: &str = "
apiVersion: app.azure.com/v1api20250101
kind: ManagedEnvironment
metadata: {name: nowhere}
spec: {location: westus2, owner: {name: $NS}, workloadProfiles: [{name: Consumption, workloadProfileType: Consumption}]}
";

/// Renames a group that Azure does not have.
async fn rename(sandbox: &Sandbox) -> Result<Vec<DynamicObject>> {
    let object = sandbox.read(GROUP)?.remove(0);
    sandbox.cluster().patch(&object, &json!({"spec": {"azureName": sandbox.namespace}})).await?;
    Ok(Vec::new())
}

/// Applies what was missing.
async fn add(sandbox: &Sandbox, yaml: &str) -> Result<Vec<DynamicObject>> {
    let objects = sandbox.read(yaml)?;
    sandbox.apply(&objects).await?;
    Ok(objects)
}

#[test]
fn wrong_specs_are_explained_and_overcome() -> ExitCode {
    let rows = vec![
        Row {
            name: "missing owner",
            yaml: LONELY_IDENTITY,
            setup: good_credential,
            held_up: 0,
            verdict: Verdict {
                reason: "WaitingForOwner",
                severity: "Warning",
                says: &["ResourceGroup", "does not exist"],
            },
            heal: |sandbox, _| Box::pin(add(sandbox, GROUP)),
        },
        Row {
            name: "wrong kind of owner",
            yaml: IDENTITY_IN_A_NETWORK,
            setup: good_credential,
            held_up: 1,
            verdict: Verdict { reason: "Failed", severity: "Error", says: &["virtualNetworks", "correct spec.owner"] },
            heal: |sandbox, _| {
                Box::pin(async {
                    let stray = sandbox.read(IDENTITY_IN_A_NETWORK)?.remove(1);
                    let owner = json!({"spec": {"owner": {"armId": null, "name": sandbox.namespace}}});
                    sandbox.cluster().patch(&stray, &owner).await?;
                    Ok(Vec::new())
                })
            },
        },
        Row {
            name: "missing reference",
            yaml: APP_WITHOUT_ENVIRONMENT,
            setup: good_credential,
            held_up: 1,
            verdict: Verdict {
                reason: "ReferenceNotFound",
                severity: "Warning",
                says: &["ManagedEnvironment nowhere", "environmentReference"],
            },
            heal: |sandbox, _| Box::pin(add(sandbox, THE_ENVIRONMENT)),
        },
        Row {
            name: "impossible name",
            yaml: IMPOSSIBLE_NAME,
            setup: good_credential,
            held_up: 0,
            verdict: Verdict { reason: "Failed", severity: "Error", says: &["azureName", "group/of/slashes"] },
            heal: |sandbox, _| Box::pin(rename(sandbox)),
        },
        Row {
            name: "name that Azure refuses",
            yaml: NAME_THAT_AZURE_REFUSES,
            setup: good_credential,
            held_up: 0,
            verdict: Verdict {
                reason: "InvalidResourceGroupName",
                severity: "Warning",
                says: &["ends-with-a-dot.", "change the spec"],
            },
            heal: |sandbox, _| Box::pin(rename(sandbox)),
        },
    ];
    share(async |testbed| run(testbed, rows).await)
}

#[test]
fn an_unknown_field_is_refused_by_the_api_server_and_named() -> ExitCode {
    share(async |testbed| {
        let sandbox = Sandbox::create(testbed, "typo").await?;
        let objects = sandbox.read(&GROUP.replace("location: westus2", "location: westus2, tagz: {a: b}"))?;
        let refusal = sandbox.apply(&objects).await.err().context("the API server took an unknown field")?;
        let message = format!("{refusal:#}");
        ensure!(message.contains("tagz"), "the refusal does not name the field: {message}");
        Ok(())
    })
}

#[test]
fn a_status_that_does_not_fit_beside_its_spec_is_explained() -> ExitCode {
    share(async |testbed| {
        let sandbox = Sandbox::create(testbed, "large").await?;
        let mut objects = sandbox.read(GROUP)?;
        let tags: serde_json::Map<_, _> =
            (0..900).map(|index| (format!("tag-{index}"), json!("v".repeat(1000)))).collect();
        objects[0].data["spec"]["tags"] = tags.into();
        sandbox.apply(&objects).await?;
        let ready = sandbox.wait_reason(&objects[0], "Failed").await?;
        ensure!(ready.message.contains("too large"), "the condition says {:?}", ready.message);
        sandbox.cluster().patch(&objects[0], &json!({"spec": {"tags": null}})).await?;
        sandbox.wait_ready(&objects).await?;
        sandbox.clear(&objects).await
    })
}
