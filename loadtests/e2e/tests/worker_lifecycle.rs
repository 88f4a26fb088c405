//! A coordinator and a worker in this process, against a real API server and armsim: objects become Ready and go again, and
//! what that cost is counted from the audit log and from armsim's journal.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use flotilla_armsim::{Armsim, Method};
use flotilla_coordinator::Coordinator;
use flotilla_crds::Pattern;
use flotilla_testbed::cluster::{Cluster, Ready, parse};
use flotilla_testbed::control_plane::ControlPlane;
use flotilla_testbed::control_plane::audit::Event;
use flotilla_worker::arm::credentials::{Own, Proof, Settings};
use flotilla_worker::arm::identity::Cloud;
use flotilla_worker::arm::{TimeScale, client};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, ObjectMeta, PostParams};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

const PATTERN: &str = "resources.azure.com/*;managedidentity.azure.com/*;network.azure.com/VirtualNetwork*";
const SOON: Duration = Duration::from_mins(2);
/// Short, so that several periods pass within a test.
const SYNC_PERIOD: Duration = Duration::from_secs(2);

/// A coordinator and a worker as tasks of this process, with a real API server and armsim.
struct SmallFleet {
    control_plane: &'static ControlPlane,
    azure: Armsim,
    cluster: Cluster,
    namespace: String,
    stop: CancellationToken,
    members: Vec<JoinHandle<Result<()>>>,
}

impl SmallFleet {
    async fn start(name: &str, credential: Credential) -> Result<Self> {
        let _ = tracing_subscriber::fmt()
            .with_env_filter(std::env::var("FLOTILLA_TEST_LOG").unwrap_or_else(|_| "warn".into()))
            .with_test_writer()
            .try_init();
        let control_plane = ControlPlane::shared().await;
        let azure =
            Armsim::start(flotilla_armsim::Options { time_scale: 60.0, ..flotilla_armsim::Options::default() }).await?;
        let operator = control_plane.namespace(&format!("{name}-system")).await?;
        let namespace = control_plane.namespace(name).await?;
        let kube = control_plane.client_config().clone();
        let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let mut config = flotilla_coordinator::Config::new(kube.clone(), &operator, "coordinator-0", listen);
        config.crd_pattern = Pattern::parse(PATTERN)?;
        config.budget.time_scale = 60.0;
        if credential == Credential::OfTheNamespace {
            write_secret(control_plane, &namespace).await?;
        }
        let mut worker =
            flotilla_worker::Config::new(kube, &operator, "worker-0", arm(&azure), credentials(&azure, credential)?);
        worker.engine.resync = Some(SYNC_PERIOD);
        worker.engine.namespaces = vec![namespace.clone()];
        let stop = CancellationToken::new();
        let (coordinator_stop, worker_stop) = (stop.clone(), stop.clone());
        let coordinator = tokio::spawn(async move { Ok(Coordinator::new(config).run(coordinator_stop).await?) });
        let worker = tokio::spawn(flotilla_worker::run(worker, worker_stop));
        let cluster = Cluster::new(control_plane.client());
        cluster.wait_kinds(PATTERN, Duration::from_mins(1)).await?;
        Ok(Self { control_plane, azure, cluster, namespace, stop, members: vec![worker, coordinator] })
    }

    async fn stop(self) -> Result<()> {
        self.stop.cancel();
        for member in self.members {
            member.await??;
        }
        Ok(())
    }

    fn objects(&self, yaml: &str) -> Result<Vec<DynamicObject>> {
        let mut objects = parse(yaml)?;
        for object in &mut objects {
            object.metadata.namespace = Some(self.namespace.clone());
        }
        Ok(objects)
    }

    /// Writes to one object by us, by subresource, and events.
    fn writes(&self, resource: &str, name: &str) -> Result<Vec<String>> {
        let events = self.control_plane.audit_events()?;
        let ours =
            |event: &&Event| event.is_write() && event.is_about(resource, &self.namespace, name) && !by_test(event);
        Ok(events.iter().filter(ours).map(describe).collect())
    }

    fn all_writes(&self) -> Result<usize> {
        let events = self.control_plane.audit_events()?;
        let here = |event: &&Event| {
            event.is_write() && event.object.as_ref().is_some_and(|object| object.namespace == self.namespace)
        };
        Ok(events.iter().filter(here).count())
    }

    /// How many events there are about the namespace's objects.
    fn events(&self) -> Result<usize> {
        let events = self.control_plane.audit_events()?;
        let about_ours = |event: &&Event| {
            let object = event.object.as_ref();
            event.is_write() && object.is_some_and(|it| it.resource == "events" && it.namespace == self.namespace)
        };
        Ok(events.iter().filter(about_ours).count())
    }

    /// Waits until the condition holds; says what was missing if it does not in time.
    async fn until(&self, what: &str, holds: impl Fn() -> Result<bool>) -> Result<()> {
        let deadline = Instant::now() + SOON;
        while !holds()? {
            ensure!(Instant::now() < deadline, "not within {SOON:?}: {what}");
            sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    /// Waits until Azure was read this many times more.
    async fn until_read_again(&self, times: usize) -> Result<()> {
        let reads = || self.azure.calls().iter().filter(|call| call.method == Method::Get).count();
        let before = reads();
        self.until("further reads of the resource", || Ok(reads() >= before + times)).await
    }

    fn puts(&self) -> Vec<String> {
        let calls = self.azure.calls();
        calls.iter().filter(|call| call.method == Method::Put).map(|call| call.path.to_string()).collect()
    }
}

/// Applies are patches through the kubectl manager of this test; the worker's patches are merge patches, and the audit log
/// does not tell the two apart but by number: each test object is applied once.
fn by_test(event: &Event) -> bool {
    event.verb == "delete" || event.verb == "create"
}

fn describe(event: &Event) -> String {
    let subresource = event.object.as_ref().map_or("", |object| object.subresource.as_str());
    format!("{} {subresource}", event.verb).trim().to_owned()
}

/// Whose credential there is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Credential {
    Global,
    OfTheNamespace,
}

const CREDENTIAL: [(&str, &str); 4] = [
    ("AZURE_SUBSCRIPTION_ID", flotilla_armsim::DEMO_SUBSCRIPTION),
    ("AZURE_TENANT_ID", flotilla_armsim::DEMO_TENANT),
    ("AZURE_CLIENT_ID", flotilla_armsim::DEMO_CLIENT_ID),
    ("AZURE_CLIENT_SECRET", flotilla_armsim::DEMO_CLIENT_SECRET),
];

const SECRET: &str = "aso-credential";

async fn write_secret(control_plane: &ControlPlane, namespace: &str) -> Result<()> {
    let data = CREDENTIAL.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let metadata = ObjectMeta { name: Some(SECRET.to_owned()), ..ObjectMeta::default() };
    let secret = Secret { metadata, string_data: Some(data.into()), ..Secret::default() };
    Api::namespaced(control_plane.client(), namespace).create(&PostParams::default(), &secret).await?;
    Ok(())
}

fn arm(azure: &Armsim) -> client::Options {
    let scale = TimeScale::new(60.0).unwrap_or_default();
    client::Options { ca_file: Some(azure.ca_pem_path().to_owned()), scale, ..client::Options::default() }
}

fn credentials(azure: &Armsim, credential: Credential) -> Result<Settings> {
    let own = (credential == Credential::Global).then(|| Own {
        subscription: flotilla_armsim::DEMO_SUBSCRIPTION.to_owned(),
        tenant: flotilla_armsim::DEMO_TENANT.to_owned(),
        client_id: flotilla_armsim::DEMO_CLIENT_ID.to_owned(),
        proof: Proof::client_secret(flotilla_armsim::DEMO_CLIENT_SECRET),
    });
    Ok(Settings::new(Cloud::new(azure.endpoint(), azure.endpoint(), azure.endpoint())?, own))
}

const GROUP: &str = "
apiVersion: resources.azure.com/v1api20200601
kind: ResourceGroup
metadata: { name: rg-one }
spec: { location: westeurope, tags: { team: a } }
";

const CHILDREN: &str = "
apiVersion: managedidentity.azure.com/v1api20230131
kind: UserAssignedIdentity
metadata: { name: identity-one }
spec: { location: westeurope, owner: { name: rg-two } }
---
apiVersion: network.azure.com/v1api20240301
kind: VirtualNetwork
metadata: { name: vnet-one }
spec: { location: westeurope, owner: { name: rg-two }, addressSpace: { addressPrefixes: [10.0.0.0/16] } }
---
apiVersion: resources.azure.com/v1api20200601
kind: ResourceGroup
metadata: { name: rg-two }
spec: { location: westeurope }
";

#[tokio::test(flavor = "multi_thread")]
async fn a_resource_group_becomes_ready_costs_nothing_while_unchanged_and_goes_again() -> Result<()> {
    let fleet = SmallFleet::start("worker-rg", Credential::Global).await?;
    let objects = fleet.objects(GROUP)?;
    for object in &objects {
        fleet.cluster.apply(object).await?;
    }
    fleet.cluster.wait_ready(&objects, SOON).await?;
    let ready = fleet.cluster.get(&objects[0]).await?.context("the group is gone")?;
    ensure!(ready.data["status"]["properties"].is_object() || ready.data["status"]["id"].is_string(), "{ready:?}");

    // The apply itself is one patch; claim and status are ours.
    let writes = fleet.writes("resourcegroups", "rg-one")?;
    ensure!(writes == ["patch", "patch", "patch status"], "{writes:?}");
    ensure!(fleet.puts().len() == 1, "{:?}", fleet.puts());

    // Three sync periods of an unchanged object: reads, and not one write to anybody. The event is the last write.
    fleet.until("an event about the group", || Ok(fleet.events()? > 0)).await?;
    let writes = fleet.all_writes()?;
    fleet.until_read_again(3).await?;
    ensure!(fleet.all_writes()? == writes, "an unchanged object was written");
    ensure!(fleet.puts().len() == 1, "{:?}", fleet.puts());

    // Somebody changes it behind our back: it is put right with one PUT.
    let change = flotilla_armsim::ResourceChange {
        id: ready.data["status"]["id"].as_str().unwrap_or_default().to_owned(),
        merge: serde_json::json!({ "tags": { "team": "b" } }),
        provisioning_state: None,
    };
    fleet.azure.control().change_resource(&change)?;
    fleet.until("a PUT that corrects the drift", || Ok(fleet.puts().len() > 1)).await?;
    // Two more reads show that the worker is content.
    fleet.until_read_again(2).await?;
    ensure!(fleet.puts().len() == 2, "drift was answered with {:?}", fleet.puts());

    fleet.cluster.delete(&objects[0]).await?;
    fleet.cluster.wait_gone(&objects, SOON).await?;
    let left = fleet.azure.control().resources(&flotilla_armsim::ResourceFilter::default())?;
    ensure!(left.is_empty(), "{left:?}");
    fleet.stop().await
}

#[tokio::test(flavor = "multi_thread")]
async fn children_wait_for_their_owner_and_all_become_ready_in_any_order() -> Result<()> {
    let fleet = SmallFleet::start("worker-owner", Credential::Global).await?;
    let objects = fleet.objects(CHILDREN)?;
    fleet.cluster.apply(&objects[0]).await?;
    let waiting =
        fleet.cluster.wait_condition(&objects[0], SOON, |ready: &Ready| ready.reason == "WaitingForOwner").await?;
    ensure!(waiting.severity == "Warning" && waiting.message.contains("rg-two"), "{waiting}");
    for object in &objects[1..] {
        fleet.cluster.apply(object).await?;
    }
    fleet.cluster.wait_ready(&objects, SOON).await?;
    let puts = fleet.puts();
    ensure!(puts.len() == 3 && puts[0].ends_with("/rg-two"), "{puts:?}");
    let child = fleet.cluster.get(&objects[0]).await?.context("the identity is gone")?;
    let owner = child.metadata.owner_references.as_ref().and_then(|owners| owners.first());
    ensure!(owner.is_some_and(|owner| owner.name == "rg-two"), "{:?}", child.metadata);

    for object in &objects {
        fleet.cluster.delete(object).await?;
    }
    fleet.cluster.wait_gone(&objects, SOON).await?;
    let left = fleet.azure.control().resources(&flotilla_armsim::ResourceFilter::default())?;
    ensure!(left.is_empty(), "{left:?}");
    fleet.stop().await
}

/// The API server deletes the parts of a namespace in any order, and the credential often goes first.
#[tokio::test(flavor = "multi_thread")]
async fn resources_are_deleted_though_their_namespaces_credential_went_first() -> Result<()> {
    let fleet = SmallFleet::start("worker-secret", Credential::OfTheNamespace).await?;
    let objects = fleet.objects(CHILDREN)?;
    for object in &objects {
        fleet.cluster.apply(object).await?;
    }
    fleet.cluster.wait_ready(&objects, SOON).await?;
    let secrets = Api::<Secret>::namespaced(fleet.control_plane.client(), &fleet.namespace);
    secrets.delete(SECRET, &DeleteParams::default()).await?;
    // Long enough that nobody takes the Secret for unchanged any more.
    sleep(Duration::from_secs(11)).await;
    for object in &objects {
        fleet.cluster.delete(object).await?;
    }
    fleet.cluster.wait_gone(&objects, SOON).await?;
    let left = fleet.azure.control().resources(&flotilla_armsim::ResourceFilter::default())?;
    ensure!(left.is_empty(), "{left:?}");
    fleet.stop().await
}
