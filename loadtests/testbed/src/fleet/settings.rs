//! The settings that all members of a fleet share.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::control_plane::ControlPlane;
use flotilla_armsim::{Armsim, DEMO_CLIENT_ID, DEMO_CLIENT_SECRET, DEMO_SUBSCRIPTION, DEMO_TENANT};

/// The environment of a fleet.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The program. By default the one built beside this program.
    pub program: Option<PathBuf>,
    /// How the members reach Kubernetes.
    pub kubeconfig: PathBuf,
    /// The operator's own namespace: leases, shard map, settings.
    pub namespace: String,
    /// Kinds to install.
    pub crd_pattern: String,
    /// How often an unchanged object is reconciled.
    pub sync_period: Duration,
    /// Where each member's log goes.
    pub logs: PathBuf,
    /// Filter of the log, such as `info,flotilla=debug`.
    pub log_level: String,
    /// Further environment, for example `AZURE_CLIENT_SECRET`.
    pub environment: Vec<(String, String)>,
}

impl Settings {
    /// A fleet in namespace `flotilla-system` of this control plane, with armsim as its Azure.
    pub fn local(control_plane: &ControlPlane, azure: &Armsim, logs: &Path) -> Self {
        Self {
            program: None,
            kubeconfig: control_plane.kubeconfig_path(),
            namespace: "flotilla-system".to_owned(),
            crd_pattern: "*".to_owned(),
            sync_period: Duration::from_hours(1),
            logs: logs.to_owned(),
            log_level: "info".to_owned(),
            environment: azure_environment(azure),
        }
    }

    /// The log of the member with this name.
    pub(super) fn log_path(&self, name: &str) -> PathBuf {
        self.logs.join(format!("{name}.log"))
    }
}

/// The global credential and cloud: armsim's first application, trusted by its own authority, at its own pace.
fn azure_environment(azure: &Armsim) -> Vec<(String, String)> {
    let endpoint = azure.endpoint();
    [
        ("AZURE_SUBSCRIPTION_ID", DEMO_SUBSCRIPTION),
        ("AZURE_TENANT_ID", DEMO_TENANT),
        ("AZURE_CLIENT_ID", DEMO_CLIENT_ID),
        ("AZURE_CLIENT_SECRET", DEMO_CLIENT_SECRET),
        ("AZURE_AUTHORITY_HOST", endpoint),
        ("AZURE_RESOURCE_MANAGER_ENDPOINT", endpoint),
        ("AZURE_RESOURCE_MANAGER_AUDIENCE", endpoint),
        ("FLOTILLA_ARM_CA_FILE", &azure.ca_pem_path().to_string_lossy()),
        ("FLOTILLA_ARM_TIME_SCALE", &azure.settings().time_scale.to_string()),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into()
}
