//! An object takes its own resource along when it goes, and no other: whatever users do to its annotations. What belongs to
//! somebody else stays.

use std::process::ExitCode;

use anyhow::{Result, ensure};
use flotilla_armsim::ResourceFilter;
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::json;

use crate::sandbox::{Sandbox, WITHIN, in_group, tag};
use crate::testbed::share;

const RESOURCE_ID: &str = "serviceoperator.azure.com/resource-id";

const GROUP_AND_IDENTITIES: &str = "
apiVersion: managedidentity.azure.com/v1api20230131
kind: UserAssignedIdentity
metadata: {name: one}
spec: {location: westus2, owner: {name: $NS}}
---
apiVersion: managedidentity.azure.com/v1api20230131
kind: UserAssignedIdentity
metadata: {name: two}
spec: {location: westus2, owner: {name: $NS}}
";

const NETWORK: &str = "
apiVersion: network.azure.com/v1api20240301
kind: VirtualNetwork
metadata: {name: net}
spec: {location: westus2, owner: {name: $NS}, addressSpace: {addressPrefixes: [10.0.0.0/16]}}
---
apiVersion: network.azure.com/v1api20240301
kind: VirtualNetworksSubnet
metadata: {name: front}
spec: {owner: {name: net}, addressPrefix: 10.0.1.0/24}
---
apiVersion: network.azure.com/v1api20240301
kind: VirtualNetworksSubnet
metadata: {name: back}
spec: {owner: {name: net}, addressPrefix: 10.0.2.0/24}
";

/// Names of the resources whose path has this part, sorted.
fn names(sandbox: &Sandbox, part: &str) -> Result<Vec<String>> {
    let filter = ResourceFilter { within: Some(sandbox.group()), ..ResourceFilter::default() };
    let resources = sandbox.testbed.azure.resources(&filter)?;
    let ids = resources.iter().map(|resource| resource.id.to_lowercase()).filter(|id| id.contains(part));
    let mut names: Vec<_> = ids.filter_map(|id| id.rsplit('/').next().map(str::to_owned)).collect();
    names.sort();
    Ok(names)
}

fn identities(sandbox: &Sandbox) -> Result<Vec<String>> {
    names(sandbox, "/userassignedidentities/")
}

async fn delete(sandbox: &Sandbox, object: &DynamicObject) -> Result<()> {
    sandbox.cluster().delete(object).await?;
    sandbox.cluster().wait_gone(std::slice::from_ref(object), WITHIN).await
}

#[test]
fn subnets_survive_a_change_of_their_network() -> ExitCode {
    share(async |testbed| {
        let sandbox = Sandbox::create(testbed, "subnets").await?;
        let objects = sandbox.create_ready(&in_group(NETWORK)).await?;
        for value in ["one", "two"] {
            sandbox.cluster().patch(&objects[1], &tag("app", value)).await?;
            sandbox.wait_ready(&objects).await?;
            let left = names(&sandbox, "/subnets/")?;
            ensure!(left == ["back", "front"], "after a change of the network's tags Azure has the subnets {left:?}");
        }
        sandbox.clear(&objects).await
    })
}

#[test]
fn copy_of_a_manifest_claims_its_own_resource_and_never_deletes_the_original() -> ExitCode {
    share(async |testbed| {
        let sandbox = Sandbox::create(testbed, "copied").await?;
        let objects = sandbox.create_ready(&in_group(GROUP_AND_IDENTITIES)).await?;
        let original = sandbox.get(&objects[1]).await?;
        let mut copy = objects[1].clone();
        copy.metadata.name = Some("copy".to_owned());
        copy.metadata.annotations.clone_from(&original.metadata.annotations);
        copy.metadata.finalizers.clone_from(&original.metadata.finalizers);
        sandbox.apply(std::slice::from_ref(&copy)).await?;
        sandbox.wait_ready(std::slice::from_ref(&copy)).await?;
        let made = identities(&sandbox)?;
        ensure!(made == ["copy", "one", "two"], "Azure has {made:?}");
        delete(&sandbox, &copy).await?;
        // Deleted before its first reconcile, it has nothing but the copied claim.
        sandbox.apply(std::slice::from_ref(&copy)).await?;
        delete(&sandbox, &copy).await?;
        let left = identities(&sandbox)?;
        ensure!(left == ["one", "two"], "after the copies went Azure has {left:?}");
        sandbox.clear(&objects).await
    })
}

#[test]
fn object_whose_claim_was_changed_or_removed_takes_its_own_resource_along() -> ExitCode {
    share(async |testbed| {
        let sandbox = Sandbox::create(testbed, "tampered").await?;
        let objects = sandbox.create_ready(&in_group(GROUP_AND_IDENTITIES)).await?;
        let others = sandbox.get(&objects[2]).await?.annotations()[RESOURCE_ID].clone();
        for id in [json!(others), json!("nonsense"), json!(""), json!(null)] {
            let tamper = json!({"metadata": {"annotations": {RESOURCE_ID: id}}});
            sandbox.cluster().patch(&objects[1], &tamper).await?;
            delete(&sandbox, &objects[1]).await?;
            let left = identities(&sandbox)?;
            ensure!(left == ["two"], "with resource-id {id} deleted, Azure has {left:?}");
            sandbox.apply(&objects[1..2]).await?;
            sandbox.wait_ready(&objects[1..2]).await?;
        }
        sandbox.clear(&objects).await
    })
}
