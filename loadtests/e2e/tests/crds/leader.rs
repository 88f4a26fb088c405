//! A coordinator in this process that leads for a while, and so installs CRDs.

use flotilla_coordinator::{Config, Coordinator, Versions};
use flotilla_crds::Pattern;
use flotilla_testbed::control_plane::ControlPlane;
use tokio_util::sync::CancellationToken;

use super::leader_log;

/// Its settings, and its API server.
#[derive(Clone, Copy)]
pub(crate) struct Leader<'a> {
    /// The cluster.
    pub(crate) control_plane: &'a ControlPlane,
    /// Where its lease is.
    pub(crate) namespace: &'a str,
    /// The kinds to install.
    pub(crate) pattern: &'a str,
    /// How many versions of each.
    pub(crate) versions: Versions,
}

impl Leader<'_> {
    /// Leads until something is done.
    pub(crate) async fn lead<T>(self, until: impl Future<Output = T>) -> T {
        leader_log::listen();
        let any_port = "127.0.0.1:0".parse().unwrap();
        let mut config = Config::new(self.control_plane.client_config().clone(), self.namespace, "crds", any_port);
        config.crd_pattern = Pattern::parse(self.pattern).unwrap();
        config.crd_versions = self.versions;
        let stop = CancellationToken::new();
        let coordinator = Box::pin(Coordinator::new(config).run(stop.clone()));
        let (ended, done) = futures::join!(coordinator, async {
            let done = Box::pin(until).await;
            stop.cancel();
            done
        });
        ended.unwrap();
        done
    }
}
