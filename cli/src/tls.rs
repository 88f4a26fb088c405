//! The certificates of mutual TLS, read once at the start.

use std::path::Path;

use anyhow::{Context as _, Result};

use crate::args::Tls;

/// Certificate, key and authority, as PEM text.
pub(crate) struct Pem {
    pub(crate) certificate: String,
    pub(crate) key: String,
    pub(crate) ca: String,
}

/// Reads the files that the flags name; none if the flags name none.
pub(crate) fn read(flags: &Tls) -> Result<Option<Pem>> {
    let (Some(certificate), Some(key), Some(ca)) = (&flags.tls_cert, &flags.tls_key, &flags.tls_ca) else {
        return Ok(None);
    };
    Ok(Some(Pem { certificate: text(certificate)?, key: text(key)?, ca: text(ca)? }))
}

fn text(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("failed to read {}", path.display()))
}
