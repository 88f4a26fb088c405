//! Credentials that are missing or wrong.

use std::process::ExitCode;

use flotilla_armsim::App;

use super::{Row, Verdict, correct, run};
use crate::testbed::share;

const GROUP: &str = "
apiVersion: resources.azure.com/v1api20200601
kind: ResourceGroup
metadata: {name: $NS}
spec: {location: westus2}
";

const GROUP_WITH_OWN_CREDENTIAL: &str = "
apiVersion: resources.azure.com/v1api20200601
kind: ResourceGroup
metadata:
  name: $NS
  annotations: {serviceoperator.azure.com/credential-from: team-credential}
spec: {location: westus2}
";

#[test]
fn missing_and_wrong_credentials_are_explained_and_overcome() -> ExitCode {
    let rows = vec![
        Row {
            name: "wrong client secret",
            yaml: GROUP,
            setup: |sandbox, app| {
                Box::pin(async move {
                    let wrong = App { client_secret: format!("{}-outdated", app.client_secret), ..app.clone() };
                    sandbox.write_credential("aso-credential", &wrong).await
                })
            },
            held_up: 0,
            verdict: Verdict {
                reason: "AuthenticationFailed",
                severity: "Warning",
                says: &["AADSTS7000215", "check the credential", "aso-credential"],
            },
            heal: |sandbox, app| correct(sandbox, app, "aso-credential"),
        },
        Row {
            name: "missing credential",
            yaml: GROUP_WITH_OWN_CREDENTIAL,
            setup: |_, _| Box::pin(async { Ok(()) }),
            held_up: 0,
            verdict: Verdict { reason: "SecretNotFound", severity: "Warning", says: &["team-credential", "create it"] },
            heal: |sandbox, app| correct(sandbox, app, "team-credential"),
        },
        Row {
            name: "credential without a key",
            yaml: GROUP_WITH_OWN_CREDENTIAL,
            setup: |sandbox, app| {
                Box::pin(async move {
                    let lacking = App { tenant: String::new(), ..app.clone() };
                    sandbox.write_credential("team-credential", &lacking).await
                })
            },
            held_up: 0,
            verdict: Verdict {
                reason: "SecretNotFound",
                severity: "Warning",
                says: &["team-credential", "AZURE_TENANT_ID", "add the key"],
            },
            heal: |sandbox, app| correct(sandbox, app, "team-credential"),
        },
    ];
    share(async |testbed| run(testbed, rows).await)
}
