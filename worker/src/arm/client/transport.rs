//! The HTTP client below the pipeline.

use azure_core::Bytes;
use azure_core::error::ErrorKind;
use azure_core::http::{AsyncRawResponse, HttpClient, Request};
use std::time::Duration;

use super::Options;
use crate::arm::error::ConfigError;

/// `reqwest` with our limits, whose errors do not print URLs: those of operations are signed.
#[derive(Debug)]
pub(super) struct Http(reqwest::Client);

/// Idle connections kept per host; a worker at full speed has about as many calls in flight.
const IDLE_PER_HOST: usize = 64;

impl Http {
    pub(super) fn new(options: &Options) -> Result<Self, ConfigError> {
        let certificates = match &options.ca_file {
            None => Vec::new(),
            Some(path) => {
                let failed =
                    |source: Box<dyn std::error::Error + Send + Sync>| ConfigError::Ca { path: path.clone(), source };
                let pem = std::fs::read(path).map_err(|error| failed(error.into()))?;
                let found = reqwest::Certificate::from_pem_bundle(&pem).map_err(|error| failed(error.into()))?;
                if found.is_empty() {
                    return Err(failed("it holds no certificate".into()));
                }
                found
            }
        };
        let builder = || {
            let builder = reqwest::Client::builder()
                .connect_timeout(options.connect_timeout)
                .timeout(options.timeout)
                .pool_max_idle_per_host(IDLE_PER_HOST)
                .pool_idle_timeout(Duration::from_secs(90))
                .tcp_keepalive(Duration::from_secs(30))
                .tls_version_min(reqwest::tls::Version::TLS_1_2)
                // A token must not follow.
                .redirect(reqwest::redirect::Policy::none());
            if options.http2 { builder } else { builder.http1_only() }
        };
        let built = if certificates.is_empty() {
            builder().build()
        } else {
            // A small image has no certificates of its own; then ours are all there is.
            builder()
                .tls_certs_merge(certificates.clone())
                .build()
                .or_else(|_| builder().tls_certs_only(certificates).build())
        };
        built.map(Self).map_err(ConfigError::Client)
    }
}

#[async_trait::async_trait]
impl HttpClient for Http {
    async fn execute_request(&self, request: &Request) -> azure_core::Result<AsyncRawResponse> {
        let response = self.0.execute_request(request).await.map_err(without_url)?;
        let (status, headers, body) = response.deconstruct();
        // Read here and not above, so that a connection which breaks in mid-body is an error of the transport.
        let bytes: Bytes = body.collect().await.map_err(without_url)?;
        Ok(AsyncRawResponse::from_bytes(status, headers, bytes))
    }
}

fn without_url(error: azure_core::Error) -> azure_core::Error {
    let kind = match error.kind() {
        ErrorKind::Connection => ErrorKind::Connection,
        _ => ErrorKind::Io,
    };
    match error.into_downcast::<reqwest::Error>() {
        Ok(error) => azure_core::Error::new(kind, error.without_url()),
        Err(other) => other,
    }
}
