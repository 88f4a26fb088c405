//! The Helm chart: Helm and a real API server accept it, what is committed is what it renders, and the rights and
//! certificates that it gives are enough for a fleet, and no more.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use flotilla_armsim::{Armsim, DEMO_CLIENT_ID, DEMO_CLIENT_SECRET, DEMO_SUBSCRIPTION, DEMO_TENANT};
use flotilla_testbed::chart;
use flotilla_testbed::cluster::{Cluster, parse, resource_of};
use flotilla_testbed::control_plane::ControlPlane;
use flotilla_testbed::control_plane::audit::Event as Call;
use flotilla_testbed::fleet::{Fleet, Settings};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams};
use kube::config::Kubeconfig;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

const CRD_PATTERN: &str = "resources.azure.com/*";
const WITHIN: Duration = Duration::from_mins(3);

/// Every switch that adds something, beyond what is rendered and committed.
const EVERYTHING: [&str; 5] = [
    "--values=values-ha.yaml",
    "--set=grafanaDashboards.enable=true,useWorkloadIdentityAuth=true,azureCASecret=ca,multitenant.enable=true",
    "--set=azureTargetNamespaces={chart-a,chart-b},otlpEndpoint=http://collector:4317,useJSONLogging=true",
    "--set=azureClientSecret=s3cret,azureSyncPeriod=1h30m,defaultReconcilePolicy=skip,crdPattern=*.azure.com/*,crdVersions=newest",
    "--set=priorityClassName=,serviceAccount.name=mine,allowMultiEnvManagement=true",
];

#[test]
fn linter_has_nothing_against_it() -> Result<()> {
    for args in [&[][..], &["--values=values-ha.yaml"], &EVERYTHING] {
        chart::lint(args)?;
    }
    Ok(())
}

#[test]
fn committed_output_is_what_it_renders() -> Result<()> {
    assert_eq!(chart::committed_groups()?, chart::api_groups(), "the list of API groups is old: run `make generate`");
    for (file, args) in chart::RENDERED {
        let committed = fs::read_to_string(chart::rendered().join(file))?;
        assert!(committed == chart::template_without_keys(args)?, "deploy/rendered/{file} is old: run `make generate`");
    }
    Ok(())
}

#[test]
fn typing_errors_and_bad_values_are_refused() {
    for (value, named) in [
        ("replicaCuont=3", "replicaCuont"),
        ("coordinator.replicas=3", "replicas"),
        ("image.pullPolicy=Sometimes", "pullPolicy"),
        ("azureSyncPeriod=hourly", "azureSyncPeriod"),
        ("azureResourceManagerEndpoint=http://arm", "azureResourceManagerEndpoint"),
        ("defaultReconcilePolicy=ignore", "defaultReconcilePolicy"),
        ("crdVersions=oldest", "crdVersions"),
        ("terminationGracePeriodSeconds=10", "terminationGracePeriodSeconds"),
        ("tls.workerSecret=mine", "set both or none"),
    ] {
        let error = chart::template(&["--set", value]).expect_err(value).to_string();
        assert!(error.contains(named), "{value}: {error}");
    }
}

#[test]
fn each_value_is_explained_and_in_the_schema() -> Result<()> {
    let text = fs::read_to_string(chart::path().join("values.yaml"))?;
    let schema: Value = serde_json::from_str(&fs::read_to_string(chart::path().join("values.schema.json"))?)?;
    let mut path: Vec<String> = Vec::new();
    let mut before = "";
    for line in text.lines() {
        let key = line.trim_start().split_once(':').map(|(key, _)| key.to_owned());
        let depth = (line.len() - line.trim_start().len()) / 2;
        if let Some(key) = key.filter(|key| !key.contains(['#', ' ', '-'])) {
            path.truncate(depth);
            path.push(key.clone());
            let pointer = format!("/properties/{}", path.join("/properties/"));
            let open = ["podSecurityContext", "securityContext", "requests", "limits", "labels", "nodeSelector"];
            let below = path.iter().rev().skip(1).any(|part| open.contains(&part.as_str()));
            if !below && !["requests", "limits"].contains(&key.as_str()) {
                ensure!(schema.pointer(&pointer).is_some(), "{} is not in the schema", path.join("."));
                let group = line.trim_end().ends_with(':');
                ensure!(group || before.trim_start().starts_with('#'), "{} has no comment", path.join("."));
            }
        }
        before = line;
    }
    Ok(())
}

/// What the house asks of every container.
#[test]
fn containers_have_no_rights_on_their_node() -> Result<()> {
    let deployments: Vec<Value> = objects(&[])?.into_iter().filter(|object| object["kind"] == "Deployment").collect();
    assert_eq!(deployments.len(), 2);
    for deployment in deployments {
        let pod = &deployment["spec"]["template"]["spec"];
        let container = &pod["containers"][0]["securityContext"];
        assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
        assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
        assert_eq!(container["readOnlyRootFilesystem"], true);
        assert_eq!(container["allowPrivilegeEscalation"], false);
        assert_eq!(container["capabilities"], json!({"drop": ["ALL"]}));
    }
    Ok(())
}

/// Only a worker reads single Secrets; nobody writes them, nobody has a wildcard group or verb.
#[test]
fn rights_are_few() -> Result<()> {
    let mut secrets = BTreeMap::new();
    for role in objects(&[])?.iter().filter(|object| object["kind"].as_str().is_some_and(|kind| kind.ends_with("Role")))
    {
        let name = role["metadata"]["name"].as_str().unwrap_or_default();
        for rule in role["rules"].as_array().into_iter().flatten() {
            let words = |key: &str| -> BTreeSet<String> {
                let list = rule[key].as_array().into_iter().flatten();
                list.filter_map(|word| word.as_str().map(str::to_owned)).collect()
            };
            ensure!(
                !words("verbs").contains("*") && !words("apiGroups").contains("*"),
                "{name} has a wildcard: {rule}"
            );
            if words("resources").contains("*") {
                ensure!(words("apiGroups").iter().all(|group| group.ends_with(".azure.com")), "{name}: {rule}");
                ensure!(!words("verbs").contains("delete") && !words("verbs").contains("create"), "{name}: {rule}");
            }
            if words("resources").contains("secrets") {
                secrets.insert(name.to_owned(), words("verbs").into_iter().collect::<Vec<_>>().join(","));
            }
        }
    }
    let expected = [("flotilla-coordinator", "list,watch"), ("flotilla-worker-references", "get")];
    assert_eq!(secrets, expected.map(|(name, verbs)| (name.to_owned(), verbs.to_owned())).into());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_api_server_accepts_everything() -> Result<()> {
    let client = ControlPlane::shared().await.client();
    for namespace in [chart::NAMESPACE, "chart-a", "chart-b"] {
        make_namespace(&client, namespace).await?;
    }
    for args in [&[][..], &["--values=values-ha.yaml"], &EVERYTHING] {
        let objects = parse(&chart::template(args)?)?;
        ensure!(objects.len() > 20, "only {} objects", objects.len());
        for object in &objects {
            let params = PatchParams {
                dry_run: true,
                field_validation: Some(kube::api::ValidationDirective::Strict),
                ..PatchParams::apply("helm")
            };
            apply(&client, object, &params).await?;
        }
    }
    Ok(())
}

/// The members act with the rights of the chart's service accounts and with the chart's certificates.
#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_lives_on_the_rights_and_certificates_it_gives() -> Result<()> {
    let control_plane = ControlPlane::shared().await;
    let client = control_plane.client();
    make_namespace(&client, chart::NAMESPACE).await?;
    let objects = parse(&chart::template(&[])?)?;
    let rights = ["ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"];
    for object in objects.iter().filter(|object| rights.contains(&kind(object))) {
        apply(&client, object, &PatchParams::apply("helm")).await?;
    }

    let dir = control_plane.directory().join("chart");
    fs::create_dir_all(&dir)?;
    let azure =
        Armsim::start(flotilla_armsim::Options { time_scale: 30.0, ..flotilla_armsim::Options::default() }).await?;
    let member = |role: &str| -> Result<Settings> {
        let mut settings = Settings::local(control_plane, &azure, &dir);
        chart::NAMESPACE.clone_into(&mut settings.namespace);
        CRD_PATTERN.clone_into(&mut settings.crd_pattern);
        settings.kubeconfig = kubeconfig_of(control_plane, role, &dir)?;
        settings.environment.extend(certificates_of(&objects, role, &dir)?);
        // Credentials come from the namespace, so that a Secret must be read.
        settings.environment.retain(|(name, _)| !name.starts_with("AZURE_CLIENT") && name != "AZURE_SUBSCRIPTION_ID");
        Ok(settings)
    };
    let mut coordinators = Fleet::start(client.clone(), member("coordinator")?, 2, 0).await?;
    let mut workers = Fleet::start(client.clone(), member("worker")?, 0, 2).await?;
    let outcome = run_through(control_plane, &mut workers).await;
    coordinators.check_running()?;
    workers.stop().await?;
    coordinators.stop().await?;
    let logs = logs(&dir)?;
    outcome.with_context(|| {
        logs.iter().fold(String::new(), |all, (name, log)| format!("{all}\n--- {name}\n{}", tail(log)))
    })?;
    let known: BTreeSet<String> = RARE.iter().map(|(right, _)| (*right).to_owned()).collect();
    let deadline = Instant::now() + WITHIN;
    loop {
        // Only members of this fleet call themselves so here: the control plane is this test program's.
        let mut calls = control_plane.audit_events()?;
        calls.retain(|call| call.user_agent.starts_with("flotilla/"));
        ensure!(calls.len() > 50, "only {} calls of members are in the audit log", calls.len());
        let refused: Vec<_> = calls.iter().filter(|call| [401, 403].contains(&call.response.code)).collect();
        ensure!(refused.is_empty(), "members were refused something: {refused:#?}");
        let roles = objects.iter().filter(|object| kind(object).ends_with("Role"));
        let unused: BTreeSet<String> = roles.flat_map(|role| unused(role, &calls)).collect();
        if unused == known {
            return Ok(());
        }
        // A watch is logged when it has ended, a moment after those who watched.
        ensure!(Instant::now() < deadline, "rights that nobody needed: {unused:#?}; those with a reason: {known:#?}");
        sleep(Duration::from_millis(200)).await;
    }
}

/// Rights that an object's ordinary life does not need, and who does.
const RARE: [(&str, &str); 9] = [
    ("flotilla-coordinator: create validatingadmissionpolicies", "asked for by the server when a patch creates"),
    ("flotilla-coordinator: create validatingadmissionpolicybindings", "the same"),
    ("flotilla-coordinator: get customresourcedefinitions", "upgrades, which look at the stored versions"),
    ("flotilla-coordinator: update customresourcedefinitions", "upgrades"),
    ("flotilla-coordinator: delete leases", "workers that died long ago"),
    ("flotilla-coordinator: list configmaps", "objects that wait for one"),
    ("flotilla-coordinator: watch configmaps", "the same"),
    ("flotilla-worker-references: get configmaps", "objects that refer to one"),
    ("flotilla-worker: update */finalizers", "servers with OwnerReferencesPermissionEnforcement"),
];

/// Rights of a role that none of these calls needed.
fn unused(role: &DynamicObject, calls: &[Call]) -> Vec<String> {
    let words = |list: &Value| -> Vec<String> {
        list.as_array().into_iter().flatten().filter_map(|word| word.as_str().map(str::to_owned)).collect()
    };
    let name = role.metadata.name.as_deref().unwrap_or_default();
    let member = if name.contains("coordinator") { "coordinator" } else { "worker" };
    let mut unused = Vec::new();
    for rule in role.data["rules"].as_array().into_iter().flatten() {
        let (groups, resources) = (words(&rule["apiGroups"]), words(&rule["resources"]));
        for verb in words(&rule["verbs"]) {
            for resource in &resources {
                let is_use = |call: &&Call| {
                    let object = call.object.clone().unwrap_or_default();
                    call.user_agent.contains(&format!(" {member}/"))
                        && call.verb == verb
                        && groups.contains(&object.api_group)
                        && (*resource == "*" || *resource == object.resource)
                };
                if !calls.iter().any(|call| is_use(&call)) {
                    unused.push(format!("{name}: {verb} {resource}"));
                }
            }
        }
    }
    unused
}

/// An object's whole life: a credential from a Secret, Ready, an event, deletion.
async fn run_through(control_plane: &ControlPlane, workers: &mut Fleet) -> Result<()> {
    let cluster = Cluster::new(control_plane.client());
    cluster.wait_kinds(CRD_PATTERN, WITHIN).await?;
    let namespace = control_plane.namespace("chart").await?;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "aso-credential", "namespace": namespace},
        "stringData": {
            "AZURE_SUBSCRIPTION_ID": DEMO_SUBSCRIPTION, "AZURE_TENANT_ID": DEMO_TENANT,
            "AZURE_CLIENT_ID": DEMO_CLIENT_ID, "AZURE_CLIENT_SECRET": DEMO_CLIENT_SECRET,
        },
    });
    let group = json!({
        "apiVersion": "resources.azure.com/v1api20200601", "kind": "ResourceGroup",
        "metadata": {"name": "rights", "namespace": namespace}, "spec": {"location": "westus2"},
    });
    let group: DynamicObject = serde_json::from_value(group)?;
    cluster.apply(&group).await?;
    // The credential comes late, so that the leader watches for it.
    cluster.wait_condition(&group, WITHIN, |ready| ready.status == "False").await?;
    cluster.apply(&serde_json::from_value(secret)?).await?;
    let groups = [group];
    cluster.wait_ready(&groups, WITHIN).await?;
    workers.check_running()?;
    let events: Api<Event> = Api::namespaced(control_plane.client(), &namespace);
    let deadline = Instant::now() + WITHIN;
    while events.list(&ListParams::default()).await?.items.is_empty() {
        ensure!(Instant::now() < deadline, "no event was written");
        sleep(Duration::from_millis(100)).await;
    }
    cluster.delete(&groups[0]).await?;
    cluster.wait_gone(&groups, WITHIN).await
}

/// A kubeconfig that acts as the service account of a role.
fn kubeconfig_of(control_plane: &ControlPlane, role: &str, dir: &Path) -> Result<PathBuf> {
    let mut config = Kubeconfig::read_from(control_plane.kubeconfig_path())?;
    let account = format!("system:serviceaccount:{}:flotilla-{role}", chart::NAMESPACE);
    for user in &mut config.auth_infos {
        if let Some(auth) = &mut user.auth_info {
            auth.impersonate = Some(account.clone());
        }
    }
    let path = dir.join(format!("{role}.kubeconfig"));
    // Secrets in it serialize to their values.
    fs::write(&path, serde_saphyr::to_string(&config)?)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
    Ok(path)
}

/// Writes the certificate of a role where its pod would find it, and the variables that say so.
fn certificates_of(objects: &[DynamicObject], role: &str, dir: &Path) -> Result<Vec<(String, String)>> {
    let name = format!("flotilla-{role}-tls");
    let is_it = |object: &&DynamicObject| object.metadata.name.as_ref() == Some(&name);
    let secret = objects.iter().find(is_it).with_context(|| format!("there is no Secret {name}"))?;
    let secret: k8s_openapi::api::core::v1::Secret = secret.clone().try_parse()?;
    let mut variables = Vec::new();
    for (key, variable) in [("tls.crt", "CERT"), ("tls.key", "KEY"), ("ca.crt", "CA")] {
        let data =
            secret.data.as_ref().and_then(|data| data.get(key)).with_context(|| format!("{name} has no {key}"))?;
        let path = dir.join(format!("{role}-{key}"));
        fs::write(&path, &data.0)?;
        variables.push((format!("FLOTILLA_TLS_{variable}"), path.to_string_lossy().into_owned()));
    }
    Ok(variables)
}

fn objects(args: &[&str]) -> Result<Vec<Value>> {
    let objects = parse(&chart::template(args)?)?;
    objects.iter().map(|object| Ok(serde_json::to_value(object)?)).collect()
}

fn kind(object: &DynamicObject) -> &str {
    object.types.as_ref().map_or("", |types| types.kind.as_str())
}

async fn make_namespace(client: &kube::Client, name: &str) -> Result<()> {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    let api: Api<Namespace> = Api::all(client.clone());
    api.patch(name, &PatchParams::apply("test"), &Patch::Apply(namespace)).await?;
    Ok(())
}

async fn apply(client: &kube::Client, object: &DynamicObject, params: &PatchParams) -> Result<()> {
    let resource = resource_of(object)?;
    let name = object.metadata.name.clone().unwrap_or_default();
    let api: Api<DynamicObject> = match &object.metadata.namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let answer = api.patch(&name, params, &Patch::Apply(object)).await;
    answer.with_context(|| format!("the API server refuses {} {name}", resource.kind))?;
    Ok(())
}

fn logs(dir: &Path) -> Result<Vec<(String, String)>> {
    let mut logs = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "log") {
            logs.push((path.display().to_string(), fs::read_to_string(&path)?));
        }
    }
    Ok(logs)
}

fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(30)..].join("\n")
}
