//! The HTTPS edge: turns requests into calls and answers into responses, and makes delays, hangs and cut connections real.
//!
//! Kept true here: a call is in the journal once, also when its caller went away before it was carried out.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::{Body as HttpBody, Bytes, HttpBody as _};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use tower::Service;

use super::answer::{Answer, Body, Call, Headers, Method};
use super::error::Refusal;
use super::fault::Action;
use super::journal::Outcome;
use super::sim::{Arrival, Greeting, Sim, pairs};

/// The largest request body that ARM takes.
const LARGEST_BODY: usize = 4 * 1024 * 1024;

/// Armsim behind a lock that is never held across an await.
#[derive(Clone)]
pub(crate) struct Shared(Arc<Mutex<Sim>>);

impl Shared {
    pub(crate) fn new(sim: Sim) -> Self {
        Self(Arc::new(Mutex::new(sim)))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Sim> {
        // A panic in one call must not end all others.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes a [`Front`] for each connection.
#[derive(Clone)]
pub(crate) struct Fronts(pub(crate) Shared);

impl Service<SocketAddr> for Fronts {
    type Response = Front;
    type Error = Infallible;
    type Future = std::future::Ready<Result<Front, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: SocketAddr) -> Self::Future {
        std::future::ready(Ok(Front(self.0.clone())))
    }
}

/// Answers the calls of one connection.
#[derive(Clone)]
pub(crate) struct Front(Shared);

/// Makes the HTTP library cut the connection.
#[derive(Debug, thiserror::Error)]
#[error("the connection is cut by a fault rule")]
pub(crate) struct Cut;

impl<B> Service<Request<B>> for Front
where
    B: axum::body::HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<axum::BoxError>,
{
    type Response = Response<HttpBody>;
    type Error = Cut;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Cut>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Cut>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let shared = self.0.clone();
        Box::pin(async move { serve(shared, request.map(HttpBody::new)).await })
    }
}

async fn serve(shared: Shared, request: Request<HttpBody>) -> Result<Response<HttpBody>, Cut> {
    let (started, time) = (Instant::now(), jiff::Timestamp::now());
    let call = match read(request).await {
        Ok(call) => call,
        Err(refusal) => return Ok(response(refusal.into())),
    };
    let arrival = Arrival::new(call, started, time);
    let (greeting, latency) = {
        let mut sim = shared.lock();
        (sim.greet(&arrival, Instant::now()), Duration::from_millis(sim.settings.latency_millis))
    };
    let mut visit = Visit { shared: &shared, arrival, greeting, noted: false };
    if latency > Duration::ZERO {
        tokio::time::sleep(latency).await;
    }
    match visit.greeting.fault.as_ref().map(|(_, action)| action.clone()) {
        Some(Action::Delay { milliseconds }) => tokio::time::sleep(Duration::from_millis(milliseconds)).await,
        Some(Action::Drop) => {
            visit.pass_over(Outcome::Dropped);
            return Err(Cut);
        }
        Some(Action::Hang) => {
            visit.pass_over(Outcome::Hung);
            return std::future::pending().await;
        }
        Some(Action::DropAfterEffect) => {
            visit.carry_out(Some(Outcome::Dropped));
            return Err(Cut);
        }
        Some(Action::HangAfterEffect) => {
            visit.carry_out(Some(Outcome::Hung));
            return std::future::pending().await;
        }
        _ => {}
    }
    Ok(response(visit.carry_out(None)))
}

/// A call on its way, which is noted in the journal in any case.
struct Visit<'a> {
    shared: &'a Shared,
    arrival: Arrival,
    greeting: Greeting,
    noted: bool,
}

impl Visit<'_> {
    fn carry_out(&mut self, lost: Option<Outcome>) -> Answer {
        self.noted = true;
        let mut sim = self.shared.lock();
        sim.carry_out(&self.arrival, &self.greeting, lost, Instant::now())
    }

    fn pass_over(&mut self, outcome: Outcome) {
        self.noted = true;
        self.shared.lock().pass_over(&self.arrival, &self.greeting, outcome, Instant::now());
    }
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        if !self.noted {
            self.pass_over(Outcome::Abandoned);
        }
    }
}

async fn read(request: Request<HttpBody>) -> Result<Call, Refusal> {
    let (parts, body) = request.into_parts();
    let name = parts.method.as_str();
    let method = Method::parse(name).ok_or_else(|| {
        Refusal::gateway(
            405,
            "MethodNotAllowed",
            format!("The requested resource does not support http method '{name}'."),
        )
    })?;
    let decoded = percent_encoding::percent_decode_str(parts.uri.path()).decode_utf8();
    let path = decoded.map_err(|_| Refusal::gateway(400, "InvalidUri", "The path of the request is not UTF-8."))?;
    let path = if path.len() > 1 { path.trim_end_matches('/') } else { &path };
    let query = parts.uri.query().map(pairs).unwrap_or_default();
    let body = if body.is_end_stream() {
        Vec::new()
    } else {
        let read = axum::body::to_bytes(body, LARGEST_BODY).await;
        let too_large = format!("The request content size exceeds the maximum size of {LARGEST_BODY} bytes.");
        read.map_err(|_| Refusal::gateway(413, "RequestContentTooLarge", too_large))?.into()
    };
    Ok(Call { method, path: path.to_owned(), query, headers: headers(&parts.headers), body })
}

fn headers(map: &HeaderMap) -> Headers {
    let get = |name: &str| map.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    Headers {
        authorization: get("authorization"),
        user_agent: get("user-agent"),
        client_request_id: get("x-ms-client-request-id"),
        correlation_id: get("x-ms-correlation-request-id"),
        content_type: get("content-type"),
        if_match: get("if-match"),
        if_none_match: get("if-none-match"),
    }
}

fn response(answer: Answer) -> Response<HttpBody> {
    let (kind, body) = match answer.body {
        Body::Empty => (None, HttpBody::empty()),
        Body::Json(body) => (Some("application/json; charset=utf-8"), HttpBody::from(body.to_string())),
        Body::Text(text) => (Some("text/plain; charset=utf-8"), HttpBody::from(text)),
    };
    let mut response = Response::new(body);
    // A rule may ask for any number; one that is not a status is sent as 500.
    *response.status_mut() = answer.status.try_into().unwrap_or(axum::http::StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    if let Some(kind) = kind {
        headers.insert("content-type", HeaderValue::from_static(kind));
    }
    for (name, value) in answer.headers {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(&*name), HeaderValue::try_from(value)) {
            headers.insert(name, value);
        }
    }
    response
}
