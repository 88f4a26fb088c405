//! The HTTP server for Prometheus, the kubelet and whoever changes the log level.

use std::net::SocketAddr;

use anyhow::{Context as _, Result};
use axum::Router;
use axum::extract::ConnectInfo;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use flotilla_proto::task::{Kind, Process};
use prometheus::{Encoder as _, Registry, TextEncoder};
use tokio::net::TcpListener;

use super::level::{self, Level};

/// Binds at once, so that a taken port is an error at the start, and serves until the process ends.
pub(super) async fn start(
    process: &Process,
    address: SocketAddr,
    registry: Registry,
    level: Level,
    ready: impl Fn() -> bool + Clone + Send + Sync + 'static,
) -> Result<()> {
    let listener = TcpListener::bind(address).await.with_context(|| {
        format!("failed to serve metrics on {address}; choose another --metrics-addr, or 0 for none")
    })?;
    let address = listener.local_addr().context("failed to read the address that metrics are served on")?;
    tracing::info!(%address, "Serving metrics and health");
    let present = level.clone();
    let app =
        Router::new()
            .route("/metrics", get(move || async move { metrics(&registry) }))
            .route("/healthz", get(|| async { "ok" }))
            .route("/readyz", get(move || async move { readiness(ready()) }))
            .route(
                "/log-level",
                get(move || async move { present.text() + "\n" }).put(
                    move |ConnectInfo(peer): ConnectInfo<SocketAddr>, text: String| async move {
                        change(&level, peer, &text)
                    },
                ),
            )
            .into_make_service_with_connect_info::<SocketAddr>();
    process.start(Kind::MetricsServer, |_| async move { axum::serve(listener, app).await }).detach();
    Ok(())
}

fn metrics(registry: &Registry) -> Response {
    let encoder = TextEncoder::new();
    let mut text = Vec::new();
    match encoder.encode(&registry.gather(), &mut text) {
        Ok(()) => ([(CONTENT_TYPE, encoder.format_type().to_owned())], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

fn readiness(ready: bool) -> (StatusCode, &'static str) {
    if ready { (StatusCode::OK, "ok") } else { (StatusCode::SERVICE_UNAVAILABLE, "not ready") }
}

fn change(level: &Level, peer: SocketAddr, text: &str) -> (StatusCode, String) {
    if !level::may_change(peer.ip()) {
        let why = "only clients on this host's loopback may change the log level: use kubectl port-forward\n";
        return (StatusCode::FORBIDDEN, why.to_owned());
    }
    match level.set(text) {
        Ok(()) => (StatusCode::OK, level.text() + "\n"),
        Err(why) => (StatusCode::BAD_REQUEST, why + "\n"),
    }
}
