//! Logs, metrics and traces of one process.
//!
//! Metrics are served as Prometheus text; traces go to the OTLP endpoint, if there is one.

mod level;
mod server;

use std::io::IsTerminal as _;
use std::net::SocketAddr;

use anyhow::{Context as _, Result};
use flotilla_proto::task::Process;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use opentelemetry_sdk::trace::SdkTracerProvider;
use prometheus::Registry;
use tracing_subscriber::Layer as _;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use self::level::Level;
use crate::args::{self, LogFormat, Member};

/// What is served, and what has to be flushed at the end.
pub(crate) struct Telemetry {
    registry: Registry,
    level: Level,
    meters: SdkMeterProvider,
    tracers: Option<SdkTracerProvider>,
}

/// Sets the process's log, meter and tracer up.
pub(crate) fn init(service: &'static str, member: &Member) -> Result<Telemetry> {
    let flags = &member.telemetry;
    let resource = Resource::builder()
        .with_service_name(service)
        .with_attribute(opentelemetry::KeyValue::new("service.instance.id", member.pod_name.clone()))
        .with_attribute(opentelemetry::KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
        .build();
    let registry = Registry::new();
    let exporter = opentelemetry_prometheus::exporter()
        .with_registry(registry.clone())
        .scope_info_enabled(false)
        .build()
        .context("failed to set metrics up")?;
    let meters = SdkMeterProvider::builder().with_reader(exporter).with_resource(resource.clone()).build();
    opentelemetry::global::set_meter_provider(meters.clone());

    let tracers = tracers(resource, flags)?;
    let (filter, level) = level::new(&flags.log_level)?;
    let lines = match flags.log_format {
        LogFormat::Text if std::io::stderr().is_terminal() => {
            tracing_subscriber::fmt::layer().with_writer(std::io::stderr).boxed()
        }
        LogFormat::Text => tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(false).boxed(),
        LogFormat::Json => tracing_subscriber::fmt::layer().json().with_writer(std::io::stderr).boxed(),
    };
    let spans = tracers.as_ref().map(|tracers| tracing_opentelemetry::layer().with_tracer(tracers.tracer(service)));
    tracing_subscriber::registry().with(filter).with(lines).with(spans).init();
    Ok(Telemetry { registry, level, meters, tracers })
}

/// OpenTelemetry reads its other variables, such as those for headers and sampling.
fn tracers(resource: Resource, flags: &args::Telemetry) -> Result<Option<SdkTracerProvider>> {
    let Some(endpoint) = flags.otlp_traces_endpoint.as_ref().or(flags.otlp_endpoint.as_ref()) else { return Ok(None) };
    let exporter = SpanExporter::builder()
        .with_tonic()
        .with_endpoint(endpoint)
        .build()
        .context("failed to set the OTLP exporter up")?;
    Ok(Some(SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource).build()))
}

impl Telemetry {
    /// Serves `/metrics`, `/healthz`, `/readyz` and `/log-level` from now on; each request to `/readyz` asks `ready`.
    pub(crate) async fn serve(
        &self,
        process: &Process,
        address: Option<SocketAddr>,
        ready: impl Fn() -> bool + Clone + Send + Sync + 'static,
    ) -> Result<()> {
        match address {
            Some(address) => server::start(process, address, self.registry.clone(), self.level.clone(), ready).await,
            None => Ok(()),
        }
    }

    /// Sends what has not been sent yet. It is the last thing a process does, so what fails is only logged.
    pub(crate) async fn flush(self) {
        // The exporters block until they are done, or have given up.
        let ended = tokio::task::spawn_blocking(move || {
            let spans = self.tracers.map(|tracers| tracers.shutdown());
            (self.meters.shutdown(), spans)
        });
        match ended.await {
            Ok((Ok(()), None | Some(Ok(())))) => {}
            other => tracing::warn!(?other, "Failed to flush telemetry"),
        }
    }
}
