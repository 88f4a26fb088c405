//! A resource whose name is in a ConfigMap: its object says what it waits for, and the PUT goes to the name found.

use std::process::ExitCode;

use anyhow::{Context as _, ensure};
use flotilla_armsim::Method;

use crate::sandbox::{Sandbox, in_group};
use crate::testbed::share;

const NAME: &str = "11111111-2222-4333-8444-555555555555";

const SERVER_AND_ADMINISTRATOR: &str = "
apiVersion: dbforpostgresql.azure.com/v1api20240801
kind: FlexibleServer
metadata: {name: $NS}
spec: {location: westus2, owner: {name: $NS}, version: '16', storage: {storageSizeGB: 32}}
---
apiVersion: dbforpostgresql.azure.com/v20250801
kind: FlexibleServersAdministrator
metadata: {name: administrator}
spec:
  owner: {name: $NS}
  azureNameFromConfig: {name: principals, key: administrator}
  principalType: User
  principalName: someone
  tenantId: 22222222-2222-4222-8222-222222222222
";

const PRINCIPALS: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: principals}
data: {administrator: 11111111-2222-4333-8444-555555555555}
";

#[test]
fn name_in_a_config_map_is_waited_for_and_used() -> ExitCode {
    share(async |testbed| {
        let sandbox = Sandbox::create(testbed, "named").await?;
        let objects = sandbox.read(&in_group(SERVER_AND_ADMINISTRATOR))?;
        sandbox.apply(&objects).await?;
        let administrator = objects.last().context("the manifest has objects")?;
        let waiting = sandbox.wait_reason(administrator, "ConfigMapNotFound").await?;
        for part in ["principals", "spec.azureNameFromConfig"] {
            ensure!(waiting.message.contains(part), "the condition does not name {part}: {}", waiting.message);
        }
        sandbox.apply(&sandbox.read(PRINCIPALS)?).await?;
        sandbox.wait_ready(&objects).await?;
        let puts: Vec<_> = sandbox.calls()?.into_iter().filter(|call| call.method == Method::Put).collect();
        let named: Vec<_> = puts.iter().filter(|put| put.path.contains("/administrators/")).collect();
        ensure!(!named.is_empty() && named.iter().all(|put| put.path.ends_with(NAME)), "sent {named:?}");
        sandbox.clear(&objects).await
    })
}
