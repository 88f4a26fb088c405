//! The admin API: the controls over plain HTTP on a loopback port, under `/_sim/`, in JSON.
//!
//! Kept true here: wrong input is answered with 400 and a sentence that says what is wrong; unknown fields are wrong input.

use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::control::{Control, Error, ResourceChange, ResourceFilter};
use super::entra::App;
use super::fault::Rule;
use super::journal::Filter;
use super::settings::Change;

/// The routes.
pub(crate) fn router(control: Control) -> Router {
    Router::new()
        .route("/_sim/health", get(health))
        .route("/_sim/settings", get(settings).patch(change))
        .route("/_sim/clock/advance", post(advance))
        .route("/_sim/faults", get(faults).post(add_fault).delete(clear_faults))
        .route("/_sim/faults/{id}", delete(remove_fault))
        .route("/_sim/operations", get(operations))
        .route("/_sim/operations/{id}/{verb}", post(operate))
        .route("/_sim/resources", get(resources).patch(change_resource).delete(delete_resource))
        .route("/_sim/journal", get(journal))
        .route("/_sim/journal/summary", get(summary))
        .route("/_sim/apps", post(register_app))
        .route("/_sim/tokens/expire", post(expire_tokens))
        .fallback(|| async { Problem(StatusCode::NOT_FOUND, "no such path exists under /_sim/".to_owned()) })
        .with_state(control)
}

/// An answer other than a success.
struct Problem(StatusCode, String);

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        (self.0, axum::Json(json!({"error": self.1}))).into_response()
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let status =
            if matches!(error, Error::NotFound { .. }) { StatusCode::NOT_FOUND } else { StatusCode::BAD_REQUEST };
        Self(status, chain(&error))
    }
}

impl From<QueryRejection> for Problem {
    fn from(rejection: QueryRejection) -> Self {
        Self(StatusCode::BAD_REQUEST, rejection.body_text())
    }
}

/// An error with its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        next = cause.source();
    }
    text
}

type Answer = Result<Response, Problem>;

#[expect(clippy::unnecessary_wraps, reason = "every handler ends with it")]
fn say(value: impl Serialize) -> Answer {
    Ok(axum::Json(value).into_response())
}

/// A body in JSON, whatever its content type says.
fn parse<T: DeserializeOwned>(body: &Bytes) -> Result<T, Problem> {
    serde_json::from_slice(body)
        .map_err(|error| Problem(StatusCode::BAD_REQUEST, format!("failed to read the body: {error}")))
}

async fn health(State(control): State<Control>) -> Answer {
    say(control.counts())
}

async fn settings(State(control): State<Control>) -> Answer {
    say(control.settings())
}

async fn change(State(control): State<Control>, body: Bytes) -> Answer {
    say(control.change(parse::<Change>(&body)?)?)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Seconds {
    seconds: f64,
}

async fn advance(State(control): State<Control>, body: Bytes) -> Answer {
    let Seconds { seconds } = parse(&body)?;
    say(json!({"simSeconds": control.advance(seconds)?}))
}

async fn faults(State(control): State<Control>) -> Answer {
    say(json!({"faults": control.faults()}))
}

async fn add_fault(State(control): State<Control>, body: Bytes) -> Answer {
    say(json!({"id": control.add_fault(parse::<Rule>(&body)?)?}))
}

async fn clear_faults(State(control): State<Control>) -> Answer {
    control.clear_faults();
    say(json!({}))
}

async fn remove_fault(State(control): State<Control>, Path(id): Path<String>) -> Answer {
    let id =
        id.parse().map_err(|_| Problem(StatusCode::BAD_REQUEST, format!("{id:?} is not the number of a fault")))?;
    control.remove_fault(id)?;
    say(json!({}))
}

async fn operations(State(control): State<Control>) -> Answer {
    say(json!({"operations": control.operations()}))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Failure {
    code: String,
    #[serde(default)]
    message: String,
}

async fn operate(State(control): State<Control>, Path((id, verb)): Path<(String, String)>, body: Bytes) -> Answer {
    match verb.as_str() {
        "hold" => control.hold_operation(&id)?,
        "finish" => control.finish_operation(&id)?,
        "forget" => control.forget_operation(&id)?,
        "advance" => control.advance_operation(&id, parse::<Seconds>(&body)?.seconds)?,
        "fail" => {
            let Failure { code, message } = parse(&body)?;
            control.fail_operation(&id, &code, &message)?;
        }
        other => {
            let text = format!("{other:?} is not an action; expected hold, advance, finish, fail or forget");
            return Err(Problem(StatusCode::BAD_REQUEST, text));
        }
    }
    say(json!({}))
}

async fn resources(State(control): State<Control>, query: Result<Query<ResourceFilter>, QueryRejection>) -> Answer {
    say(json!({"resources": control.resources(&query?.0)?}))
}

async fn change_resource(State(control): State<Control>, body: Bytes) -> Answer {
    say(control.change_resource(&parse::<ResourceChange>(&body)?)?)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Id {
    id: String,
}

async fn delete_resource(State(control): State<Control>, query: Result<Query<Id>, QueryRejection>) -> Answer {
    control.delete_resource(&query?.id)?;
    say(json!({}))
}

async fn journal(State(control): State<Control>, query: Result<Query<Filter>, QueryRejection>) -> Answer {
    say(control.journal(&query?.0)?)
}

async fn summary(State(control): State<Control>, query: Result<Query<Filter>, QueryRejection>) -> Answer {
    say(control.summary(&query?.0)?)
}

async fn register_app(State(control): State<Control>, body: Bytes) -> Answer {
    control.register_app(parse::<App>(&body)?);
    say(Value::Object(serde_json::Map::new()))
}

async fn expire_tokens(State(control): State<Control>) -> Answer {
    say(json!({"expired": control.expire_tokens()}))
}
