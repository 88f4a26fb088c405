//! Calls and answers, free of any HTTP library.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;

/// The methods ARM knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Method {
    /// Reads.
    Get,
    /// Asks whether something exists.
    Head,
    /// Creates or replaces.
    Put,
    /// Changes in part.
    Patch,
    /// Deletes.
    Delete,
    /// Carries out an action.
    Post,
}

/// The kinds of calls that ARM counts apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Class {
    Read,
    Write,
    Delete,
}

impl Class {
    /// The word in the names of ARM's headers.
    pub(crate) fn plural(self) -> &'static str {
        match self {
            Self::Read => "reads",
            Self::Write => "writes",
            Self::Delete => "deletes",
        }
    }
}

impl Method {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "GET" => Self::Get,
            "HEAD" => Self::Head,
            "PUT" => Self::Put,
            "PATCH" => Self::Patch,
            "DELETE" => Self::Delete,
            "POST" => Self::Post,
            _ => return None,
        })
    }

    /// The bucket it is counted in: actions are writes, also those that only list keys.
    pub(crate) fn class(self) -> Class {
        match self {
            Self::Get | Self::Head => Class::Read,
            Self::Put | Self::Patch | Self::Post => Class::Write,
            Self::Delete => Class::Delete,
        }
    }

    /// The word in the name of a permission.
    pub(crate) fn permission(self) -> &'static str {
        match self {
            Self::Get | Self::Head => "read",
            Self::Put | Self::Patch => "write",
            Self::Delete => "delete",
            Self::Post => "action",
        }
    }
}

/// A call as it arrived.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) method: Method,
    /// The decoded path, with a leading and without a trailing slash.
    pub(crate) path: String,
    pub(crate) query: Vec<(String, String)>,
    pub(crate) headers: Headers,
    pub(crate) body: Vec<u8>,
}

/// The request headers that matter here.
#[derive(Debug, Clone, Default)]
pub(crate) struct Headers {
    pub(crate) authorization: Option<String>,
    pub(crate) user_agent: Option<String>,
    pub(crate) client_request_id: Option<String>,
    pub(crate) correlation_id: Option<String>,
    pub(crate) content_type: Option<String>,
    pub(crate) if_match: Option<String>,
    pub(crate) if_none_match: Option<String>,
}

impl Call {
    /// The first value of a query parameter; their names have no letter case for ARM.
    pub(crate) fn query(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    pub(crate) fn api_version(&self) -> Option<&str> {
        self.query("api-version").filter(|version| !version.is_empty())
    }
}

/// An answer as it will be sent.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(Cow<'static, str>, String)>,
    pub(crate) body: Body,
    /// The code of a refusal, for the journal.
    pub(crate) code: Option<Cow<'static, str>>,
    /// The long-running operation that the call began or showed, for the journal.
    pub(crate) operation: Option<Arc<str>>,
}

/// A body, rendered as late as possible so that no lock is held meanwhile.
#[derive(Debug, Clone)]
pub(crate) enum Body {
    Empty,
    Json(Arc<Value>),
    Text(String),
}

impl Answer {
    pub(crate) fn empty(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: Body::Empty, code: None, operation: None }
    }

    pub(crate) fn json(status: u16, body: Value) -> Self {
        Self::shared(status, Arc::new(body))
    }

    pub(crate) fn shared(status: u16, body: Arc<Value>) -> Self {
        Self { body: Body::Json(body), ..Self::empty(status) }
    }

    pub(crate) fn header(mut self, name: impl Into<Cow<'static, str>>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }
}
