//! Types outside of ASO's set live as its kinds do: at the api-version that the pattern names, and at the newest.

use std::process::ExitCode;

use anyhow::{Context as _, ensure};
use flotilla_armsim::Method;

use crate::sandbox::{Sandbox, in_group};
use crate::testbed::share;

const ACCOUNT_AND_VARIABLE: &str = "
apiVersion: automation.azure.com/v20231101
kind: AutomationAccount
metadata: {name: account}
spec: {location: westus2, owner: {name: $NS}, sku: {name: Basic}}
---
apiVersion: automation.azure.com/v20241023
kind: AutomationAccountsVariable
metadata: {name: variable}
spec: {owner: {name: account}, value: '1'}
";

#[test]
fn further_types_become_ready_and_go() -> ExitCode {
    share(async |testbed| {
        let sandbox = Sandbox::create(testbed, "further").await?;
        let objects = sandbox.create_ready(&in_group(ACCOUNT_AND_VARIABLE)).await?;
        let puts: Vec<_> = sandbox.calls()?.into_iter().filter(|call| call.method == Method::Put).collect();
        for (end, version) in [("automationAccounts/account", "2023-11-01"), ("variables/variable", "2024-10-23")] {
            let put = puts.iter().find(|put| put.path.ends_with(end)).with_context(|| format!("no PUT of {end}"))?;
            ensure!(put.api_version.as_deref() == Some(version), "{end} was put at {:?}", put.api_version);
        }
        sandbox.clear(&objects).await
    })
}
