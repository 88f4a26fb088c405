//! What a member sends to an OTLP collector: one trace for each reconcile of an object, down to the calls to ARM.

use std::collections::BTreeMap;
use std::fs;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use flotilla_armsim::Armsim;
use flotilla_testbed::cluster::Cluster;
use flotilla_testbed::control_plane::ControlPlane;
use flotilla_testbed::fleet::{Fleet, Settings};
use kube::api::DynamicObject;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use serde_json::json;
use tokio::net::TcpListener;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

const CRD_PATTERN: &str = "resources.azure.com/*";
const WITHIN: Duration = Duration::from_mins(3);

/// Spans by the service that sent them.
type Spans = Arc<Mutex<BTreeMap<String, Vec<Span>>>>;

/// A collector that keeps what it gets.
struct Collector {
    spans: Spans,
}

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let mut spans = self.spans.lock().expect("no handler panics");
        for resource in request.into_inner().resource_spans {
            let attributes = resource.resource.map(|resource| resource.attributes).unwrap_or_default();
            let service = text(&attributes, "service.name").unwrap_or_default();
            let sent = resource.scope_spans.into_iter().flat_map(|scope| scope.spans);
            spans.entry(service).or_default().extend(sent);
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

fn text(attributes: &[KeyValue], key: &str) -> Option<String> {
    let found = attributes.iter().find(|attribute| attribute.key == key)?;
    match found.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => Some(text.clone()),
        Value::IntValue(number) => Some(number.to_string()),
        _ => None,
    }
}

async fn collect() -> Result<(String, Spans)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let endpoint = format!("http://{}", listener.local_addr()?);
    let spans = Spans::default();
    let service = TraceServiceServer::new(Collector { spans: Arc::clone(&spans) });
    let server = tonic::transport::Server::builder().add_service(service);
    tokio::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));
    Ok((endpoint, spans))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reconcile_is_one_trace_with_its_calls_to_arm() -> Result<()> {
    let (endpoint, spans) = collect().await?;
    let control_plane = ControlPlane::shared().await;
    let azure =
        Armsim::start(flotilla_armsim::Options { time_scale: 30.0, ..flotilla_armsim::Options::default() }).await?;
    let logs = control_plane.directory().join("traces");
    fs::create_dir_all(&logs)?;
    let mut settings = Settings::local(control_plane, &azure, &logs);
    CRD_PATTERN.clone_into(&mut settings.crd_pattern);
    "flotilla-traces".clone_into(&mut settings.namespace);
    settings.environment.push(("OTEL_EXPORTER_OTLP_ENDPOINT".to_owned(), endpoint));
    let fleet = Fleet::start(control_plane.client(), settings, 1, 1).await?;

    let cluster = Cluster::new(control_plane.client());
    cluster.wait_kinds(CRD_PATTERN, WITHIN).await?;
    let namespace = control_plane.namespace("traces").await?;
    let group: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "resources.azure.com/v1api20200601", "kind": "ResourceGroup",
        "metadata": {"name": "traced", "namespace": namespace}, "spec": {"location": "westus2"},
    }))?;
    cluster.apply(&group).await?;
    cluster.wait_ready(&[group], WITHIN).await?;
    // What has not been sent yet is sent when a member stops.
    fleet.stop().await?;

    let spans = spans.lock().expect("no handler panics");
    let spans = spans.get("flotilla-worker").with_context(|| format!("no spans from workers: {:?}", spans.keys()))?;
    let reconciles_group = |span: &Span| {
        span.name == "reconcile" && text(&span.attributes, "object").is_some_and(|o| o.contains("traced"))
    };
    let reconciles: Vec<&Span> = spans.iter().filter(|span| reconciles_group(span)).collect();
    ensure!(
        !reconciles.is_empty(),
        "no reconcile of the group: {:?}",
        spans.iter().map(|s| &s.name).collect::<Vec<_>>()
    );
    for key in ["key", "epoch"] {
        ensure!(
            text(&reconciles[0].attributes, key).is_some(),
            "a reconcile does not say its {key}: {:?}",
            reconciles[0].attributes
        );
    }
    let put = spans.iter().find(|span| text(&span.attributes, "http.request.method").as_deref() == Some("PUT"));
    let put = put.context("no PUT was traced")?;
    ensure!(reconciles.iter().any(|reconcile| reconcile.trace_id == put.trace_id), "the PUT is in another trace");
    for key in ["azure.correlation_id", "azure.resource_type", "http.response.status_code"] {
        ensure!(text(&put.attributes, key).is_some(), "the PUT does not say its {key}: {:?}", put.attributes);
    }
    let secret = flotilla_armsim::DEMO_CLIENT_SECRET;
    ensure!(!spans.iter().any(|span| format!("{span:?}").contains(secret)), "a span contains the client secret");
    Ok(())
}
