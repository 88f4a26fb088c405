//! Every CRD, installed once for all tests of this process.

use std::sync::Arc;
use std::time::{Duration, Instant};

use flotilla_coordinator::Versions;
use flotilla_crds::{Catalog, Kind, Pattern};
use flotilla_testbed::cluster;
use flotilla_testbed::control_plane::ControlPlane;
use tokio::sync::OnceCell;

use super::api::{Api, Target};
use super::leader::Leader;
use super::{leader_log, maximal, older};

/// What is installed.
const EVERYTHING: &str = "*";

/// The groups that most tests are about: what they do with a kind takes long.
const FIRST_GROUPS: &str =
    "resources.azure.com/*;app.azure.com/*;storage.azure.com/*;managedidentity.azure.com/*;network.azure.com/*";

/// How long the API server may take to serve what it accepted, while other programs use the machine, too.
pub(crate) const SERVED_WITHIN: Duration = Duration::from_mins(4);

/// An API server on which a coordinator installed all CRDs and policies; no worker runs.
pub(crate) struct Installation {
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
    /// How many kinds were served when the first object was created.
    pub(crate) served_at_first_object: usize,
}

/// The one installation of this process.
pub(crate) async fn installation() -> &'static Installation {
    static INSTALLATION: OnceCell<Installation> = OnceCell::const_new();
    INSTALLATION.get_or_init(|| Box::pin(Installation::install())).await
}

impl Installation {
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
        let older = api.namespace.clone();
        let mut installation =
            Self { control_plane, all, kinds, older, took: Duration::ZERO, served_at_first_object: 0 };
        let started = Instant::now();
        let (served, _) = installation
            .leader()
            .lead(futures::future::join(
                Box::pin(installation.first_object()),
                leader_log::next("Installed CRDs", installation.all.len(), 0, SERVED_WITHIN),
            ))
            .await;
        installation.took = started.elapsed();
        installation.served_at_first_object = served;
        installation
    }

    /// The coordinator that installs all of it.
    pub(crate) fn leader(&self) -> Leader<'_> {
        Leader {
            control_plane: self.control_plane,
            namespace: &self.older,
            pattern: EVERYTHING,
            versions: Versions::All,
        }
    }

    /// Creates an object of the first kind that is served. Returns how many were served then.
    async fn first_object(&self) -> usize {
        let api = self.api("early").await;
        let deadline = Instant::now() + SERVED_WITHIN;
        loop {
            assert!(Instant::now() < deadline, "no kind is served");
            let served = cluster::served(&self.control_plane.client()).await.unwrap();
            let is_served = |kind: &&Arc<Kind>| served.contains_key(&kind.entry().crd_name());
            let served = self.all.iter().filter(is_served).count();
            // One is there from before, without a policy.
            if let Some(kind) = self.all.iter().find(is_served).filter(|_| served > 1) {
                let version = kind.versions().last().unwrap().name();
                let spec = maximal::spec(&kind.own_spec_schema(version).unwrap(), 0);
                api.create(Target { kind, version, name: "early" }, &spec).await.unwrap();
                return served;
            }
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
pub(crate) fn condition<'a>(crd: &'a serde_json::Value, name: &str) -> Option<&'a str> {
    let conditions = crd["status"]["conditions"].as_array()?;
    conditions.iter().find(|condition| condition["type"] == name)?["status"].as_str()
}
