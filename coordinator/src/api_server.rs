//! What is said of a failed call of the API server: its own words.
//!
//! `kube::Error` prints the whole `Status` of a refusal, with the causes that are there for programs; people need its message.

use kube::core::Status;
use kube::runtime::watcher;

/// A call of the API server that failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It refused the call.
    #[error("{}", words(.0))]
    Refused(Box<Status>),
    /// It was not reached, or not understood.
    #[error(transparent)]
    Call(Box<kube::Error>),
    /// A watch broke for another reason.
    #[error(transparent)]
    Watch(Box<watcher::Error>),
}

impl From<kube::Error> for Error {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::Refused(status),
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
}
