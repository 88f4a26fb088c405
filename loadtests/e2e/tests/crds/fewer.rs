//! Fewer versions, over CRDs and objects that Azure Service Operator left: what is used stays, the rest goes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use flotilla_coordinator::Versions;
use flotilla_crds::{Catalog, Kind, Pattern};
use flotilla_proto::names::APPLIED;
use flotilla_testbed::cluster;
use flotilla_testbed::control_plane::{ControlPlane, Options};
use flotilla_worker::engine::Intent;
use http::{Method, Request};
use serde_json::{Value, json};

use super::api::{Api, Target, Write, object};
use super::leader::Leader;
use super::{leader_log, maximal};

const PATTERN: &str = "storage.azure.com/*";
/// The version that the objects of an old installation are stored in.
const OLD_STORAGE: &str = "v1api20210401storage";
/// A manager's version, in use from before.
const IN_USE: &str = "v1api20220901";
/// A version that is used in the moment in which it is dropped.
const RACED: &str = "v1api20210401";
/// A version that nobody uses.
const UNUSED: &str = "v1api20230101";

/// Two passes, the second 15 s after the first, on a machine that others use.
const WITHIN: Duration = Duration::from_mins(3);

/// The CRD as ASO has it: its label, a storage version of its own, and a conversion webhook, which is down.
fn asos(kind: &Kind) -> Value {
    let mut crd = kind.crd();
    crd["metadata"]["labels"]["app.kubernetes.io/name"] = json!("azure-service-operator");
    let webhook =
        json!({ "conversionReviewVersions": ["v1"], "clientConfig": { "url": "https://127.0.0.1:1/convert" } });
    crd["spec"]["conversion"] = json!({ "strategy": "Webhook", "webhook": webhook });
    for version in crd["spec"]["versions"].as_array_mut().unwrap() {
        if version["storage"] == true {
            version["name"] = json!(OLD_STORAGE);
        }
    }
    crd
}

/// An API server of its own, on which leaders install fewer versions of some kinds.
struct FewerVersions {
    control_plane: ControlPlane,
    api: Api,
    account: std::sync::Arc<Kind>,
}

impl FewerVersions {
    async fn start() -> Self {
        let control_plane = ControlPlane::start(Options::default()).await.unwrap();
        let api = Api::new(&control_plane, control_plane.namespace("fewer").await.unwrap());
        let account = Catalog::embedded().kind("storage.azure.com", "StorageAccount").unwrap();
        Self { control_plane, api, account }
    }

    fn leader(&self, versions: Versions) -> Leader<'_> {
        self.leader_with(versions, PATTERN)
    }

    fn leader_with<'a>(&'a self, versions: Versions, pattern: &'a str) -> Leader<'a> {
        Leader { control_plane: &self.control_plane, namespace: &self.api.namespace, pattern, versions }
    }

    /// Creates an object that was written through a version that is no longer served, and by a worker since.
    async fn leave_behind(&self, name: &str, raced: &str) {
        let newest = self.account.hub().unwrap().name();
        let api_version = self.account.version(raced).unwrap().api_version();
        let annotations = json!({ "annotations": { APPLIED: Intent::new(1, api_version, &json!({})).to_string() } });
        let left = object(self.at(name, newest), annotations, &self.spec(newest));
        self.api.write(self.at(name, newest), Write::Create, "flotilla", &left).await.unwrap();
    }

    fn at<'a>(&'a self, name: &'a str, version: &'a str) -> Target<'a> {
        Target { kind: &self.account, version, name }
    }

    /// What manifests of a version have.
    fn spec(&self, version: &str) -> Value {
        maximal::spec(&self.account.own_spec_schema(version).unwrap(), 0)
    }

    /// The versions of each kind that the API server serves.
    async fn served(&self) -> BTreeMap<String, BTreeSet<String>> {
        let mut served = cluster::served(&self.control_plane.client()).await.unwrap();
        served.retain(|name, _| name.ends_with(".storage.azure.com"));
        served
    }

    /// Waits until the API server serves these versions of storage accounts.
    async fn serves(&self, wanted: &[&str]) {
        let wanted: BTreeSet<String> = wanted.iter().map(|&name| name.to_owned()).collect();
        let deadline = Instant::now() + WITHIN;
        loop {
            let served = self.served().await.remove("storageaccounts.storage.azure.com").unwrap_or_default();
            if served == wanted {
                return;
            }
            assert!(Instant::now() < deadline, "{served:?} are served, not {wanted:?}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// The CRD of storage accounts.
    async fn crd(&self) -> Value {
        let crds = self.call(Method::GET, "", None).await;
        assert_eq!(crds["metadata"]["name"], "storageaccounts.storage.azure.com");
        crds
    }

    async fn call(&self, method: Method, subresource: &str, merge: Option<Value>) -> Value {
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/storageaccounts.storage.azure.com";
        let request = Request::builder().method(method).uri(format!("{path}{subresource}"));
        let request = request.header("content-type", "application/merge-patch+json");
        let body = merge.map(|merge| merge.to_string().into_bytes()).unwrap_or_default();
        self.control_plane.client().request(request.body(body).unwrap()).await.unwrap()
    }

    /// Waits for something in the CRD.
    async fn crd_that(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + WITHIN;
        loop {
            let crd = self.crd().await;
            if holds(&crd) {
                return crd;
            }
            assert!(Instant::now() < deadline, "{what}: {} {}", crd["metadata"]["annotations"], crd["status"]);
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
}

fn version<'a>(crd: &'a Value, name: &str) -> Option<&'a Value> {
    crd["spec"]["versions"].as_array()?.iter().find(|version| version["name"] == name)
}

#[tokio::test]
async fn newest_drops_no_version_that_is_used() {
    let cluster = FewerVersions::start().await;
    let (newest, storage) = (cluster.account.hub().unwrap().name(), cluster.account.entry().storage_version());
    cluster.api.install(&asos(&cluster.account)).await.unwrap();
    cluster
        .crd_that("ASO's CRD is established", |crd| super::installation::condition(crd, "Established") == Some("True"))
        .await;
    // Stored without a conversion, as ASO stores.
    let old = cluster.at("old", OLD_STORAGE);
    let old_spec = cluster.spec(RACED);
    cluster.api.create(old, &old_spec).await.unwrap();

    cluster
        .leader(Versions::Newest)
        .lead(async {
            // The webhook goes first, and nothing else with it.
            let crd = cluster.crd_that("the webhook goes", |crd| crd["spec"]["conversion"]["strategy"] == "None").await;
            assert!(
                [IN_USE, RACED, UNUSED].iter().all(|name| version(&crd, name).is_some_and(|v| v["served"] == true))
            );
            cluster.serves(&served_by(&crd)).await;
            let argo = object(cluster.at("argo", IN_USE), json!({}), &cluster.spec(IN_USE));
            cluster.api.write(cluster.at("argo", IN_USE), Write::Apply, "argocd-controller", &argo).await.unwrap();

            cluster.serves(&[IN_USE, newest, &storage]).await;
            let crd = cluster.crd().await;
            let kept = version(&crd, OLD_STORAGE).expect("objects are stored in it");
            assert_eq!((&kept["served"], &kept["storage"]), (&json!(false), &json!(false)));
            assert!(version(&crd, UNUSED).is_none() && version(&crd, RACED).is_none());
            assert_eq!(cluster.api.get(cluster.at("old", newest)).await["spec"], old_spec);
            let again = cluster.api.write(cluster.at("argo", IN_USE), Write::Apply, "argocd-controller", &argo).await;
            assert!(again.is_ok(), "{}", again.unwrap_err());

            // As if written through the dropped version a moment ago, and by a worker since.
            cluster.leave_behind("raced", RACED).await;
            cluster.serves(&[RACED, IN_USE, newest, &storage]).await;
        })
        .await;

    let pattern = Pattern::parse(PATTERN).unwrap();
    let mut served = cluster.served().await;
    served.remove("storageaccounts.storage.azure.com");
    assert_eq!(served.len() + 1, Catalog::embedded().matching(&pattern).count());
    assert!(served.values().all(|versions| versions.len() == 2), "{served:?}");

    // Nobody uses them any more, and all versions are wanted again.
    cluster.leader(Versions::All).lead(cluster.serves(&all_and(&cluster.account, &storage))).await;
}

#[tokio::test]
async fn old_storage_version_goes_when_nothing_is_stored_in_it() {
    let cluster = FewerVersions::start().await;
    cluster.api.install(&asos(&cluster.account)).await.unwrap();
    cluster
        .crd_that("ASO's CRD is established", |crd| super::installation::condition(crd, "Established") == Some("True"))
        .await;
    let spec = cluster.spec(RACED);
    cluster.api.create(cluster.at("old", OLD_STORAGE), &spec).await.unwrap();
    let storage = cluster.account.entry().storage_version();
    let ours = |crd: &Value| version(crd, &storage).is_some_and(|version| version["storage"] == true);
    cluster.leader(Versions::All).lead(cluster.crd_that("our CRD is there", ours)).await;
    let stored = |crd: &Value| crd["status"]["storedVersions"].clone();
    let both = cluster.crd_that("both are stored", |crd| stored(crd).as_array().is_some_and(|it| it.len() == 2)).await;
    assert!(version(&both, OLD_STORAGE).is_some());

    // As docs/guides/install_crds.md says: a patch without a change stores an object anew.
    let newest = cluster.account.hub().unwrap().name();
    cluster.serves(&all_and(&cluster.account, &storage)).await;
    let before = cluster.api.get(cluster.at("old", newest)).await;
    let after = cluster.api.merge(cluster.at("old", newest), &json!({})).await.unwrap();
    assert_ne!(before["metadata"]["resourceVersion"], after["metadata"]["resourceVersion"], "it was not stored anew");
    assert_eq!((&after["spec"], &after["metadata"]["generation"]), (&spec, &json!(1)));
    let once_more = cluster.api.merge(cluster.at("old", newest), &json!({})).await.unwrap();
    assert_eq!(
        once_more["metadata"]["resourceVersion"], after["metadata"]["resourceVersion"],
        "it is stored anew each time"
    );
    let only = json!({ "status": { "storedVersions": [storage] } });
    cluster.call(Method::PATCH, "/status", Some(only)).await;

    let gone = |crd: &Value| version(crd, OLD_STORAGE).is_none();
    let crd = cluster.leader(Versions::All).lead(cluster.crd_that("the old version goes", gone)).await;
    assert_eq!(stored(&crd), json!([storage]));
    assert_eq!(cluster.api.get(cluster.at("old", newest)).await["spec"], spec);
}

#[tokio::test]
async fn next_leader_looks_again_where_the_last_one_did_not() {
    let cluster = FewerVersions::start().await;
    let (newest, storage) = (cluster.account.hub().unwrap().name(), cluster.account.entry().storage_version());
    cluster.leader(Versions::Newest).lead(cluster.serves(&[newest, &storage])).await;

    cluster.leave_behind("raced", RACED).await;

    cluster.leader(Versions::Newest).lead(cluster.serves(&[RACED, newest, &storage])).await;
}

#[tokio::test]
async fn api_version_that_nobody_has_installs_nothing_and_changes_nothing() {
    let cluster = FewerVersions::start().await;
    let unknown = "Microsoft.Storage/storageAccounts@1999-01-01;storage.azure.com/StorageAccountsBlob*";
    let of = Catalog::embedded().matching(&Pattern::parse(unknown).unwrap()).count();
    let installs = async |before: usize| {
        let end = leader_log::next("Failed to install some CRDs", of, before, WITHIN).await;
        (end.number("installed"), end.number("failed"))
    };

    let before = leader_log::lines("Failed to install some CRDs", of).len();
    let end = cluster.leader_with(Versions::All, unknown).lead(installs(before)).await;
    assert_eq!(end, (of - 1, 1));
    assert!(!cluster.served().await.contains_key("storageaccounts.storage.azure.com"));

    let known = "storage.azure.com/StorageAccount";
    let (newest, storage) = (cluster.account.hub().unwrap().name(), cluster.account.entry().storage_version());
    cluster.leader_with(Versions::Newest, known).lead(cluster.serves(&[newest, &storage])).await;
    let is_there = cluster.crd().await;
    let before = leader_log::lines("Failed to install some CRDs", of).len();
    let end = cluster.leader_with(Versions::All, unknown).lead(installs(before)).await;
    assert_eq!(end, (of - 1, 1));
    assert_eq!(cluster.crd().await["metadata"]["resourceVersion"], is_there["metadata"]["resourceVersion"]);
}

fn served_by(crd: &Value) -> Vec<&str> {
    let versions = crd["spec"]["versions"].as_array().unwrap().iter();
    versions.filter(|version| version["served"] == true).map(|version| version["name"].as_str().unwrap()).collect()
}

fn all_and<'a>(kind: &'a Kind, storage: &'a str) -> Vec<&'a str> {
    kind.versions().iter().map(flotilla_crds::Version::name).chain([storage]).collect()
}
