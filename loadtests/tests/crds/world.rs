//! Every CRD, installed once for all tests of this process.

use std::sync::Arc;
use std::time::{Duration, Instant};

use flotilla_coordinator::{Config, Coordinator};
use flotilla_crds::{Catalog, Kind, Pattern};
use flotilla_loadtests::cluster::Cluster;
use flotilla_loadtests::control_plane::ControlPlane;
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

use super::api::{Api, Target};
use super::{maximal, older};

/// What is installed.
const EVERYTHING: &str = "*";

/// The groups that most tests are about: what they do with a kind takes long.
const FIRST_GROUPS: &str =
    "resources.azure.com/*;app.azure.com/*;storage.azure.com/*;managedidentity.azure.com/*;network.azure.com/*";

/// How long the API server may take to serve what it accepted, while other programs use the machine, too.
const SERVED_WITHIN: Duration = Duration::from_mins(2);

/// An API server with our CRDs and policies.
pub(crate) struct World {
    /// The server.
    pub(crate) control_plane: &'static ControlPlane,
    /// Every kind; all are installed.
    pub(crate) all: Vec<Arc<Kind>>,
    /// The kinds of the first groups.
    pub(crate) kinds: Vec<Arc<Kind>>,
    /// The namespace with what is there from before: see [`older`].
    pub(crate) older: String,
    /// What installing took, until every kind was served.
    pub(crate) took: Duration,
}

/// The one world of this process.
pub(crate) async fn world() -> &'static World {
    static WORLD: OnceCell<World> = OnceCell::const_new();
    WORLD.get_or_init(|| Box::pin(World::install())).await
}

impl World {
    async fn install() -> Self {
        let control_plane = ControlPlane::shared().await;
        let catalog = Catalog::embedded();
        let kinds = |pattern: &str| -> Vec<Arc<Kind>> {
            let pattern = Pattern::parse(pattern).unwrap();
            catalog.matching(&pattern).map(|entry| catalog.kind(&entry.group, &entry.kind).unwrap()).collect()
        };
        let (all, kinds) = (kinds(EVERYTHING), kinds(FIRST_GROUPS));
        let api = Api::new(control_plane, control_plane.namespace("older").await.unwrap());
        older::leave_behind(&api, catalog).await;
        let started = Instant::now();
        let world = Self { control_plane, all, kinds, older: api.namespace.clone(), took: Duration::ZERO };
        Box::pin(world.lead(world.wait_until_served(&api))).await;
        Self { took: started.elapsed(), ..world }
    }

    /// Lets a coordinator lead, which installs, until something is done.
    pub(crate) async fn lead(&self, until: impl Future<Output = ()>) {
        let any_port = "127.0.0.1:0".parse().unwrap();
        let kube = self.control_plane.client_config().clone();
        let mut config = Config::new(kube, &self.older, "crds", any_port);
        config.crd_pattern = Pattern::parse(EVERYTHING).unwrap();
        let stop = CancellationToken::new();
        let coordinator = Coordinator::new(config).run(stop.clone());
        let (ended, ()) = futures::join!(coordinator, async {
            until.await;
            stop.cancel();
        });
        ended.unwrap();
    }

    /// Waits for every CRD, and for the policy: until then it lets a bad owner pass.
    async fn wait_until_served(&self, api: &Api) {
        let deadline = Instant::now() + SERVED_WITHIN;
        let cluster = Cluster::new(self.control_plane.client());
        cluster.wait_kinds(EVERYTHING, SERVED_WITHIN).await.unwrap();
        let kind = self.kind("StorageAccount");
        let version = kind.versions().last().unwrap().name();
        let mut spec = maximal::spec(&kind.own_spec_schema(version).unwrap(), 0);
        spec["owner"] = json!({});
        while api.would_create(Target { kind, version, name: "asks" }, &spec).await.is_ok() {
            assert!(Instant::now() < deadline, "the policy lets a bad owner pass");
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
    }

    /// A client for the namespace with what is there from before.
    pub(crate) fn older(&self) -> Api {
        Api::new(self.control_plane, self.older.clone())
    }

    /// A client and a fresh namespace.
    pub(crate) async fn api(&self, prefix: &str) -> Api {
        Api::new(self.control_plane, self.control_plane.namespace(prefix).await.unwrap())
    }

    /// A kind of the first groups.
    pub(crate) fn kind(&self, name: &str) -> &Arc<Kind> {
        self.kinds
            .iter()
            .find(|kind| kind.name() == name)
            .unwrap_or_else(|| panic!("no kind {name} in the first groups"))
    }
}

/// The status of a CRD's condition.
pub(crate) fn condition<'a>(crd: &'a Value, name: &str) -> Option<&'a str> {
    let conditions = crd["status"]["conditions"].as_array()?;
    conditions.iter().find(|condition| condition["type"] == name)?["status"].as_str()
}
