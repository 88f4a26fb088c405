//! The tools of the `flotilla` program against the simulated Azure and a real API server.
#![expect(clippy::unwrap_used, reason = "what fails in a test's helper fails the test")]

use std::path::PathBuf;
use std::process::Output;
use std::sync::Arc;
use std::time::Duration;

use flotilla_armsim::{
    Armsim, DEMO_CLIENT_ID, DEMO_CLIENT_SECRET, DEMO_SUBSCRIPTION, DEMO_TENANT, Method, Options, ResourceChange,
};
use flotilla_crds::Catalog;
use flotilla_testbed::control_plane::ControlPlane;
use flotilla_worker::arm::client::Options as ClientOptions;
use flotilla_worker::arm::credentials::{Own, Proof, Settings};
use flotilla_worker::arm::identity::Cloud;
use flotilla_worker::arm::{Call, Client};
use flotilla_worker::budget::Priority;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

const SCALE: f64 = 600.0;
const MANIFEST: &str = "
apiVersion: resources.azure.com/v1api20200601
kind: ResourceGroup
metadata: {name: harbour}
spec: {location: westus2}
---
apiVersion: managedidentity.azure.com/v1api20230131
kind: UserAssignedIdentity
metadata: {name: crew}
spec:
  location: West US 2
  owner: {name: harbour}
  operatorSpec:
    configMaps:
      principalId: {name: crew, key: principal}
---
apiVersion: authorization.azure.com/v1api20220401
kind: RoleAssignment
metadata: {name: reads}
spec:
  owner: {group: resources.azure.com, kind: ResourceGroup, name: harbour}
  principalIdFromConfig: {name: crew, key: principal}
  roleDefinitionReference:
    armId: /subscriptions/00000000-0000-0000-0000-000000000000/providers/Microsoft.Authorization/roleDefinitions/acdd72a7-3385-48ef-bd42-f606fba81ae7
---
apiVersion: storage.azure.com/v20250601
kind: StorageAccount
metadata: {name: harbourstore}
spec:
  location: westus2
  kind: StorageV2
  owner: {name: harbour}
  sku: {name: Standard_LRS}
  minimumTlsVersion: TLS1_2
  tags: {team: harbour}
";

/// Runs the program of the same build.
async fn flotilla(args: &[&str], environment: &[(String, String)]) -> (Option<i32>, String, String) {
    let here = std::env::current_exe().unwrap();
    let program: PathBuf = here.parent().and_then(|deps| deps.parent()).unwrap().join("flotilla");
    assert!(program.exists(), "{} is missing: run `cargo build -p flotilla` (`make build`)", program.display());
    let mut command = tokio::process::Command::new(program);
    command.args(args).env_clear().envs(environment.iter().cloned());
    let Output { status, stdout, stderr } = command.output().await.unwrap();
    (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

fn environment(sim: &Armsim) -> Vec<(String, String)> {
    let ca = sim.ca_pem_path().to_str().unwrap();
    let variables = [
        ("AZURE_SUBSCRIPTION_ID", DEMO_SUBSCRIPTION),
        ("AZURE_TENANT_ID", DEMO_TENANT),
        ("AZURE_CLIENT_ID", DEMO_CLIENT_ID),
        ("AZURE_CLIENT_SECRET", DEMO_CLIENT_SECRET),
        ("AZURE_RESOURCE_MANAGER_ENDPOINT", sim.endpoint()),
        ("AZURE_RESOURCE_MANAGER_AUDIENCE", sim.endpoint()),
        ("AZURE_AUTHORITY_HOST", sim.endpoint()),
        ("FLOTILLA_ARM_CA_FILE", ca),
        ("FLOTILLA_ARM_TIME_SCALE", "600"),
    ];
    variables.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
}

/// Sends the requests of a difference as a worker would.
async fn apply(sim: &Armsim, requests: &[Value]) {
    let options = ClientOptions { ca_file: Some(sim.ca_pem_path().to_owned()), ..ClientOptions::default() };
    let client = Client::new(&options).unwrap();
    let own = Own {
        subscription: DEMO_SUBSCRIPTION.to_owned(),
        tenant: DEMO_TENANT.to_owned(),
        client_id: DEMO_CLIENT_ID.to_owned(),
        proof: Proof::client_secret(DEMO_CLIENT_SECRET),
    };
    let cloud = Cloud::new(sim.endpoint(), sim.endpoint(), sim.endpoint()).unwrap();
    let identity = Settings::new(cloud, Some(own)).global(&client).unwrap();
    for request in requests {
        let (id, version) = request["url"].as_str().unwrap().split_once("?api-version=").unwrap();
        if !request["body"].to_string().contains("<known after apply>") {
            let put = Call::put(id, version, &request["body"], Priority::UserChange);
            client.send(&Arc::clone(&identity), put).await.unwrap();
        }
    }
}

async fn differences(file: &str, environment: &[(String, String)]) -> (Option<i32>, Vec<Value>) {
    let (code, out, err) = flotilla(&["plan", "--diff", "--exit-code", "-o", "json", "-f", file], environment).await;
    assert_eq!(err, "", "{out}");
    (code, serde_json::from_str(&out).unwrap())
}

#[tokio::test]
async fn difference_is_what_azure_lacks_or_has_otherwise() {
    let sim = Armsim::start(Options { time_scale: SCALE, ..Options::default() }).await.unwrap();
    let environment = environment(&sim);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.yaml");
    std::fs::write(&path, MANIFEST).unwrap();
    let file = path.to_str().unwrap();

    let (code, new) = differences(file, &environment).await;
    assert_eq!((code, new.len()), (Some(2), 4));
    assert!(new.iter().all(|request| request["change"]["kind"] == "create"), "{new:?}");
    // The first time round nobody knows the identity's principal; then Azure says it.
    apply(&sim, &new).await;
    let (_, role) = differences(file, &environment).await;
    let role: Vec<Value> = role.into_iter().filter(|r| r["object"] == "RoleAssignment/default/reads").collect();
    let principal = role[0]["body"]["properties"]["principalId"].as_str().unwrap();
    assert!(principal.len() == 36, "{principal}");
    apply(&sim, &role).await;
    let mut state = differences(file, &environment).await;
    for _ in 0..100 {
        if state.0 == Some(0) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        state = differences(file, &environment).await;
    }
    assert_eq!(state, (Some(0), Vec::new()), "what was applied differs");

    let account = new.iter().find(|r| r["object"] == "StorageAccount/default/harbourstore").unwrap();
    let id = account["url"].as_str().unwrap().split('?').next().unwrap().to_owned();
    let merge = json!({"properties": {"minimumTlsVersion": "TLS1_0"}, "tags": {"team": "pier", "more": "1"}});
    sim.control().change_resource(&ResourceChange { id, merge, provisioning_state: None }).unwrap();
    let (code, changed) = differences(file, &environment).await;
    assert_eq!((code, changed.len()), (Some(2), 1));
    assert_eq!(
        changed[0]["change"],
        json!({"kind": "update", "differences": [
            {"path": "properties.minimumTlsVersion", "azure": "TLS1_0", "stated": "TLS1_2"},
            {"path": "tags.team", "azure": "pier", "stated": "harbour"},
        ]})
    );
    let (_, text, _) = flotilla(&["plan", "--diff", "-f", file], &environment).await;
    assert!(text.contains("    tags.team: \"pier\" → \"harbour\"\n"), "{text}");
    assert!(text.ends_with("0 to create, 1 to update\n"), "{text}");
    let writes =
        sim.calls().iter().filter(|call| call.method != Method::Get && call.path.contains("/resourceGroups/")).count();
    assert_eq!(writes, 4, "a plan only reads: these are ours");
}

#[tokio::test]
async fn difference_without_a_right_credential_is_an_error() {
    let sim = Armsim::start(Options { time_scale: SCALE, ..Options::default() }).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.yaml");
    std::fs::write(&path, MANIFEST).unwrap();
    let args = ["plan", "--diff", "-f", path.to_str().unwrap()];
    let (code, out, err) = flotilla(&args, &[]).await;
    assert!(err.contains("--diff needs a credential: set AZURE_TENANT_ID"), "{err}");
    assert_eq!((code, out.as_str()), (Some(1), ""));
    let mut environment = environment(&sim);
    environment.iter_mut().find(|(name, _)| name == "AZURE_CLIENT_SECRET").unwrap().1 = "wrong-one".to_owned();
    let (code, _, err) = flotilla(&args, &environment).await;
    assert!(
        err.starts_with("error: failed to read ResourceGroup/default/harbour: ") && !err.contains("wrong-one"),
        "{err}"
    );
    assert_eq!(code, Some(1));
}

#[tokio::test]
async fn crds_of_a_cluster_are_compared() {
    let control_plane = ControlPlane::start(flotilla_testbed::control_plane::Options::default()).await.unwrap();
    let kubeconfig = control_plane.kubeconfig_path().to_str().unwrap().to_owned();
    let environment = [("KUBECONFIG".to_owned(), kubeconfig)];
    let args = ["crds", "diff", "--exit-code", "ResourceGroup", "app.azure.com/Job", "cache.azure.com/Redis"];
    let (code, out, err) = flotilla(&args, &environment).await;
    assert_eq!((code, err.as_str()), (Some(2), ""));
    assert!(out.ends_with("3 not installed, 0 different, 0 the same\n"), "{out}");

    let api: Api<CustomResourceDefinition> = Api::all(control_plane.client());
    for (group, kind) in
        [("resources.azure.com", "ResourceGroup"), ("app.azure.com", "Job"), ("cache.azure.com", "Redis")]
    {
        let crd = Catalog::embedded().kind(group, kind).unwrap().crd();
        api.create(&PostParams::default(), &serde_json::from_value(crd).unwrap()).await.unwrap();
    }
    let (code, out, _) = flotilla(&args, &environment).await;
    assert_eq!((code, out.as_str()), (Some(0), "0 not installed, 0 different, 3 the same\n"));

    let job = Catalog::embedded().kind("app.azure.com", "Job").unwrap();
    let mut changed = job.crd();
    let properties = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
    let version = changed["spec"]["versions"][0]["name"].as_str().unwrap().to_owned();
    changed.pointer_mut(properties).unwrap()["extra"] = json!({"type": "string"});
    api.patch("jobs.app.azure.com", &PatchParams::apply("test").force(), &Patch::Apply(changed)).await.unwrap();
    let (code, out, _) = flotilla(&args, &environment).await;
    let path = format!("versions[{version}].schema.openAPIV3Schema.properties.spec.properties.extra is new");
    assert!(code == Some(2) && out.contains(&path), "{out}");
    assert!(out.ends_with("0 not installed, 1 different, 2 the same\n"), "{out}");
}
