//! The real kubectl against the local API server.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use flotilla_testbed::control_plane::ControlPlane;
use flotilla_testbed::tools;
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::Command;

/// kubectl in one namespace, with a home of its own.
pub(crate) struct Kubectl {
    program: PathBuf,
    kubeconfig: PathBuf,
    namespace: String,
    home: TempDir,
}

/// What kubectl said.
#[derive(Debug)]
pub(crate) struct Said {
    /// The exit code.
    pub(crate) code: i32,
    /// Standard output.
    pub(crate) out: String,
    /// Standard error: warnings and refusals.
    pub(crate) err: String,
}

impl Kubectl {
    /// kubectl for a namespace.
    pub(crate) fn new(control_plane: &ControlPlane, namespace: &str) -> Self {
        Self {
            program: tools::find("kubectl").unwrap(),
            kubeconfig: control_plane.kubeconfig_path(),
            namespace: namespace.to_owned(),
            home: tempfile::tempdir().unwrap(),
        }
    }

    /// Runs kubectl.
    pub(crate) async fn run(&self, args: &[&str]) -> Said {
        self.command(args.iter().map(OsStr::new)).await
    }

    /// Runs kubectl, which must succeed; gives its output.
    pub(crate) async fn ok(&self, args: &[&str]) -> String {
        let said = self.run(args).await;
        assert_eq!(said.code, 0, "kubectl {args:?}: {}", said.err);
        said.out
    }

    /// An object as JSON.
    pub(crate) async fn json(&self, resource: &str, name: &str) -> Value {
        serde_json::from_str(&self.ok(&["get", resource, name, "--output=json"]).await).unwrap()
    }

    /// Writes a manifest to a file and gives its path.
    pub(crate) fn file(&self, object: &Value) -> String {
        let path = self.home.path().join("manifest.json");
        fs::write(&path, object.to_string()).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// `kubectl edit` by somebody who replaces one text by another.
    pub(crate) async fn edit(&self, resource: &str, name: &str, from: &str, to: &str) -> Said {
        let editor = self.home.path().join("editor");
        fs::write(&editor, format!("#!/bin/sh\nexec sed -i 's|{from}|{to}|' \"$1\"\n")).unwrap();
        fs::set_permissions(&editor, fs::Permissions::from_mode(0o755)).unwrap();
        self.command(["edit", resource, name].map(OsStr::new)).await
    }

    async fn command<'a>(&self, args: impl IntoIterator<Item = &'a OsStr>) -> Said {
        let output = Command::new(&self.program)
            .args(args)
            .args(["--namespace", &self.namespace])
            .env("KUBECONFIG", &self.kubeconfig)
            .env("HOME", self.home.path())
            .env("KUBE_EDITOR", self.editor())
            .stdin(Stdio::null())
            .output()
            .await
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Said { code: output.status.code().unwrap_or(-1), out: text(&output.stdout), err: text(&output.stderr) }
    }

    fn editor(&self) -> PathBuf {
        Path::new(self.home.path()).join("editor")
    }
}
