//! The flags that every member has.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

/// The flags of every member.
#[derive(Debug, Args)]
#[command(next_help_heading = "Member")]
pub(crate) struct Member {
    /// Namespace of the operator: its leases, shard map and settings.
    #[arg(long, env = "POD_NAMESPACE", value_name = "NAMESPACE")]
    pub(crate) namespace: String,

    /// Name of this member and of its lease [default: the host's name].
    #[arg(long, env = "POD_NAME", default_value_t = host_name(), hide_default_value = true, value_name = "NAME")]
    pub(crate) pod_name: String,

    #[command(flatten)]
    pub(crate) telemetry: Telemetry,

    #[command(flatten)]
    pub(crate) tls: Tls,
}

/// Logs, metrics and traces.
#[derive(Debug, Args)]
#[command(next_help_heading = "Telemetry")]
pub(crate) struct Telemetry {
    /// Address to serve metrics, health and the log level on (HTTP); 0 turns it off.
    #[arg(
        long, env = "FLOTILLA_METRICS_ADDR", default_value = "127.0.0.1:8080", value_parser = parse_address,
        value_name = "ADDRESS"
    )]
    pub(crate) metrics_addr: Address,

    /// Format of log lines.
    #[arg(long, env = "FLOTILLA_LOG_FORMAT", value_enum, default_value_t = LogFormat::Text, value_name = "FORMAT")]
    pub(crate) log_format: LogFormat,

    /// What to log: a level, or a filter such as `info,flotilla_worker=debug`. /log-level changes it at run time.
    #[arg(
        long, env = "FLOTILLA_LOG_LEVEL", default_value = "info", value_parser = check_log_level, value_name = "FILTER"
    )]
    pub(crate) log_level: String,

    /// OTLP endpoint (gRPC) to send traces to; without one, none are sent.
    #[arg(long, env = "OTEL_EXPORTER_OTLP_ENDPOINT", value_name = "URL")]
    pub(crate) otlp_endpoint: Option<String>,

    /// OTLP endpoint for traces, if it differs from the one above.
    #[arg(long, env = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", value_name = "URL")]
    pub(crate) otlp_traces_endpoint: Option<String>,
}

/// Mutual TLS between workers and coordinators; all three or none.
#[expect(clippy::struct_field_names, reason = "they are the names of the flags")]
#[derive(Debug, Args)]
#[command(next_help_heading = "TLS between members")]
pub(crate) struct Tls {
    /// Certificate of this member (PEM).
    #[arg(long, env = "FLOTILLA_TLS_CERT", requires_all = ["tls_key", "tls_ca"], value_name = "FILE")]
    pub(crate) tls_cert: Option<PathBuf>,

    /// Private key of the certificate (PEM).
    #[arg(long, env = "FLOTILLA_TLS_KEY", requires_all = ["tls_cert", "tls_ca"], value_name = "FILE")]
    pub(crate) tls_key: Option<PathBuf>,

    /// Certificate authority of the other members (PEM).
    #[arg(long, env = "FLOTILLA_TLS_CA", requires_all = ["tls_cert", "tls_key"], value_name = "FILE")]
    pub(crate) tls_ca: Option<PathBuf>,
}

/// Format of log lines.
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
fn parse_address(text: &str) -> Result<Address, &'static str> {
    if text == "0" {
        return Ok(Address(None));
    }
    let whole = if text.starts_with(':') { format!("0.0.0.0{text}") } else { text.to_owned() };
    let address = whole.parse().map_err(|_| "expected an address such as 127.0.0.1:8080 or :8080, or 0")?;
    Ok(Address(Some(address)))
}

/// Checks the text of a filter.
///
/// A filter would take a word that is not a level for the name of a module, and show nothing else.
pub(crate) fn check_log_level(text: &str) -> Result<String, String> {
    let text = text.trim();
    if text.is_empty() {
        return Err("it is empty; expected a level such as info, or a filter".to_owned());
    }
    for part in text.split(',').map(str::trim).filter(|part| !part.contains(['=', '['])) {
        part.parse::<LevelFilter>().map_err(|_| {
            format!("{part:?} is not a level; expected trace, debug, info, warn, error, off or module=level")
        })?;
    }
    EnvFilter::try_new(text).map_err(|error| error.to_string())?;
    Ok(text.to_owned())
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
            assert!(check_log_level(good).is_ok(), "{good}");
        }
        for bad in ["nonsense", "info,verbose", "flotilla_worker=loud", ""] {
            assert!(check_log_level(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn metrics_address_takes_the_forms_that_aso_takes() {
        assert_eq!(parse_address("0").unwrap(), Address(None));
        assert_eq!(parse_address(":8080").unwrap().0.unwrap().to_string(), "0.0.0.0:8080");
        assert_eq!(parse_address("127.0.0.1:1").unwrap().0.unwrap().port(), 1);
        assert!(parse_address("8080").unwrap_err().contains("expected an address"));
    }
}
