//! Makes the committed catalog: `catalog TYPES-FOLDER [--check]`. The recipe is `make catalog TYPES=<folder>`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use flotilla_crds::{Catalog, changes, import};

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "a program for a terminal")]
fn main() -> ExitCode {
    match run() {
        Ok(lines) => {
            println!("{lines}");
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<String, String> {
    let mut types: Option<PathBuf> = None;
    let mut check = false;
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "--check" => check = true,
            flag if flag.starts_with('-') => {
                return Err(format!("unknown option {flag}; use: catalog TYPES-FOLDER [--check]"));
            }
            folder if types.is_none() => types = Some(folder.into()),
            other => return Err(format!("one folder is enough, and {other} is a second one")),
        }
    }
    let types = types.ok_or("name the folder with Azure's type data: catalog TYPES-FOLDER [--check]")?;
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("data");
    let imported = import(&types, &data, &[]).map_err(chain)?;
    let target = data.join("catalog.bin");
    let old = std::fs::read(&target).unwrap_or_default();
    let mut lines = match Catalog::from_bytes(old.clone().leak()) {
        Ok(before) => changes(&before, &Catalog::from_bytes(imported.bytes.clone().leak()).map_err(chain)?),
        Err(error) => vec![format!("everything is new, as {} can't be read: {error}", target.display())],
    };
    lines.extend(imported.unused_facts.iter().map(|fact| format!("unused   {fact}")));
    lines.push(format!("{}, {} bytes packed", imported.report, imported.bytes.len()));
    if check && old != imported.bytes {
        return Err(format!("{}\n{} is not what these inputs give", lines.join("\n"), target.display()));
    }
    if !check {
        std::fs::write(&target, &imported.bytes).map_err(|e| format!("failed to write {}: {e}", target.display()))?;
    }
    Ok(lines.join("\n"))
}

fn chain(error: impl std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
