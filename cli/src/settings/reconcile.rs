//! Which objects are reconciled, how often, and by which policy.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use flotilla_worker::engine::Policy;

use super::value::{self, Period};

/// How a worker reconciles.
#[derive(Debug, Args)]
#[command(next_help_heading = "Reconcile")]
pub struct Reconcile {
    /// How often an unchanged object is compared with Azure: a duration such as 1h30m, or never.
    #[arg(
        long = "azure-sync-period", env = "AZURE_SYNC_PERIOD", default_value = "1h", value_name = "PERIOD",
        value_parser = value::period
    )]
    pub period: Period,

    /// Reconcile only objects in these namespaces, separated by commas [default: all].
    #[arg(
        long = "azure-target-namespaces", env = "AZURE_TARGET_NAMESPACES", value_name = "NAMESPACES", value_delimiter = ',',
        value_parser = value::namespace
    )]
    pub namespaces: Vec<String>,

    /// Reconcile policy of objects without one of their own or of their namespace.
    #[arg(
        long = "default-reconcile-policy", env = "DEFAULT_RECONCILE_POLICY", default_value = "manage", value_name = "POLICY",
        value_parser = PossibleValuesParser::new(["manage", "skip", "detach-on-delete"]).try_map(|text| text.parse::<Policy>())
    )]
    pub policy: Policy,
}

impl Reconcile {
    /// The namespaces to work in; all if empty.
    pub fn namespaces(&self) -> Vec<String> {
        self.namespaces.iter().filter(|name| !name.is_empty()).cloned().collect()
    }
}
