//! The command line. Each flag of a member is also an environment variable.

mod member;

use std::net::SocketAddr;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueEnum};
use flotilla::settings::{self, Azure, Credential, Reconcile, Simulation};
use flotilla_crds::Pattern;

pub(crate) use self::member::{LogFormat, Member, Telemetry, Tls, check_log_level};

/// Azure from Kubernetes, run by a fleet.
#[derive(Debug, Parser)]
#[command(version, propagate_version = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to run.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a coordinator: the elected leader installs CRDs, assigns shards to workers and divides ARM's budget.
    Coordinator(Coordinator),
    /// Run a worker: it reconciles the objects of its shards with Azure.
    Worker(Worker),
    /// Print the requests to ARM that applying manifests would cause.
    Plan(flotilla::plan::Args),
    /// Show the kinds, and print or compare their CRDs.
    Crds(flotilla::crds::Args),
}

/// What libraries read, which has no flags.
const OTHER_VARIABLES: &str = "\
Other variables:
  KUBECONFIG  the cluster, outside of a pod
  OTEL_…      OpenTelemetry's own variables, such as OTEL_EXPORTER_OTLP_HEADERS and OTEL_TRACES_SAMPLER
  NO_COLOR    log lines without colours";

/// A coordinator's flags.
#[derive(Debug, Args)]
#[command(after_help = OTHER_VARIABLES)]
pub(crate) struct Coordinator {
    #[command(flatten)]
    pub(crate) member: Member,

    /// Address to listen on for workers (gRPC).
    #[arg(
        long,
        env = "FLOTILLA_LISTEN",
        default_value = "0.0.0.0:8443",
        value_name = "ADDRESS",
        help_heading = "Workers"
    )]
    pub(crate) listen: SocketAddr,

    /// Address that workers connect to [default: the listening address].
    #[arg(long, env = "FLOTILLA_ADVERTISE_ADDRESS", value_name = "ADDRESS", help_heading = "Workers")]
    pub(crate) advertise_address: Option<String>,

    /// Kinds to install: group/Kind with * and ?, or ARM types, separated by semicolons. Example:
    /// `storage.azure.com/*;Microsoft.Automation/automationAccounts@2023-11-01`. Without it, installed CRDs are kept up to date.
    #[arg(
        long, env = "FLOTILLA_CRD_PATTERN", default_value = "", value_name = "PATTERN", value_parser = parse_pattern,
        hide_default_value = true, help_heading = "CRDs"
    )]
    pub(crate) crd_pattern: Pattern,

    /// Versions of each kind to install. Versions that an object or a field manager uses always stay.
    #[arg(
        long, env = "FLOTILLA_CRD_VERSIONS", value_enum, default_value_t = CrdVersions::All, value_name = "VERSIONS",
        help_heading = "CRDs"
    )]
    pub(crate) crd_versions: CrdVersions,

    /// Who installs and upgrades CRDs.
    #[arg(
        long, env = "FLOTILLA_CRD_MANAGEMENT", value_enum, default_value_t = CrdManagement::Auto, value_name = "MANAGEMENT",
        help_heading = "CRDs"
    )]
    pub(crate) crd_management: CrdManagement,

    #[command(flatten)]
    pub(crate) simulation: Simulation,
}

/// A worker's flags.
#[derive(Debug, Args)]
#[command(after_help = OTHER_VARIABLES)]
pub(crate) struct Worker {
    #[command(flatten)]
    pub(crate) member: Member,

    #[command(flatten)]
    pub(crate) reconcile: Reconcile,

    #[command(flatten)]
    pub(crate) credential: Credential,

    #[command(flatten)]
    pub(crate) azure: Azure,
}

/// Who installs and upgrades CRDs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CrdManagement {
    /// The leader does.
    Auto,
    /// Flotilla does not; the leader checks every 30 s which CRDs exist.
    None,
}

/// How many versions of each kind are installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CrdVersions {
    /// All that the catalog serves.
    All,
    /// The newest that is not a preview; takes less of the API server's memory.
    Newest,
}

/// Parses the command line and the environment; ends the process with help or an error.
pub(crate) fn parse() -> Cli {
    let command = Cli::command();
    let parsed = settings::ignore_empty(command.clone()).try_get_matches();
    // Help shows each variable, also one that is empty here.
    let parsed = match parsed {
        Err(error) if error.kind() == ErrorKind::DisplayHelp => command.clone().try_get_matches(),
        parsed => parsed,
    };
    parsed
        .and_then(|matches| Cli::from_arg_matches(&matches))
        .unwrap_or_else(|error| settings::name_variable(error, &command).exit())
}

fn parse_pattern(text: &str) -> Result<Pattern, String> {
    Pattern::parse(text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn half_of_the_tls_flags_is_refused() {
        let args = ["flotilla", "worker", "--namespace", "n", "--tls-cert", "c.pem"];
        let error = Cli::try_parse_from(args).unwrap_err().to_string();
        assert!(error.contains("--tls-key") && error.contains("--tls-ca"), "{error}");
    }

    #[test]
    fn errors_name_flag_variable_value_and_what_was_expected() {
        let args = ["flotilla", "worker", "--namespace", "n", "--azure-sync-period", "hourly"];
        let error = Cli::try_parse_from(args).unwrap_err();
        let error = settings::name_variable(error, &Cli::command()).to_string();
        for part in
            ["--azure-sync-period", "(AZURE_SYNC_PERIOD)", "'hourly'", "expected a duration such as 1h30m, or never"]
        {
            assert!(error.contains(part), "{part}: {error}");
        }
    }

    /// Each flag of a member can be set by a variable, and is explained.
    #[test]
    fn members_flags_have_a_variable_and_a_help_text() {
        for role in ["coordinator", "worker"] {
            let mut command = Cli::command();
            for arg in command.find_subcommand_mut(role).unwrap().get_arguments() {
                assert!(arg.get_env().is_some() && arg.get_help().is_some(), "{arg}");
            }
        }
    }
}
