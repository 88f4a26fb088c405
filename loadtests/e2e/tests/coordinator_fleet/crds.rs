//! What the leader does about kinds: installs their CRDs and finds their first objects.

use std::time::{Duration, Instant};

use flotilla_crds::{Catalog, Pattern};
use flotilla_proto::GroupKind;
use flotilla_proto::names::HASH;
use flotilla_testbed::cluster::Cluster;
use flotilla_testbed::control_plane::ControlPlane;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition as Crd;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use flotilla_testbed::control_plane::Options;

use crate::members::{Member, Worker, begin, eventually};

/// Long beside what the tests wait for: only one that fails waits so long.
const SOON: Duration = Duration::from_mins(2);

/// Waits until a CRD is served.
async fn established(cluster: &ControlPlane, name: &str) -> Crd {
    let crds: Api<Crd> = Api::all(cluster.client());
    eventually(&format!("{name} is served"), SOON, async || {
        let crd = crds.get_opt(name).await.unwrap()?;
        let conditions = crd.status.as_ref()?.conditions.clone().unwrap_or_default();
        conditions.iter().any(|it| it.type_ == "Established" && it.status == "True").then_some(crd)
    })
    .await
}

/// Applies a resource group as kubectl does.
async fn apply_resource_group(cluster: &ControlPlane, namespace: &str) {
    let gvk = GroupVersionKind::gvk("resources.azure.com", "v1api20200601", "ResourceGroup");
    let groups: Api<DynamicObject> =
        Api::namespaced_with(cluster.client(), namespace, &ApiResource::from_gvk_with_plural(&gvk, "resourcegroups"));
    let group = json!({
        "apiVersion": "resources.azure.com/v1api20200601", "kind": "ResourceGroup",
        "metadata": {"name": "rg"}, "spec": {"location": "westeurope"},
    });
    groups.patch("rg", &PatchParams::apply("kubectl"), &Patch::Apply(&group)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn first_object_of_a_kind_is_found_within_seconds() {
    begin();
    let cluster = ControlPlane::shared().await;
    let namespace = cluster.namespace("kinds").await.unwrap();
    let pattern = Pattern::parse("resources.azure.com/ResourceGroup").unwrap();
    let mut leader = Member::start(cluster, &namespace, "c", |config| config.crd_pattern = pattern);
    leader.leads(SOON).await;
    let worker = Worker::start(cluster, &namespace, "w", std::sync::Arc::default());
    eventually("worker joined", SOON, async || worker.owns_everything().then_some(())).await;
    established(cluster, "resourcegroups.resources.azure.com").await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(worker.told.lock().unwrap().kinds.is_empty(), "a kind without objects is not watched");

    let created = Instant::now();
    apply_resource_group(cluster, &namespace).await;
    let kind = GroupKind::new("resources.azure.com", "ResourceGroup");
    eventually("worker hears of the kind", SOON, async || {
        worker.told.lock().unwrap().kinds.contains(&kind).then_some(())
    })
    .await;
    eprintln!("first object of a kind was found after {:?}", created.elapsed());
    worker.stop().await;
    leader.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kinds_that_others_install_are_found_and_left_alone() {
    begin();
    // Alone, because kinds that other tests install would be seen, too.
    let cluster = ControlPlane::start(Options::default()).await.unwrap();
    let namespace = cluster.namespace("theirs").await.unwrap();
    let mut leader = Member::start(&cluster, &namespace, "c", |config| {
        config.manage_crds = false;
        config.crd_pattern = Pattern::parse("app.azure.com/*").unwrap();
    });
    leader.leads(SOON).await;
    let worker = Worker::start(&cluster, &namespace, "w", std::sync::Arc::default());
    eventually("worker joined", SOON, async || worker.owns_everything().then_some(())).await;

    let mut theirs = Catalog::embedded().kind("resources.azure.com", "ResourceGroup").unwrap().crd();
    theirs["metadata"]["annotations"] = json!({HASH: "old"});
    let crds: Api<DynamicObject> = Api::all_with(cluster.client(), &ApiResource::erase::<Crd>(&()));
    crds.create(&PostParams::default(), &serde_json::from_value(theirs).unwrap()).await.unwrap();
    established(&cluster, "resourcegroups.resources.azure.com").await;
    apply_resource_group(&cluster, &namespace).await;
    let kind = GroupKind::new("resources.azure.com", "ResourceGroup");
    eventually("worker hears of the kind", SOON * 2, async || {
        worker.told.lock().unwrap().kinds.contains(&kind).then_some(())
    })
    .await;

    let found = crds.list(&ListParams::default()).await.unwrap();
    assert_eq!(found.items.len(), 1, "nothing is installed");
    assert_eq!(found.items[0].annotations()[HASH], "old", "nor changed");
    worker.stop().await;
    leader.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn installed_crds_are_written_once() {
    begin();
    let cluster = ControlPlane::shared().await;
    let namespace = cluster.namespace("crds").await.unwrap();
    let name = "containerapps.app.azure.com";
    let install = || {
        let pattern = Pattern::parse("app.azure.com/ContainerApp").unwrap();
        Member::start(cluster, &namespace, "c", |config| config.crd_pattern = pattern)
    };
    let writes = |name: &str| {
        let events = cluster.audit_events().unwrap();
        let about =
            |resource| events.iter().filter(|event| event.is_write() && event.is_about(resource, "", name)).count();
        about("customresourcedefinitions") + about("validatingadmissionpolicies")
    };
    let first = install();
    established(cluster, name).await;
    eventually("policy is installed", SOON, async || (writes("flotilla.dev") > 0).then_some(())).await;
    first.stop().await;
    assert_eq!(writes(name), 1);

    let second = install();
    tokio::time::sleep(Duration::from_secs(4)).await;
    second.stop().await;
    assert_eq!(writes(name), 1, "an unchanged CRD costs no write");

    // Edited by hand, it is put right.
    let crds: Api<Crd> = Api::all(cluster.client());
    let edit = json!({"metadata": {"annotations": {HASH: "old"}}});
    crds.patch_metadata(name, &PatchParams::default(), &Patch::Merge(&edit)).await.unwrap();
    let third = install();
    eventually("CRD is written again", SOON, async || (writes(name) == 3).then_some(())).await;
    third.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn asos_crd_loses_its_webhook_and_keeps_what_is_stored() {
    begin();
    let cluster = ControlPlane::shared().await;
    let namespace = cluster.namespace("aso").await.unwrap();
    let name = "userassignedidentities.managedidentity.azure.com";
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let version = |name: &str, storage: bool| json!({"name": name, "served": true, "storage": storage, "schema": schema, "subresources": {"status": {}}});
    let asos: Value = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {
            "name": name,
            "labels": {"app.kubernetes.io/name": "azure-service-operator"},
            "annotations": {"cert-manager.io/inject-ca-from": "azureserviceoperator-system/serving-cert"},
        },
        "spec": {
            "group": "managedidentity.azure.com", "scope": "Namespaced",
            "names": {"kind": "UserAssignedIdentity", "listKind": "UserAssignedIdentityList",
                      "plural": "userassignedidentities", "singular": "userassignedidentity"},
            "conversion": {"strategy": "Webhook", "webhook": {
                "conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://127.0.0.1:1/convert"}}},
            "versions": [version("v1api20181130", false), version("v1beta20181130storage", true)],
        },
    });
    let crds: Api<Crd> = Api::all(cluster.client());
    let asos: Crd = serde_json::from_value(asos).unwrap();
    crds.create(&PostParams { field_manager: Some("helm".into()), ..PostParams::default() }, &asos).await.unwrap();
    established(cluster, name).await;

    // No pattern names it: being installed is enough.
    let leader = Member::start(cluster, &namespace, "c", |_| ());
    let crd = eventually("CRD is taken over", SOON, async || {
        let crd = crds.get(name).await.unwrap();
        crd.annotations().contains_key(HASH).then_some(crd)
    })
    .await;
    assert_eq!(crd.spec.conversion.as_ref().unwrap().strategy, "None");
    assert!(!crd.annotations().contains_key("cert-manager.io/inject-ca-from"));
    assert_eq!(crd.labels()["app.kubernetes.io/name"], "flotilla");
    let version = |name: &str| crd.spec.versions.iter().find(|version| version.name == name);
    let old = version("v1beta20181130storage").expect("objects may be stored in it");
    assert!(!old.served && !old.storage);
    assert!(version("v1api20230131").is_some_and(|version| version.served));
    leader.stop().await;
}

/// Figures for `docs/benchmarks.md`: `cargo test -p flotilla-e2e --test coordinator_fleet -- --ignored --nocapture`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes and measures rather than checks"]
async fn measure_all_kinds() {
    begin();
    let cluster = ControlPlane::start(Options::default()).await.unwrap();
    let namespace = cluster.namespace("all").await.unwrap();
    let install =
        || Member::start(&cluster, &namespace, "c", |config| config.crd_pattern = Pattern::parse("*").unwrap());
    let began = Instant::now();
    let leader = install();
    let kinds = Cluster::new(cluster.client()).wait_kinds("*", Duration::from_mins(10)).await.unwrap();
    eprintln!("installed {kinds} kinds in {:?}", began.elapsed());
    leader.stop().await;

    let cpu = || {
        let usage = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_SELF).unwrap();
        let time = |time: nix::sys::time::TimeVal| {
            Duration::from_secs(time.tv_sec().unsigned_abs()) + Duration::from_micros(time.tv_usec().unsigned_abs())
        };
        time(usage.user_time()) + time(usage.system_time())
    };
    let before = cpu();
    let began = Instant::now();
    let leader = install();
    tokio::time::sleep(Duration::from_secs(30)).await;
    eprintln!("CPU of a leader's first {:?} with all unchanged: {:?}", began.elapsed(), cpu().saturating_sub(before));
    let before = cpu();
    tokio::time::sleep(Duration::from_secs(30)).await;
    eprintln!("CPU of 30 s of an idle leader: {:?}", cpu().saturating_sub(before));
    let began = Instant::now();
    let request = http::Request::get("/metrics").body(Vec::new()).unwrap();
    let text = cluster.client().request_text(request).await.unwrap();
    eprintln!("the API server's metrics: {} bytes in {:?}", text.len(), began.elapsed());
    for name in ["apiserver_storage_objects{", "apiserver_resource_objects{", "apiserver_request_total{"] {
        eprintln!("  {name} {} lines", text.lines().filter(|line| line.starts_with(name)).count());
    }
    leader.stop().await;
}
