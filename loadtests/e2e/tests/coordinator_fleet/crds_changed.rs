//! CRDs that somebody else changed or brought: ours are put right, those of others are left alone.

use std::time::Duration;

use flotilla_crds::Pattern;
use flotilla_proto::names::HASH;
use flotilla_testbed::control_plane::{ControlPlane, Options};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition as Crd;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::members::{Member, begin, eventually};

/// Long beside what the tests wait for: only one that fails waits so long.
const SOON: Duration = Duration::from_mins(2);
const NAME: &str = "managedenvironments.app.azure.com";
const GENERATION: &str = "flotilla.dev/generation";

/// An API server of its own, whose CRDs the test changes: leaders of other tests would put them right.
struct ChangedCrds {
    cluster: ControlPlane,
    namespace: String,
}

impl ChangedCrds {
    async fn start() -> Self {
        begin();
        let cluster = ControlPlane::start(Options::default()).await.unwrap();
        let namespace = cluster.namespace("changed").await.unwrap();
        Self { cluster, namespace }
    }

    fn leader(&self, pattern: &str) -> Member {
        let pattern = Pattern::parse(pattern).unwrap();
        Member::start(&self.cluster, &self.namespace, "c", |config| config.crd_pattern = pattern)
    }

    fn crds(&self) -> Api<DynamicObject> {
        Api::all_with(self.cluster.client(), &ApiResource::erase::<Crd>(&()))
    }

    fn writes(&self) -> usize {
        let events = self.cluster.audit_events().unwrap();
        let about = |event: &&flotilla_testbed::control_plane::audit::Event| {
            event.is_write() && event.is_about("customresourcedefinitions", "", NAME)
        };
        events.iter().filter(about).count()
    }

    /// Leads until the CRD is as a leader leaves it, and a while longer.
    async fn puts_right(&self, spec: &Value) -> DynamicObject {
        let leader = self.leader("app.azure.com/ManagedEnvironment");
        let crds = self.crds();
        let crd = eventually("CRD is as it was", SOON, async || {
            let crd = crds.get(NAME).await.unwrap();
            let noted = crd.annotations().get(GENERATION).cloned();
            (crd.data["spec"] == *spec && noted == crd.metadata.generation.map(|it| it.to_string())).then_some(crd)
        })
        .await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        leader.stop().await;
        crd
    }

    /// Replaces the CRD as kubectl does: annotations stay. The API server may write the status meanwhile.
    async fn replace(&self, change: impl Fn(&mut DynamicObject)) {
        let post = PostParams { field_manager: Some("kubectl-replace".into()), ..PostParams::default() };
        let (before, after) = eventually("CRD is replaced", SOON, async || {
            let before = self.crds().get(NAME).await.unwrap();
            let mut crd = before.clone();
            change(&mut crd);
            match self.crds().replace(NAME, &post, &crd).await {
                Ok(after) => Some((before, after)),
                Err(kube::Error::Api(status)) if status.is_conflict() => None,
                Err(error) => panic!("{error}"),
            }
        })
        .await;
        assert_eq!(after.annotations(), before.annotations());
        assert!(after.annotations().contains_key(HASH) && after.annotations().contains_key(GENERATION));
        assert_ne!(after.metadata.generation, before.metadata.generation);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn crds_that_somebody_changed_are_put_right_by_the_next_leader() {
    let cluster = ChangedCrds::start().await;
    let leader = cluster.leader("app.azure.com/ManagedEnvironment");
    let crds = cluster.crds();
    let created = eventually("CRD is installed", SOON, async || crds.get_opt(NAME).await.unwrap()).await;
    leader.stop().await;
    let spec = created.data["spec"].clone();
    assert_eq!(created.annotations()[GENERATION], "1");
    assert_eq!(cluster.writes(), 1);

    // By hand: a version is turned off, columns and a field go.
    cluster
        .replace(|crd| {
            let versions = crd.data["spec"]["versions"].as_array_mut().unwrap();
            versions[0]["served"] = false.into();
            for version in versions {
                let columns = version["additionalPrinterColumns"].as_array_mut().unwrap();
                columns.pop().expect("there are columns");
                let fields = &mut version["schema"]["openAPIV3Schema"]["properties"];
                fields.as_object_mut().unwrap().remove("status").expect("there is a status");
            }
        })
        .await;
    let repaired = cluster.puts_right(&spec).await;
    assert_eq!((repaired.metadata.generation, cluster.writes()), (Some(3), 3));

    // By a Helm upgrade of ASO: its label and its webhook.
    cluster
        .replace(|crd| {
            crd.labels_mut().insert("app.kubernetes.io/name".into(), "azure-service-operator".into());
            let webhook =
                json!({ "conversionReviewVersions": ["v1"], "clientConfig": { "url": "https://127.0.0.1:1" } });
            crd.data["spec"]["conversion"] = json!({ "strategy": "Webhook", "webhook": webhook });
        })
        .await;
    let repaired = cluster.puts_right(&spec).await;
    assert_eq!(repaired.labels()["app.kubernetes.io/name"], "flotilla");
    assert_eq!((repaired.metadata.generation, cluster.writes()), (Some(5), 5));

    // Written by a Flotilla that noted no generation: one write, of metadata alone.
    let unnoted = json!({ "metadata": { "annotations": { GENERATION: null } } });
    crds.patch_metadata(NAME, &PatchParams::default(), &Patch::Merge(&unnoted)).await.unwrap();
    let noted = cluster.puts_right(&spec).await;
    assert_eq!((noted.metadata.generation, cluster.writes()), (Some(5), 7));

    let unchanged = cluster.puts_right(&spec).await;
    assert_eq!((unchanged.resource_version(), cluster.writes()), (noted.resource_version(), 7));
}

#[tokio::test(flavor = "multi_thread")]
async fn crds_of_somebody_else_are_left_alone() {
    let cluster = ChangedCrds::start().await;
    let schema = json!({ "type": "object", "properties": { "spec": { "type": "object", "properties": { "theirs": { "type": "string" } } } } });
    let theirs = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": NAME },
        "spec": {
            "group": "app.azure.com", "scope": "Namespaced",
            "names": { "kind": "ManagedEnvironment", "plural": "managedenvironments" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema } }],
        },
    });
    let crds = cluster.crds();
    crds.create(&PostParams::default(), &serde_json::from_value(theirs).unwrap()).await.unwrap();

    let leader = cluster.leader("app.azure.com/ManagedEnvironment;app.azure.com/ContainerApp");
    let other = "containerapps.app.azure.com";
    eventually("the other CRD is installed", SOON, async || crds.get_opt(other).await.unwrap()).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let left = crds.get(NAME).await.unwrap();
    assert_eq!((left.metadata.generation, cluster.writes()), (Some(1), 1), "nothing but its creation");
    assert!(!left.annotations().contains_key(HASH));

    // Nobody needs it: the next pass brings ours.
    crds.delete(NAME, &kube::api::DeleteParams::default()).await.unwrap();
    eventually("our CRD is installed", SOON, async || {
        let crd = crds.get_opt(NAME).await.unwrap()?;
        crd.annotations().contains_key(HASH).then_some(())
    })
    .await;
    leader.stop().await;
}
