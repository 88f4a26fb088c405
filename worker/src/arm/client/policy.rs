//! What happens around each try: its token, its ids, its span.

use std::sync::Arc;

use azure_core::error::ErrorKind;
use azure_core::http::headers::{AUTHORIZATION, USER_AGENT};
use azure_core::http::policies::{Policy, PolicyResult};
use azure_core::http::{Context, Request};
use tracing::Instrument;
use uuid::Uuid;

use crate::arm::call::Call;
use crate::arm::error;
use crate::arm::identity::Identity;

/// What the policies need to know of a call.
#[derive(Debug)]
pub(super) struct Attributes {
    identity: Arc<Identity>,
    correlation: Uuid,
    resource_type: String,
    priority: &'static str,
}

impl Attributes {
    pub(super) fn of(identity: &Arc<Identity>, call: &Call<'_>, context: &error::Context) -> Self {
        Self {
            identity: identity.clone(),
            correlation: call.correlation.unwrap_or_else(Uuid::new_v4),
            resource_type: context.resource_type(),
            priority: call.priority.as_str(),
        }
    }
}

/// Sends the identity's token, and another one if ARM takes that for expired.
#[derive(Debug)]
pub(super) struct Authorize;

#[async_trait::async_trait]
impl Policy for Authorize {
    async fn send(&self, ctx: &Context, request: &mut Request, next: &[Arc<dyn Policy>]) -> PolicyResult {
        let Some(call) = ctx.value::<Attributes>() else {
            return Err(azure_core::Error::with_message(ErrorKind::Other, "call without an identity"));
        };
        if request.url().scheme() != "https" {
            return Err(azure_core::Error::with_message(ErrorKind::Other, "tokens are sent over https only"));
        }
        let tokens = &call.identity.tokens;
        let failed = |failure| azure_core::Error::new(ErrorKind::Credential, failure);
        let token = tokens.get().await.map_err(failed)?;
        request.insert_header(AUTHORIZATION, format!("Bearer {}", token.secret.secret()));
        let response = next[0].send(ctx, request, &next[1..]).await?;
        if u16::from(response.status()) != 401 {
            return Ok(response);
        }
        // Expired by ARM's clock, or revoked: a claims challenge asks for a token newer than the event, too.
        let Some(token) = tokens.replace(token.number).await.map_err(failed)? else { return Ok(response) };
        request.insert_header(AUTHORIZATION, format!("Bearer {}", token.secret.secret()));
        next[0].send(ctx, request, &next[1..]).await
    }
}

/// Names the caller and the try, and makes a span of it. Bodies and queries stay out of it.
#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) user_agent: String,
}

#[async_trait::async_trait]
impl Policy for Attempt {
    async fn send(&self, ctx: &Context, request: &mut Request, next: &[Arc<dyn Policy>]) -> PolicyResult {
        let client_request_id = Uuid::new_v4();
        request.insert_header(USER_AGENT, self.user_agent.clone());
        request.insert_header("x-ms-client-request-id", client_request_id.to_string());
        let method = request.method().as_str();
        let span = tracing::info_span!(
            "arm_call",
            otel.kind = "client",
            otel.name = tracing::field::Empty,
            http.request.method = method,
            http.response.status_code = tracing::field::Empty,
            server.address = request.url().host_str(),
            url.path = request.url().path(),
            azure.resource_type = tracing::field::Empty,
            azure.priority = tracing::field::Empty,
            azure.client_request_id = %client_request_id,
            azure.correlation_id = tracing::field::Empty,
            azure.request_id = tracing::field::Empty,
            azure.region = tracing::field::Empty,
            error.type = tracing::field::Empty,
        );
        if let Some(call) = ctx.value::<Attributes>() {
            request.insert_header("x-ms-correlation-request-id", call.correlation.to_string());
            span.record("otel.name", format!("{method} {}", call.resource_type));
            span.record("azure.resource_type", call.resource_type.as_str());
            span.record("azure.priority", call.priority);
            span.record("azure.correlation_id", tracing::field::display(call.correlation));
        }
        let answered = next[0].send(ctx, request, &next[1..]).instrument(span.clone()).await;
        match &answered {
            Ok(response) => {
                let status = u16::from(response.status());
                span.record("http.response.status_code", status);
                if status >= 400 {
                    span.record("error.type", status);
                }
                let header = |name: &'static str| response.headers().get_optional_str(&name.into());
                span.record("azure.request_id", header("x-ms-request-id"));
                span.record("azure.region", header("x-ms-routing-request-id").and_then(|text| text.split(':').next()));
            }
            Err(failed) => {
                span.record("error.type", tracing::field::display(failed.kind()));
            }
        }
        answered
    }
}
