//! What a caller may ask of a control plane.

use std::time::Duration;

use super::Binaries;

/// How to start and stop a control plane; the default suits tests.
#[derive(Clone, Debug)]
pub struct Options {
    /// The programs; by default they are looked for by [`Binaries::find`].
    pub binaries: Option<Binaries>,
    /// Feature gates of the API server, such as `("ShardedListAndWatch", true)`.
    pub feature_gates: Vec<(String, bool)>,
    /// Further arguments of the API server; the last of equal ones counts.
    pub api_server_args: Vec<String>,
    /// How long each server may take until it is ready. It takes 4 s on two idle cores; while both compile it takes
    /// many times that.
    pub ready_within: Duration,
    /// How long each server may take to stop before it is killed.
    pub stop_within: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            binaries: None,
            feature_gates: Vec::new(),
            api_server_args: Vec::new(),
            ready_within: Duration::from_mins(2),
            stop_within: Duration::from_secs(15),
        }
    }
}

impl Options {
    /// Turns a feature gate of the API server on.
    pub fn with_feature(mut self, gate: &str) -> Self {
        self.feature_gates.push((gate.to_owned(), true));
        self
    }
}
