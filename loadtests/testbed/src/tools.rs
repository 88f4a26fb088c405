//! Programs of others that tests and the demo run: kubectl, helm, prometheus, promtool.
//!
//! `make setup` brings them into one directory of the cache; the machine's own are taken where that has none.

use std::env;
use std::path::{Path, PathBuf};

/// The program is neither in the cache nor on the PATH.
#[derive(Debug, thiserror::Error)]
#[error("{name} is missing: run `make setup`, which brings it into {}, or put it on the PATH", cache.display())]
pub struct Missing {
    /// The program.
    pub name: String,
    /// Where `make setup` would put it.
    pub cache: PathBuf,
}

/// Where the program of this name is.
pub fn find(name: &str) -> Result<PathBuf, Missing> {
    let cache = cache_dir().join("bin");
    let path = env::var_os("PATH").unwrap_or_default();
    first(name, std::iter::once(cache.clone()).chain(env::split_paths(&path)))
        .ok_or_else(|| Missing { name: name.to_owned(), cache })
}

/// `$XDG_CACHE_HOME/flotilla`, else `~/.cache/flotilla`: outside the tree, so that a clean clone finds it filled.
pub(crate) fn cache_dir() -> PathBuf {
    let set = env::var_os("XDG_CACHE_HOME").filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = set.or_else(|| env::home_dir().map(|home| home.join(".cache"))).unwrap_or_else(env::temp_dir);
    base.join("flotilla")
}

fn first(name: &str, directories: impl IntoIterator<Item = PathBuf>) -> Option<PathBuf> {
    directories.into_iter().map(|directory| directory.join(name)).find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn first_directory_with_the_program_wins() {
        let (cache, machine) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let directories = || [cache.path().to_owned(), machine.path().to_owned()];
        fs::copy("/bin/sh", machine.path().join("sh")).unwrap();
        fs::write(cache.path().join("sh"), "a file, but no program").unwrap();
        assert_eq!(first("sh", directories()), Some(machine.path().join("sh")));

        fs::remove_file(cache.path().join("sh")).unwrap();
        fs::copy("/bin/sh", cache.path().join("sh")).unwrap();
        assert_eq!(first("sh", directories()), Some(cache.path().join("sh")));
    }

    #[test]
    fn missing_program_is_named_with_the_way_to_get_it() {
        let message = find("no-such-program").unwrap_err().to_string();
        assert!(message.contains("no-such-program") && message.contains("make setup"), "{message}");
    }
}
