//! The audit log as data: who asked the API server for what, so that tests and benchmarks can count.

use std::fs;
use std::path::Path;

use jiff::Timestamp;
use serde::Deserialize;

use super::Error;

/// One answered request.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete` or `deletecollection`.
    pub verb: String,
    /// What the client calls itself.
    #[serde(default)]
    pub user_agent: String,
    /// What the request was about; absent for none in particular.
    #[serde(default, rename = "objectRef")]
    pub object: Option<Object>,
    /// The result.
    #[serde(default, rename = "responseStatus")]
    pub response: Response,
    /// When the server took the request.
    #[serde(rename = "requestReceivedTimestamp")]
    pub at: Timestamp,
}

/// The object of a request, as far as the request names it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Object {
    /// Empty for the core group.
    pub api_group: String,
    /// In the URL's plural form.
    pub resource: String,
    /// Empty for cluster-scoped resources.
    pub namespace: String,
    /// Empty where a list was asked for, or the server was to choose the name.
    pub name: String,
    /// Such as `status`; mostly empty.
    pub subresource: String,
}

/// How a request was answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Response {
    /// The HTTP status.
    pub code: u16,
}

impl Event {
    /// Whether the request changed the store: a verb that writes, and an answer that says it was done.
    pub fn is_write(&self) -> bool {
        let writes = matches!(self.verb.as_str(), "create" | "update" | "patch" | "delete" | "deletecollection");
        writes && (200..300).contains(&self.response.code)
    }

    /// Whether it was about this object or a subresource of it.
    pub fn is_about(&self, resource: &str, namespace: &str, name: &str) -> bool {
        self.object
            .as_ref()
            .is_some_and(|object| object.resource == resource && object.namespace == namespace && object.name == name)
    }
}

/// Reads a log up to its last complete line; the server may be writing the next one.
pub(super) fn read(path: &Path) -> Result<Vec<Event>, Error> {
    let text = fs::read_to_string(path).map_err(|source| Error::File { path: path.to_owned(), source })?;
    text.split_inclusive('\n')
        .filter(|line| line.ends_with('\n'))
        .enumerate()
        .map(|(index, line)| serde_json::from_str(line).map_err(|source| Error::Audit { line: index + 1, source }))
        .collect()
}
