//! The temporary directory of one control plane, and the removal of those whose process was killed.
//!
//! Each directory holds a lock file that its owner keeps locked. The kernel lets go of the lock when the owner ends,
//! so a directory whose lock can be had has no owner, and the next start removes it.

use std::env;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::Error;

const PREFIX: &str = "flotilla-control-plane-";
const LOCK: &str = "owner.lock";

/// Held as long as the control plane runs; removed with everything in it on drop.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    /// Kept for its lock.
    _owner: File,
}

impl Directory {
    /// Makes a new one and removes the abandoned ones beside it.
    pub(super) fn create() -> Result<Self, Error> {
        let parent = env::temp_dir();
        sweep(&parent);
        Self::inside(&parent).map_err(|source| Error::File { path: parent, source })
    }

    fn inside(parent: &Path) -> io::Result<Self> {
        // Locked before it gets a name that a sweep considers.
        let hidden = tempfile::Builder::new().prefix(&format!(".{PREFIX}")).tempdir_in(parent)?;
        let owner = File::create(hidden.path().join(LOCK))?;
        owner.lock()?;
        let name = hidden.path().file_name().unwrap_or_default().to_string_lossy().trim_start_matches('.').to_owned();
        let path = parent.join(name);
        fs::rename(hidden.path(), &path)?;
        // Its old name no longer exists, so there is nothing left for it to remove.
        let _ = hidden.keep();
        Ok(Self { path, _owner: owner })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "Failed to remove directory");
        }
    }
}

/// Best effort: the next start retries what cannot be removed now.
fn sweep(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        if entry.file_name().to_string_lossy().starts_with(PREFIX) && is_abandoned(&entry.path()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn is_abandoned(directory: &Path) -> bool {
    File::open(directory.join(LOCK)).is_ok_and(|lock| lock.try_lock().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sweep_removes_abandoned_directories_and_no_others() {
        let parent = tempfile::tempdir().unwrap();
        let held = Directory::inside(parent.path()).unwrap();
        let abandoned = parent.path().join(format!("{PREFIX}gone"));
        let foreign = parent.path().join("something-else");
        for directory in [&abandoned, &foreign] {
            fs::create_dir(directory).unwrap();
            File::create(directory.join(LOCK)).unwrap();
        }

        sweep(parent.path());

        assert!(held.path().exists(), "removed a directory in use");
        assert!(foreign.exists(), "removed a directory that is not ours");
        assert!(!abandoned.exists(), "left an abandoned directory");
    }
}
