//! What the members of a fleet are told on the command line; each flag is also an environment variable.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use flotilla_crds::Pattern;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

/// Azure from Kubernetes, run by a fleet.
#[derive(Debug, Parser)]
#[command(version, propagate_version = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to be.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Elect a leader; the leader installs CRDs, hands shards to workers and keeps ARM's budget.
    Coordinator(Coordinator),
    /// Take shards and bring Azure to the state that their objects ask for.
    Worker(Worker),
    /// Print the requests to ARM that applying manifests would cause.
    Plan(flotilla::plan::Args),
    /// Show the kinds, and print or compare their CRDs.
    Crds(flotilla::crds::Args),
}

/// What a worker also reads; `docs/settings.md` has all.
const AZURE_VARIABLES: &str = "\
Environment, as in ASO:
  AZURE_SUBSCRIPTION_ID, AZURE_TENANT_ID, AZURE_CLIENT_ID  the credential of objects that name no other
  AZURE_CLIENT_SECRET       its secret; without it, or with USE_WORKLOAD_IDENTITY_AUTH=true, an identity of the machine or pod
  AZURE_SYNC_PERIOD         how often unchanged objects are compared with Azure [default: 1h; never]
  AZURE_TARGET_NAMESPACES   the namespaces to look after, joined by commas [default: all]
  AZURE_AUTHORITY_HOST, AZURE_RESOURCE_MANAGER_ENDPOINT, AZURE_RESOURCE_MANAGER_AUDIENCE  the cloud
  DEFAULT_RECONCILE_POLICY  manage, detach-on-delete or skip [default: manage]";

/// A coordinator's flags.
#[derive(Debug, Args)]
pub(crate) struct Coordinator {
    #[command(flatten)]
    pub(crate) member: Member,

    /// Where workers connect (gRPC).
    #[arg(long, env = "FLOTILLA_LISTEN", default_value = "0.0.0.0:8443")]
    pub(crate) listen: SocketAddr,

    /// The address that workers are told; by default the listening address.
    #[arg(long, env = "FLOTILLA_ADVERTISE_ADDRESS")]
    pub(crate) advertise_address: Option<String>,

    /// Kinds to install, as group/Kind with * and ? or as ARM types, several joined by semicolons:
    /// `storage.azure.com/*;Microsoft.Automation/automationAccounts@2023-11-01`.
    #[arg(long, env = "FLOTILLA_CRD_PATTERN", default_value = "", value_parser = parse_pattern, hide_default_value = true)]
    pub(crate) crd_pattern: Pattern,

    /// How many versions of each kind are installed. What an object or a manager uses stays in any case.
    #[arg(long, env = "FLOTILLA_CRD_VERSIONS", value_enum, default_value_t = CrdVersions::All)]
    pub(crate) crd_versions: CrdVersions,

    /// Whether the leader installs and upgrades CRDs.
    #[arg(long, env = "FLOTILLA_CRD_MANAGEMENT", value_enum, default_value_t = CrdManagement::Auto)]
    pub(crate) crd_management: CrdManagement,
}

/// A worker's flags. The credential and the cloud are read from the `AZURE_…` variables that ASO has.
#[derive(Debug, Args)]
#[command(after_help = AZURE_VARIABLES)]
pub(crate) struct Worker {
    #[command(flatten)]
    pub(crate) member: Member,
}

/// What every member is told.
#[derive(Debug, Args)]
pub(crate) struct Member {
    /// The operator's own namespace: leases, shard map, settings.
    #[arg(long, env = "POD_NAMESPACE")]
    pub(crate) namespace: String,

    /// This member's name; its lease is named after it.
    #[arg(long, env = "POD_NAME", default_value_t = host_name())]
    pub(crate) pod_name: String,

    /// Where metrics and health are served (HTTP); 0 turns it off.
    #[arg(long, env = "FLOTILLA_METRICS_ADDR", default_value = "127.0.0.1:8080", value_parser = parse_address)]
    pub(crate) metrics_addr: Address,

    /// How log lines look.
    #[arg(long, env = "FLOTILLA_LOG_FORMAT", value_enum, default_value_t = LogFormat::Text)]
    pub(crate) log_format: LogFormat,

    /// What is logged: a level, or a filter such as `info,flotilla_worker=debug`.
    #[arg(long, env = "FLOTILLA_LOG_LEVEL", default_value = "info", value_parser = parse_log_level)]
    pub(crate) log_level: String,

    #[command(flatten)]
    pub(crate) tls: Tls,
}

/// Mutual TLS between workers and coordinators; all three or none.
#[expect(clippy::struct_field_names, reason = "they are the names of the flags")]
#[derive(Debug, Args)]
pub(crate) struct Tls {
    /// Our certificate (PEM).
    #[arg(long, env = "FLOTILLA_TLS_CERT", requires_all = ["tls_key", "tls_ca"])]
    pub(crate) tls_cert: Option<PathBuf>,

    /// Its private key (PEM).
    #[arg(long, env = "FLOTILLA_TLS_KEY", requires_all = ["tls_cert", "tls_ca"])]
    pub(crate) tls_key: Option<PathBuf>,

    /// The authority that signs the others' certificates (PEM).
    #[arg(long, env = "FLOTILLA_TLS_CA", requires_all = ["tls_cert", "tls_key"])]
    pub(crate) tls_ca: Option<PathBuf>,
}

/// Who looks after CRDs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CrdManagement {
    /// The leader.
    Auto,
    /// Somebody else.
    None,
}

/// How many versions of each kind are installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CrdVersions {
    /// All that the catalog serves.
    All,
    /// The newest that is no preview; takes less of the API server's memory.
    Newest,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}

/// Where to serve, if at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address(pub(crate) Option<SocketAddr>);

/// `0` is off, `:8080` all interfaces, as in ASO's flags.
fn parse_address(text: &str) -> Result<Address, String> {
    if text == "0" {
        return Ok(Address(None));
    }
    let whole = if text.starts_with(':') { format!("0.0.0.0{text}") } else { text.to_owned() };
    let address = whole.parse().map_err(|_| format!("{text} is not an address such as 127.0.0.1:8080, :8080 or 0"))?;
    Ok(Address(Some(address)))
}

/// A filter would take a word that is no level for the name of a module, and show nothing else.
fn parse_log_level(text: &str) -> Result<String, String> {
    for part in text.split(',').map(str::trim).filter(|part| !part.contains(['=', '['])) {
        part.parse::<LevelFilter>()
            .map_err(|_| format!("{part:?} is none of trace, debug, info, warn, error and off, nor module=level"))?;
    }
    EnvFilter::try_new(text).map_err(|error| error.to_string())?;
    Ok(text.to_owned())
}

fn parse_pattern(text: &str) -> Result<Pattern, String> {
    Pattern::parse(text).map_err(|error| error.to_string())
}

/// In a pod the host's name is the pod's.
fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    if name.trim().is_empty() { "flotilla".to_owned() } else { name.trim().to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_level_is_a_level_or_a_filter() {
        for good in ["info", "off", "INFO", "info,flotilla_worker=debug", "warn,hyper[span]=trace"] {
            assert!(parse_log_level(good).is_ok(), "{good}");
        }
        for bad in ["nonsense", "info,verbose", "flotilla_worker=loud"] {
            assert!(parse_log_level(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn metrics_address_takes_the_forms_that_aso_takes() {
        assert_eq!(parse_address("0").unwrap(), Address(None));
        assert_eq!(parse_address(":8080").unwrap().0.unwrap().to_string(), "0.0.0.0:8080");
        assert_eq!(parse_address("127.0.0.1:1").unwrap().0.unwrap().port(), 1);
        assert!(parse_address("8080").unwrap_err().contains("8080 is not an address"));
    }

    #[test]
    fn flags_are_consistent() {
        use clap::CommandFactory as _;
        Cli::command().debug_assert();
    }

    #[test]
    fn half_of_the_tls_flags_is_refused() {
        let args = ["flotilla", "worker", "--namespace", "n", "--tls-cert", "c.pem"];
        let error = Cli::try_parse_from(args).unwrap_err().to_string();
        assert!(error.contains("--tls-key") && error.contains("--tls-ca"), "{error}");
    }
}
