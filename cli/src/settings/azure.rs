//! Which Azure, and how to reach it.

use std::path::PathBuf;

use clap::Args;
use flotilla_worker::arm::client::Options;
use flotilla_worker::arm::identity::Cloud;
use flotilla_worker::arm::{TimeScale, error};

use super::value;

/// The cloud and the connection to it.
#[derive(Debug, Args)]
#[command(next_help_heading = "Azure")]
pub struct Azure {
    /// URL of Azure Resource Manager (ARM).
    #[arg(
        long = "azure-resource-manager-endpoint", visible_alias = "endpoint", env = "AZURE_RESOURCE_MANAGER_ENDPOINT",
        default_value = Cloud::PUBLIC[0], value_name = "URL", value_parser = value::https
    )]
    pub endpoint: String,

    /// Audience of the tokens for ARM.
    #[arg(
        long = "azure-resource-manager-audience", env = "AZURE_RESOURCE_MANAGER_AUDIENCE",
        default_value = Cloud::PUBLIC[1], value_name = "AUDIENCE", value_parser = value::trimmed
    )]
    pub audience: String,

    /// URL of Microsoft Entra ID.
    #[arg(
        long = "azure-authority-host", env = "AZURE_AUTHORITY_HOST", default_value = Cloud::PUBLIC[2], value_name = "URL",
        value_parser = value::https
    )]
    pub authority: String,

    /// PEM file with certificate authorities to trust in addition to the public ones.
    #[arg(long = "arm-ca-file", env = "FLOTILLA_ARM_CA_FILE", value_name = "FILE")]
    pub ca_file: Option<PathBuf>,

    /// Use HTTP/2 instead of HTTP/1.1, whose many connections reach more of ARM's instances.
    #[arg(
        long = "arm-http2", env = "FLOTILLA_ARM_HTTP2", default_value = "false", value_name = "BOOL",
        value_parser = value::boolean, num_args = 0..=1, default_missing_value = "true", require_equals = true
    )]
    pub http2: bool,

    /// What only tests set.
    #[command(flatten)]
    pub simulation: Simulation,
}

/// What only tests set.
#[derive(Debug, Args)]
#[command(next_help_heading = "For tests")]
pub struct Simulation {
    /// How many times faster than Azure the simulated ARM runs; the same for coordinators and workers.
    #[arg(
        long = "arm-time-scale", env = "FLOTILLA_ARM_TIME_SCALE", default_value = "1", value_name = "FACTOR",
        value_parser = value::time_scale
    )]
    pub time_scale: TimeScale,
}

impl Azure {
    /// The cloud.
    pub fn cloud(&self) -> Result<Cloud, error::ConfigError> {
        Cloud::new(&self.endpoint, &self.audience, &self.authority)
    }

    /// The options of a client that calls itself `pod`.
    pub fn client(&self, pod: &str) -> Options {
        Options {
            pod: pod.to_owned(),
            ca_file: self.ca_file.clone(),
            http2: self.http2,
            scale: self.simulation.time_scale,
            ..Options::default()
        }
    }
}
