//! Where tools print: colours only on a terminal, and no fuss when the reader goes away.

use std::io::{self, Write};

use anyhow::{Context as _, Result};
use clap::builder::styling::AnsiColor;
use serde::Serialize;

/// What a tool prints on.
pub(crate) type Out<'a> = &'a mut dyn Write;

/// Prints a value as JSON.
pub(crate) fn json(out: Out<'_>, value: &impl Serialize) -> Result<()> {
    serde_json::to_writer_pretty(&mut *out, value).context("failed to print")?;
    writeln!(out).context("failed to print")
}

/// Prints a value as a YAML document.
pub(crate) fn yaml(out: Out<'_>, value: &impl Serialize) -> Result<()> {
    let text = serde_saphyr::to_string(value).context("failed to print as YAML")?;
    out.write_all(text.as_bytes()).context("failed to print")?;
    if text.ends_with('\n') { Ok(()) } else { writeln!(out).context("failed to print") }
}

/// Runs `print` with the standard output. It is not an error if the reader goes away, as `head` does.
pub(crate) fn to_stdout<T: Default>(print: impl FnOnce(Out<'_>) -> Result<T>) -> Result<T> {
    let mut out = io::BufWriter::new(anstream::stdout().lock());
    let result = print(&mut out).and_then(|value| {
        out.flush().context("failed to print")?;
        Ok(value)
    });
    match result {
        Err(error) if is_broken_pipe(&error) => Ok(T::default()),
        other => other,
    }
}

/// Says why a tool failed, with all causes.
pub(crate) fn failure(error: &anyhow::Error) {
    let style = AnsiColor::Red.on_default().bold();
    // If this fails too, there is no way left to report it.
    let _ = writeln!(anstream::stderr().lock(), "{style}error{style:#}: {error:#}");
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let io = cause.downcast_ref::<io::Error>().map(io::Error::kind);
        let json = cause.downcast_ref::<serde_json::Error>().and_then(serde_json::Error::io_error_kind);
        io.or(json) == Some(io::ErrorKind::BrokenPipe)
    })
}
