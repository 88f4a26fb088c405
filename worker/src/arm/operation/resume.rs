//! Reads the poller token that Azure Service Operator keeps in its annotations, so that a running operation survives the
//! switch to us.
//!
//! The token belongs to the Azure SDK for Go and may change; what is not understood is left alone, and the resource is
//! read instead.

use azure_core::http::Url;
use jiff::Timestamp;
use serde_json::Value;

use super::super::call::Verb;
use super::{Form, Handle, Start};

/// Turns the values of `poller-resume-token` and `poller-resume-id` into a handle, to be polled at once.
///
/// `start` describes the resource; its verb is replaced by what the id says.
pub fn resume(token: &str, id: &str, start: &Start<'_>, now: Timestamp) -> Option<Handle> {
    let token: Value = serde_json::from_str(token).ok()?;
    let poller = token.get("token").unwrap_or(&token);
    let kind = poller.get("type")?.as_str()?;
    let url = |key: &str| Url::parse(poller.get(key)?.as_str()?).ok().filter(Url::has_host);
    // Older tokens have an id before the kind.
    let form = match kind.rsplit(';').next()?.trim() {
        "Azure-AsyncOperation" => Form::Status(url("asyncURL")?),
        "Operation-Location" => Form::Status(url("oplocURL")?),
        "loc" | "Location" => Form::Location(url("pollURL")?),
        "body" | "Body" => Form::Resource,
        _ => return None,
    };
    let verb = if id.contains("Delete") { Verb::Delete } else { Verb::Put };
    Some(Handle::new(&Start { verb, ..*start }, form, None, now))
}
