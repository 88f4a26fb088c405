//! Where etcd and kube-apiserver come from: `KUBEBUILDER_ASSETS` if set, else the cache that `make setup` fills.
//!
//! The versions are those that the Go modules beside this crate pin; no other place names them.

use std::env;
use std::path::{Path, PathBuf};

use super::Error;
use crate::tools;

const API_SERVER_MODULE: &str = include_str!("../../control-plane/apiserver/go.mod");
const ETCD_MODULE: &str = include_str!("../../control-plane/etcd/go.mod");

/// The two programs a control plane is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binaries {
    /// etcd, 3.5 or newer.
    pub etcd: PathBuf,
    /// kube-apiserver, 1.30 or newer.
    pub api_server: PathBuf,
}

impl Binaries {
    /// Looks where the environment says, else in the cache.
    pub fn find() -> Result<Self, Error> {
        let assets = env::var_os("KUBEBUILDER_ASSETS").filter(|value| !value.is_empty());
        Self::inside(&assets.map_or_else(cache_dir, PathBuf::from))
    }

    /// Takes both programs from one directory.
    pub fn inside(dir: &Path) -> Result<Self, Error> {
        let found = |name: &str| {
            let path = dir.join(name);
            if path.is_file() { Ok(path) } else { Err(Error::MissingBinary { path }) }
        };
        Ok(Self { etcd: found("etcd")?, api_server: found("kube-apiserver")? })
    }
}

/// The Kubernetes version that the API server module pins, such as `v1.37.2`.
pub fn kubernetes_version() -> &'static str {
    pinned(API_SERVER_MODULE, "k8s.io/kubernetes")
}

/// The etcd version that the etcd module pins, such as `v3.7.3`.
pub fn etcd_version() -> &'static str {
    pinned(ETCD_MODULE, "go.etcd.io/etcd/server/v3")
}

/// `$XDG_CACHE_HOME/flotilla/control-plane/<kubernetes>-etcd<etcd>`: a new version never meets an old one's files.
pub fn cache_dir() -> PathBuf {
    let versions = format!("{}-etcd{}", kubernetes_version(), etcd_version().trim_start_matches('v'));
    tools::cache_dir().join("control-plane").join(versions)
}

/// The version in the line `[require] <module> <version>`; `replace` lines have other words in second place.
fn pinned<'a>(go_mod: &'a str, module: &str) -> &'a str {
    go_mod
        .lines()
        .map(|line| line.trim_start_matches("require "))
        .filter_map(|line| line.trim().split_once(' '))
        .find_map(|(name, version)| (name == module && version.starts_with('v')).then_some(version))
        .unwrap_or("unpinned")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_the_go_modules() {
        for version in [kubernetes_version(), etcd_version()] {
            assert!(version.starts_with('v') && version.split('.').count() == 3, "{version} is not a release");
        }
        assert_eq!(pinned("require (\n\ta/b v1.2.3\n\ta/b/c v4.5.6\n)", "a/b/c"), "v4.5.6");
        assert_eq!(pinned("require a/b v1.2.3", "a/b"), "v1.2.3");
        assert_eq!(pinned("a/b => a/c v9.9.9", "a/b"), "unpinned");
    }

    #[test]
    fn missing_binary_is_named_with_the_way_to_get_it() {
        let empty = tempfile::tempdir().unwrap();
        let message = Binaries::inside(empty.path()).unwrap_err().to_string();
        assert!(message.contains(&empty.path().join("etcd").display().to_string()), "{message}");
        assert!(message.contains("make setup"), "{message}");

        std::fs::write(empty.path().join("etcd"), "").unwrap();
        let message = Binaries::inside(empty.path()).unwrap_err().to_string();
        assert!(message.contains("kube-apiserver"), "{message}");
    }
}
