//! Where the recorded target shapes and cases are, if they are on this machine.

use std::path::{Path, PathBuf};

/// The folder with `parity/`, from `FLOTILLA_SHARED` or beside the repository. None, loudly, where there is none.
#[expect(clippy::disallowed_methods, reason = "a test's own switch")]
pub(crate) fn folder() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared");
    let folder = std::env::var_os("FLOTILLA_SHARED").map_or(beside, PathBuf::from);
    if folder.join("parity").is_dir() {
        return Some(folder);
    }
    println!(
        "SKIPPED: no recorded shapes and cases in {}; set FLOTILLA_SHARED to the folder that has parity/",
        folder.display()
    );
    None
}
