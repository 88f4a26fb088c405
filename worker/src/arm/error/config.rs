//! Settings that cannot be used.

/// Settings that cannot be used; the process should not start with them.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A variable whose value makes no sense.
    #[error("{key} is {value:?}, but must be {wanted}")]
    Value {
        /// Name of the variable.
        key: &'static str,
        /// What it says.
        value: String,
        /// What it should say.
        wanted: &'static str,
    },

    /// The extra CA cannot be read.
    #[error("failed to read the certificates of {path}")]
    Ca {
        /// Path of the PEM file.
        path: std::path::PathBuf,
        /// Cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },

    /// The HTTP client cannot be built.
    #[error("failed to build the HTTP client")]
    Client(#[source] reqwest::Error),
}
