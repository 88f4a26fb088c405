//! The certificates of mutual TLS, read once at the start.

use std::path::Path;

use anyhow::{Context as _, Result};
use flotilla_proto::Tls;

use crate::args;

/// Reads the files that the flags name; none if the flags name none.
pub(crate) fn read(flags: &args::Tls) -> Result<Option<Tls>> {
    let (Some(certificate), Some(key), Some(ca)) = (&flags.tls_cert, &flags.tls_key, &flags.tls_ca) else {
        return Ok(None);
    };
    Ok(Some(Tls { certificate: text(certificate)?, key: text(key)?, ca: text(ca)? }))
}

fn text(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("failed to read {}", path.display()))
}
