//! The reader's folder: the tree as it is cloned and built, and the files that the commands name.

use std::env;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use flotilla_testbed::{fleet, tools};
use tempfile::TempDir;

use crate::markdown::root;

const GROUP: &str = "\
apiVersion: resources.azure.com/v1api20200601
kind: ResourceGroup
metadata: {name: harbour, namespace: default}
spec: {location: westus2}
---
";
const ACCOUNT: &str = "\
apiVersion: storage.azure.com/v20250601
kind: StorageAccount
metadata: {name: harbourstore, namespace: default}
spec:
  location: westus2
  kind: StorageV2
  owner: {name: harbour}
  sku: {name: Standard_LRS}
";
const OVERLAY: &str = "\
apiVersion: resources.azure.com/v1api20200601
kind: ResourceGroup
metadata: {name: pier}
spec: {location: '${REGION}'}
";

/// Makes recipes expand and prints them: running `make test` in a test would have no end.
const MAKE: &str = "exec \"$REAL_MAKE\" --no-print-directory -n -C \"$TREE\" \"$@\"";
/// What cargo would run after building it once more with the features of one package only.
const CARGO: &str = "\
while [[ $1 != --bin ]]; do shift; done
program=$2; shift 3
exec \"$SCRATCH/target/debug/$program\" \"$@\"";

/// The folder, removed at the end.
pub(crate) struct Scratch {
    directory: TempDir,
    pub(crate) environment: Vec<(String, String)>,
}

impl Scratch {
    pub(crate) fn create() -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("flotilla-docs-").tempdir()?;
        let folder = directory.path();
        let program = fleet::program()?;
        let built = program.parent().context("the program is in a folder")?;
        for name in ["crds", "deploy", "docs", "scripts"] {
            symlink(fs::canonicalize(root().join(name))?, folder.join(name))?;
        }
        fs::create_dir_all(folder.join("target"))?;
        symlink(built, folder.join("target/debug"))?;

        for (name, text) in [
            ("my-storage-account.yaml", format!("{GROUP}{ACCOUNT}")),
            ("my-app.yaml", format!("{GROUP}{ACCOUNT}")),
            ("FILE", format!("{GROUP}{ACCOUNT}")),
            ("base/group.yaml", GROUP.to_owned()),
            ("overlay.yaml", OVERLAY.to_owned()),
            ("kustomization.yaml", "resources: [my-app.yaml]\n".to_owned()),
        ] {
            let path = folder.join(name);
            fs::create_dir_all(path.parent().unwrap_or(folder))?;
            fs::write(path, text)?;
        }

        let programs = folder.join("bin");
        fs::create_dir(&programs)?;
        symlink(&program, programs.join("flotilla"))?;
        for name in ["helm", "kubectl"] {
            symlink(tools::find(name)?, programs.join(name))?;
        }
        for (name, script) in [("make", MAKE), ("cargo", CARGO)] {
            let path = programs.join(name);
            fs::write(&path, format!("#!/usr/bin/env bash\nset -euo pipefail\n{script}\n"))?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        }
        let environment = environment(folder, &programs)?;
        Ok(Self { directory, environment })
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }
}

/// Little of the caller's: a kubeconfig, a credential or options of make must not change what the commands do.
fn environment(folder: &Path, programs: &Path) -> Result<Vec<(String, String)>> {
    let path = env::var("PATH").context("PATH is set")?;
    // The control plane finds its servers in the caller's cache; caches of kubectl and helm stay in the folder.
    let cache = env::var("XDG_CACHE_HOME").ok().filter(|cache| !cache.is_empty()).map(PathBuf::from);
    let cache = cache.or_else(|| env::home_dir().map(|home| home.join(".cache"))).context("there is a home")?;
    let mut environment = vec![
        ("PATH".to_owned(), format!("{}:{path}", programs.display())),
        ("HOME".to_owned(), folder.display().to_string()),
        ("XDG_CACHE_HOME".to_owned(), cache.display().to_string()),
        ("KUBECACHEDIR".to_owned(), folder.join("kubectl-cache").display().to_string()),
        ("HELM_CACHE_HOME".to_owned(), folder.join("helm-cache").display().to_string()),
        ("SCRATCH".to_owned(), folder.display().to_string()),
        ("TREE".to_owned(), fs::canonicalize(root())?.display().to_string()),
        ("REAL_MAKE".to_owned(), tools::find("make")?.display().to_string()),
        ("COLUMNS".to_owned(), "120".to_owned()),
    ];
    let kept = ["KUBEBUILDER_ASSETS", "TMPDIR", "LANG"];
    environment.extend(kept.iter().filter_map(|name| Some(((*name).to_owned(), env::var(name).ok()?))));
    Ok(environment)
}
