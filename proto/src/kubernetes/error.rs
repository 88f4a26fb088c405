//! What is said of a failed call of the API server: its own words.
//!
//! `kube::Error` prints the whole `Status` of a refusal, with causes that are meant for programs; people need its message.

use kube::core::Status;
use kube::runtime::watcher;

/// A call of the API server that failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It refused the call.
    #[error("{}", words(.0))]
    Refused(Box<Status>),
    /// The call did not reach it, or its answer did not reach us.
    #[error("failed to reach the API server")]
    Unreachable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Its answer was not understood, or the call could not be made.
    #[error(transparent)]
    Call(Box<kube::Error>),
    /// A watch broke for another reason.
    #[error(transparent)]
    Watch(Box<watcher::Error>),
}

impl Error {
    /// The API server's refusal; none if it did not answer.
    pub fn status(&self) -> Option<&Status> {
        match self {
            Self::Refused(status) => Some(status),
            Self::Unreachable(_) | Self::Call(_) | Self::Watch(_) => None,
        }
    }

    /// Somebody else wrote the object in between, or an object of this name exists.
    pub fn is_conflict(&self) -> bool {
        self.status().is_some_and(|status| status.code == 409 || status.is_conflict())
    }

    /// The object, its kind or its namespace does not exist.
    pub fn is_not_found(&self) -> bool {
        self.status().is_some_and(Status::is_not_found)
    }

    /// Flotilla's service account may not do this.
    pub fn is_forbidden(&self) -> bool {
        self.status().is_some_and(Status::is_forbidden)
    }
}

impl From<kube::Error> for Error {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::Refused(status),
            kube::Error::Service(source) => Self::Unreachable(source),
            kube::Error::HyperError(source) => Self::Unreachable(source.into()),
            error => Self::Call(Box::new(error)),
        }
    }
}

impl From<watcher::Error> for Error {
    fn from(error: watcher::Error) -> Self {
        use watcher::Error::{InitialListFailed, WatchError, WatchFailed, WatchStartFailed};
        match error {
            InitialListFailed(error) | WatchStartFailed(error) | WatchFailed(error) => error.into(),
            WatchError(status) => Self::Refused(status),
            error @ watcher::Error::NoResourceVersion => Self::Watch(Box::new(error)),
        }
    }
}

/// The message; a proxy's answer may have none.
fn words(status: &Status) -> String {
    if !status.message.is_empty() {
        return status.message.clone();
    }
    format!("the API server answered {} {}", status.code, status.reason).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(message: &str) -> Box<Status> {
        Status::failure(message, "Invalid").with_code(422).boxed()
    }

    #[test]
    fn refusal_is_told_in_the_words_of_the_api_server() {
        let told = Error::from(kube::Error::Api(refusal("spec.versions: Invalid value")));
        assert_eq!(told.to_string(), "spec.versions: Invalid value");
        assert!(std::error::Error::source(&told).is_none(), "nothing is told twice");
        assert_eq!(Error::from(kube::Error::Api(refusal(""))).to_string(), "the API server answered 422 Invalid");
    }

    #[test]
    fn broken_watch_is_told_alike() {
        let list = watcher::Error::InitialListFailed(kube::Error::Api(refusal("no")));
        for error in [list, watcher::Error::WatchError(refusal("no"))] {
            assert_eq!(Error::from(error).to_string(), "no");
        }
        let other = watcher::Error::NoResourceVersion;
        assert_eq!(Error::from(watcher::Error::NoResourceVersion).to_string(), other.to_string());
    }

    #[test]
    fn unreachable_server_is_said_once_and_the_cause_is_kept() {
        let told = Error::from(kube::Error::Service("connection refused".into()));
        assert_eq!(told.to_string(), "failed to reach the API server");
        assert_eq!(std::error::Error::source(&told).map(ToString::to_string).as_deref(), Some("connection refused"));
        assert!(!told.is_conflict() && !told.is_not_found() && !told.is_forbidden());
    }
}
