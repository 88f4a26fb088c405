//! Objects that are none of ARM's say that nothing is done about them, and are released only where their policy says so.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::json;
use tokio::time::sleep;

use crate::sandbox::{Sandbox, WITHIN};
use crate::testbed::share;

/// The second one was made by another operator, whose finalizer it has.
const GROUPS: &str = "
apiVersion: entra.azure.com/v1
kind: SecurityGroup
metadata: {name: crew}
spec: {displayName: crew, mailNickname: crew}
---
apiVersion: entra.azure.com/v1
kind: SecurityGroup
metadata: {name: officers, finalizers: [serviceoperator.azure.com/finalizer]}
spec: {displayName: officers, mailNickname: officers}
";
/// Long enough for a worker to see a deletion and act on it.
const SEEN_AFTER: Duration = Duration::from_secs(3);

#[test]
fn groups_of_the_directory_say_that_they_are_not_supported() -> ExitCode {
    share(async |testbed| {
        let sandbox = Sandbox::create(testbed, "directory").await?;
        let objects = sandbox.read(GROUPS)?;
        sandbox.apply(&objects).await?;
        for object in &objects {
            let ready = sandbox.wait_reason(object, "NotSupported").await?;
            ensure!((ready.status.as_str(), ready.severity.as_str()) == ("False", "Error"), "the condition is {ready}");
            for words in ["SecurityGroup", "Microsoft Entra", "keep Azure Service Operator"] {
                ensure!(ready.message.contains(words), "the condition does not say {words:?}: {ready}");
            }
        }
        let [new, taken_over] = &objects[..] else { unreachable!("two objects are in the manifest") };
        ensure!(
            sandbox.get(new).await?.metadata.finalizers.is_none(),
            "an object that nothing is done about was claimed"
        );
        sandbox.cluster().delete(new).await?;
        sandbox.cluster().wait_gone(std::slice::from_ref(new), WITHIN).await?;

        // What another operator made is not forgotten, unless that is wanted.
        sandbox.cluster().delete(taken_over).await?;
        sleep(SEEN_AFTER).await;
        sandbox.get(taken_over).await.context("the finalizer of another operator was taken off")?;
        let policy =
            json!({"metadata": {"annotations": {"serviceoperator.azure.com/reconcile-policy": "detach-on-delete"}}});
        sandbox.cluster().patch(taken_over, &policy).await?;
        sandbox.cluster().wait_gone(std::slice::from_ref(taken_over), WITHIN).await
    })
}
