//! The CRDs of the first groups, installed once for all tests of this process.

use std::sync::Arc;
use std::time::{Duration, Instant};

use flotilla_crds::{Catalog, Kind, Pattern, admission};
use flotilla_loadtests::control_plane::ControlPlane;
use futures::stream::{self, StreamExt};
use serde_json::Value;
use tokio::sync::OnceCell;

use super::api::Api;
use super::older;

/// The kinds that these tests are about.
pub(crate) const PATTERN: &str = "resources.azure.com/*;app.azure.com/*;storage.azure.com/*;managedidentity.azure.com/*;network.azure.com/*";

/// How long the API server may take to serve what it accepted, while other programs use the machine, too.
const SERVED_WITHIN: Duration = Duration::from_mins(1);

/// An API server with our CRDs and policies.
pub(crate) struct World {
    /// The server.
    pub(crate) control_plane: &'static ControlPlane,
    /// The installed kinds.
    pub(crate) kinds: Vec<Arc<Kind>>,
    /// The namespace with what is there from before: see [`older`].
    pub(crate) older: String,
    /// What installing took, until every kind was served.
    pub(crate) took: Duration,
}

/// The one world of this process.
pub(crate) async fn world() -> &'static World {
    static WORLD: OnceCell<World> = OnceCell::const_new();
    WORLD.get_or_init(World::install).await
}

impl World {
    async fn install() -> Self {
        let control_plane = ControlPlane::shared().await;
        let pattern = Pattern::parse(PATTERN).unwrap();
        let catalog = Catalog::embedded();
        let kinds: Vec<Arc<Kind>> =
            catalog.matching(&pattern).map(|entry| catalog.kind(&entry.group, &entry.kind).unwrap()).collect();
        let api = Api::new(control_plane, control_plane.namespace("older").await.unwrap());
        older::leave_behind(&api, catalog).await;
        let started = Instant::now();
        stream::iter(&kinds)
            .for_each_concurrent(4, |kind| async {
                let crd = kind.crd();
                if let Err(refused) = api.install(&crd).await {
                    panic!("{}: {refused}", crd["metadata"]["name"]);
                }
            })
            .await;
        for object in admission::policies(kinds.iter().map(|kind| kind.entry())) {
            if let Err(refused) = api.install(&object).await {
                panic!("{}: {refused}", object["kind"]);
            }
        }
        let world = Self { control_plane, kinds, older: api.namespace.clone(), took: Duration::ZERO };
        world.wait_until_served(&api).await;
        Self { took: started.elapsed(), ..world }
    }

    async fn wait_until_served(&self, api: &Api) {
        let deadline = Instant::now() + SERVED_WITHIN;
        loop {
            let crds = api.crds().await;
            let waiting: Vec<&str> = crds
                .iter()
                .filter(|crd| condition(crd, "Established") != Some("True"))
                .filter_map(|crd| crd["metadata"]["name"].as_str())
                .collect();
            if crds.len() >= self.kinds.len() && waiting.is_empty() {
                return;
            }
            assert!(Instant::now() < deadline, "not served: {waiting:?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
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

    /// An installed kind.
    pub(crate) fn kind(&self, name: &str) -> &Arc<Kind> {
        self.kinds.iter().find(|kind| kind.name() == name).unwrap_or_else(|| panic!("no kind {name}"))
    }
}

/// The status of a CRD's condition.
pub(crate) fn condition<'a>(crd: &'a Value, name: &str) -> Option<&'a str> {
    let conditions = crd["status"]["conditions"].as_array()?;
    conditions.iter().find(|condition| condition["type"] == name)?["status"].as_str()
}
