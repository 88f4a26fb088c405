//! Sends requests to ARM.
//!
//! One try per call: whoever calls decides, with the whole fleet's budget in view, when the next one is made. The one
//! exception is a token that ARM rejects, which is replaced and the request sent again.

mod policy;
mod transport;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use azure_core::error::ErrorKind;
use azure_core::http::headers::{ACCEPT, CONTENT_TYPE, Headers};
use azure_core::http::{
    ClientOptions, Context as Ctx, HttpClient, Pipeline, PipelineSendOptions, Request, RetryOptions, Transport, Url,
};
use flotilla_proto::timing;
use jiff::Timestamp;
use serde_json::Value;

use super::call::{Answer, Call, Target, Verb};
use super::error::{BODY_LIMIT, Category, ConfigError, Error, Extras};
use super::identity::Identity;
use super::rate;
use super::scale::TimeScale;
use super::token::NoToken;
use crate::budget::Priority;

/// Settings of the edge.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Name of the pod, for the User-Agent.
    pub pod: String,
    /// More certificates to trust, for private clouds and simulators.
    pub ca_file: Option<PathBuf>,
    /// Speak HTTP/2. Off by default: many connections reach more of ARM's instances than one does.
    pub http2: bool,
    /// How much faster than the real one the ARM on the other side runs.
    pub scale: TimeScale,
    /// Time to connect.
    pub connect_timeout: Duration,
    /// Time for a whole call; ARM itself gives up on a provider after 60 s.
    pub timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            pod: "local".to_owned(),
            ca_file: None,
            http2: false,
            scale: TimeScale::REAL,
            connect_timeout: Duration::from_secs(10),
            timeout: timing::ARM_CALL_WITHIN,
        }
    }
}

/// The way to ARM, for all identities and clouds. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Client {
    pipeline: Pipeline,
    http: Arc<dyn HttpClient>,
    scale: TimeScale,
    registered: Arc<Mutex<HashMap<(String, String), Instant>>>,
}

/// Registering a provider takes Azure minutes; asking again sooner changes nothing.
const REGISTER_EVERY: Duration = Duration::from_mins(2);
const REGISTER_API_VERSION: &str = "2019-05-01";

impl Client {
    /// Builds the connection pool and the pipeline.
    pub fn new(options: &Options) -> Result<Self, ConfigError> {
        Ok(Self::over(Arc::new(transport::Http::new(options)?), options))
    }

    /// Builds the pipeline over `http`.
    pub(super) fn over(http: Arc<dyn HttpClient>, options: &Options) -> Self {
        let user_agent = format!("flotilla/{} worker/{}", env!("CARGO_PKG_VERSION"), options.pod);
        let client_options = ClientOptions {
            retry: RetryOptions::none(),
            transport: Some(Transport::new(http.clone())),
            ..ClientOptions::default()
        };
        let per_try: Vec<Arc<dyn azure_core::http::policies::Policy>> =
            vec![Arc::new(policy::Authorize), Arc::new(policy::Attempt { user_agent })];
        let pipeline = Pipeline::new(
            option_env!("CARGO_PKG_NAME"),
            option_env!("CARGO_PKG_VERSION"),
            client_options,
            Vec::new(),
            per_try,
            None,
        );
        Self { pipeline, http, scale: options.scale, registered: Arc::default() }
    }

    pub(super) fn http(&self) -> Arc<dyn HttpClient> {
        self.http.clone()
    }

    /// How much faster than the real one the ARM on the other side runs.
    pub fn scale(&self) -> TimeScale {
        self.scale
    }

    /// Makes one call.
    pub async fn send(&self, identity: &Arc<Identity>, call: Call<'_>) -> Result<Answer, Error> {
        let url = match call.target {
            Target::Id { id, api_version } => resource_url(&identity.cloud.endpoint, id, api_version)
                .map_err(|detail| Error::bad_url(identity.context(call.verb, id), detail))?,
            Target::Url(url) => url.clone(),
        };
        let context = identity.context(call.verb, url.path());
        if !identity.cloud.owns(&url) {
            return Err(Error::foreign_host(context, url.host_str().unwrap_or_default().to_owned()));
        }
        let mut request = Request::new(url, call.verb.method());
        request.insert_header(ACCEPT, "application/json");
        if let Some(body) = call.body {
            let bytes = body.to_string().into_bytes();
            if bytes.len() > BODY_LIMIT {
                return Err(Error::too_large(context, bytes.len()));
            }
            request.insert_header(CONTENT_TYPE, "application/json");
            request.set_body(bytes);
        }
        let ctx = Ctx::new().with_value(policy::Attributes::of(identity, &call, &context));
        let options = PipelineSendOptions { skip_checks: true, ..PipelineSendOptions::default() };
        let response = match self.pipeline.send(&ctx, &mut request, Some(options)).await {
            Ok(response) => response,
            Err(error) => return Err(unsent(context, error)),
        };
        let (status, headers, body) = response.deconstruct();
        let status = u16::from(status);
        let (answer, extras) = (read(status, &headers, self.scale, Timestamp::now()), body);
        if (200..300).contains(&status) {
            let body = json(extras.as_ref());
            if !is_plausible(&call, status, &body) {
                let what = "the answer is not from ARM: it is not a JSON object";
                return Err(Error::unanswered(
                    context,
                    azure_core::Error::with_message(ErrorKind::DataConversion, what),
                ));
            }
            return Ok(Answer { body, ..answer });
        }
        let Answer { retry_after, request_id, rate, .. } = answer;
        Err(Error::refused(context, status, extras.as_ref(), Extras { retry_after, request_id, rate }))
    }

    /// Registers the resource provider that `error` misses, unless this worker has just done so.
    ///
    /// Returns whether a call was made. Azure needs minutes; the caller retries the failed call as its error says.
    pub async fn register(&self, identity: &Arc<Identity>, error: &Error) -> Result<bool, Error> {
        let Some(namespace) = error.unregistered().filter(|_| error.category() == Category::NotRegistered) else {
            return Ok(false);
        };
        let key = (identity.subscription.to_ascii_lowercase(), namespace.to_ascii_lowercase());
        {
            let mut registered = self.registered.lock().unwrap_or_else(PoisonError::into_inner);
            let every = self.scale.wait(REGISTER_EVERY);
            if registered.get(&key).is_some_and(|at| at.elapsed() < every) {
                return Ok(false);
            }
            registered.insert(key, Instant::now());
        }
        let id = format!("/subscriptions/{}/providers/{namespace}/register", identity.subscription);
        self.send(identity, Call::new(Verb::Post, &id, REGISTER_API_VERSION, Priority::Retry)).await?;
        tracing::info!(%namespace, subscription = %identity.subscription, "Registered a resource provider");
        Ok(true)
    }
}

/// The URL of a path under `endpoint`.
fn resource_url(endpoint: &Url, id: &str, api_version: &str) -> Result<Url, String> {
    if !id.starts_with('/') {
        return Err("it does not start with a slash".to_owned());
    }
    // A URL parser would resolve these, and the call would reach another resource.
    let escapes = |segment: &str| {
        let plain = segment.to_ascii_lowercase().replace("%2e", ".");
        segment.is_empty() || plain == "." || plain == ".." || segment.contains(['\\', '\t', '\n', '\r'])
    };
    if let Some(segment) = id[1..].split('/').find(|segment| escapes(segment)) {
        return Err(format!("{segment:?} is not a name"));
    }
    let mut url = endpoint.clone();
    url.set_path(id);
    url.set_fragment(None);
    url.query_pairs_mut().clear().append_pair("api-version", api_version);
    Ok(url)
}

/// Everything but the body.
fn read(status: u16, headers: &Headers, scale: TimeScale, now: Timestamp) -> Answer {
    let text = |name: &'static str| headers.get_optional_str(&name.into()).map(str::to_owned);
    let url = |name: &'static str| text(name).and_then(|text| Url::parse(&text).ok()).filter(Url::has_host);
    Answer {
        status,
        body: Value::Null,
        async_operation: url("azure-asyncoperation").or_else(|| url("operation-location")),
        location: text("location"),
        retry_after: rate::retry_after(headers, scale, now),
        request_id: text("x-ms-request-id"),
        correlation_id: text("x-ms-correlation-request-id"),
        rate: rate::observe(status, headers, scale, now),
    }
}

fn json(body: &[u8]) -> Value {
    if body.is_empty() {
        return Value::Null;
    }
    serde_json::from_slice(body).unwrap_or_else(|_| Value::String(String::from_utf8_lossy(body).into_owned()))
}

/// A proxy or a captive portal may answer in ARM's place, with 200. What a read brings is believed only if it can be ARM's:
/// a resource is an object, and an operation's record is one, too, or nothing.
fn is_plausible(call: &Call<'_>, status: u16, body: &Value) -> bool {
    match (call.verb, call.target) {
        (Verb::Get, Target::Id { .. }) => body.is_object() || status != 200,
        (Verb::Get, Target::Url(_)) => body.is_object() || body.is_null() || body.is_array(),
        _ => true,
    }
}

fn unsent(context: super::error::Context, error: azure_core::Error) -> Error {
    match error.downcast_ref::<NoToken>() {
        Some(failure) => {
            let extras = Extras { retry_after: Some(failure.retry_after), ..Extras::default() };
            let (fault, refused) = (failure.fault.clone(), failure.refused);
            Error::no_token(context, fault, refused).with_extras(extras)
        }
        None => Error::unanswered(context, error),
    }
}

#[cfg(test)]
mod tests;
