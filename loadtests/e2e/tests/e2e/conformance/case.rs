//! A recorded case: manifest, steps and traffic.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;
use serde_json::Value;

/// The subscription in the recordings.
const RECORDED_SUBSCRIPTION: &str = "00000000-0000-0000-0000-000000000000";

/// The case.
#[derive(Debug)]
pub(super) struct Case {
    pub(super) manifest: String,
    pub(super) steps: Vec<Step>,
    requests: Vec<Request>,
}

/// What its test did.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// These objects are applied at once.
    Apply(Vec<String>),
    /// Everything that is there is Ready.
    Expect,
    /// One object is changed.
    Patch {
        object: String,
        merge: Value,
        /// Which request followed.
        first_put: usize,
    },
    /// One object is deleted.
    Delete(String),
}

/// A recorded request.
#[derive(Clone, Debug)]
pub(super) struct Request {
    method: String,
    /// In lower case.
    path: String,
    pub(super) api_version: String,
    pub(super) body: Value,
}

#[derive(Deserialize)]
struct StepsFile {
    steps: Vec<Value>,
}

#[derive(Deserialize)]
struct Recording {
    interactions: Vec<Interaction>,
}

#[derive(Deserialize)]
struct Interaction {
    method: String,
    url: String,
    request_body: Value,
}

impl Case {
    /// Reads a case as if it had been recorded in this subscription.
    pub(super) fn read(folder: &Path, subscription: &str) -> Result<Self> {
        let read = |name: &str| {
            let path = folder.join(name);
            let text = fs::read_to_string(&path).with_context(|| format!("failed to read {}", path.display()))?;
            anyhow::Ok(text.replace(RECORDED_SUBSCRIPTION, subscription))
        };
        let steps: StepsFile = serde_saphyr::from_str(&read("steps.yaml")?).context("failed to read the steps")?;
        let recording: Recording = serde_json::from_str(&read("arm.json")?).context("failed to read the recording")?;
        Ok(Self {
            manifest: read("manifest.yaml")?,
            steps: steps.steps.iter().map(Step::read).collect::<Result<_>>()?,
            requests: recording.interactions.into_iter().map(Request::from).collect(),
        })
    }

    /// The first recorded PUT of a path, from a request on.
    pub(super) fn first_put(&self, path: &str, index: usize) -> Option<&Request> {
        self.requests.iter().skip(index).find(|request| request.method == "PUT" && request.path == path)
    }

    /// Everything that was PUT.
    pub(super) fn put_paths(&self) -> BTreeSet<String> {
        self.requests.iter().filter(|request| request.method == "PUT").map(|request| request.path.clone()).collect()
    }

    /// The api-versions with which a path was deleted, or written where no deletion is recorded.
    pub(super) fn delete_versions(&self, path: &str) -> BTreeSet<&str> {
        let with = |method: &str| {
            let of = self.requests.iter().filter(|request| request.method == method && request.path == path);
            of.map(|request| request.api_version.as_str()).collect::<BTreeSet<_>>()
        };
        let deleted = with("DELETE");
        if deleted.is_empty() { with("PUT") } else { deleted }
    }
}

impl Step {
    fn read(step: &Value) -> Result<Self> {
        let text = |key: &str| step[key].as_str().map(str::to_owned);
        if let Some(names) = step["apply"].as_array() {
            return Ok(Self::Apply(names.iter().filter_map(Value::as_str).map(str::to_owned).collect()));
        }
        if step["expect"]["ready"] == "all" {
            return Ok(Self::Expect);
        }
        if let Some(object) = text("patch") {
            let first_put = step["first_put"].as_u64().and_then(|index| usize::try_from(index).ok());
            let first_put = first_put.context("a patch without first_put")?;
            return Ok(Self::Patch { object, merge: step["merge"].clone(), first_put });
        }
        match text("delete") {
            Some(object) => Ok(Self::Delete(object)),
            None => bail!("no such step is known: {step}"),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Apply(names) => write!(f, "apply {}", names.join(", ")),
            Self::Expect => f.write_str("expect all ready"),
            Self::Patch { object, .. } => write!(f, "patch {object}"),
            Self::Delete(object) => write!(f, "delete {object}"),
        }
    }
}

impl From<Interaction> for Request {
    fn from(interaction: Interaction) -> Self {
        let Interaction { method, url, request_body } = interaction;
        let (path, query) = url.split_once('?').unwrap_or((&url, ""));
        let version = query.split('&').find_map(|part| part.strip_prefix("api-version="));
        Self {
            method,
            path: path.to_lowercase(),
            api_version: version.unwrap_or_default().to_owned(),
            body: request_body,
        }
    }
}
