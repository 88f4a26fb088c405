//! What can go wrong with a control plane, said so that the reader knows what to do next.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::{port, process};

/// Why a control plane could not be started, reached or stopped.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Neither the environment nor the cache has the program.
    #[error(
        "{} is missing: run `make setup`, which builds it into the cache, or set KUBEBUILDER_ASSETS to a directory \
         with etcd and kube-apiserver",
        path.display()
    )]
    MissingBinary {
        /// Where it was looked for.
        path: PathBuf,
    },

    /// A server runs, but does not say that it is ready.
    #[error("{name} was not ready within {within:?} ({reason}); its last words:\n{log}")]
    NotReady {
        /// The server.
        name: &'static str,
        /// How long it was given.
        within: Duration,
        /// Its last answer.
        reason: String,
        /// The end of its log.
        log: String,
    },

    /// A file of the control plane could not be written or read.
    #[error("failed to use {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },

    /// A server could not be started or stopped, or ended unasked.
    #[error(transparent)]
    Process(#[from] process::Error),

    /// All ports of the range are taken.
    #[error(transparent)]
    Port(#[from] port::NoneFree),

    /// A certificate could not be made.
    #[error("failed to make a certificate")]
    Certificate(#[from] rcgen::Error),

    /// The kubeconfig that was just written is not one.
    #[error("failed to load the kubeconfig")]
    Kubeconfig(#[from] kube::config::KubeconfigError),

    /// The API server refused a request of the launcher's own.
    #[error("failed to {action}")]
    Request {
        /// What was asked for.
        action: String,
        /// The server's answer.
        source: Box<kube::Error>,
    },

    /// The audit log has a line that is not an event.
    #[error("failed to read line {line} of the audit log")]
    Audit {
        /// The line, from 1.
        line: usize,
        /// The parser's reason.
        source: serde_json::Error,
    },
}

impl Error {
    pub(super) fn request(action: impl Into<String>, source: kube::Error) -> Self {
        Self::Request { action: action.into(), source: Box::new(source) }
    }
}
