//! The local control plane as its users see it: it serves, each test has its own namespace, the log tells who did
//! what, and nothing of it stays behind.
#![expect(clippy::unwrap_used, reason = "what fails in a test's helper fails the test")]

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use flotilla_testbed::control_plane::{ControlPlane, Options, kubernetes_version};
use flotilla_testbed::tools;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ObjectMeta, PostParams};
use kube::{Api, ResourceExt};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

fn config_map(name: &str) -> ConfigMap {
    ConfigMap { metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }, ..ConfigMap::default() }
}

#[tokio::test]
async fn serves_the_pinned_version() {
    let version = ControlPlane::shared().await.client().apiserver_version().await.unwrap();
    assert_eq!(version.git_version, kubernetes_version());
}

#[tokio::test]
async fn each_test_has_a_namespace_of_its_own() {
    let control_plane = ControlPlane::shared().await;
    let mut seen = BTreeSet::new();
    for _ in 0..3 {
        let namespace = control_plane.namespace("own").await.unwrap();
        assert!(namespace.starts_with("own-"), "{namespace}");
        let api: Api<ConfigMap> = Api::namespaced(control_plane.client(), &namespace);
        api.create(&PostParams::default(), &config_map("same-name")).await.unwrap();
        seen.insert(namespace);
    }
    assert_eq!(seen.len(), 3);
}

#[tokio::test]
async fn api_server_comes_back_on_the_same_address_with_the_same_objects() {
    // Not the shared one: the other tests would notice. Its gate shows that options reach the server.
    let control_plane = ControlPlane::start(Options::default().with_feature("ShardedListAndWatch")).await.unwrap();
    let api: Api<ConfigMap> = Api::namespaced(control_plane.client(), "default");
    let made = api.create(&PostParams::default(), &config_map("lasting")).await.unwrap();

    control_plane.kill_api_server().await.unwrap();
    assert!(api.get("lasting").await.is_err(), "a killed server answered");
    control_plane.restart_api_server().await.unwrap();

    assert_eq!(api.get("lasting").await.unwrap().uid(), made.uid());
    let metrics = http::Request::get("/metrics").body(Vec::new()).unwrap();
    let metrics = control_plane.client().request_text(metrics).await.unwrap();
    assert!(metrics.contains(r#"kubernetes_feature_enabled{name="ShardedListAndWatch",stage="ALPHA"} 1"#));

    let directory = control_plane.directory().to_owned();
    control_plane.stop().await.unwrap();
    assert!(!directory.exists(), "the directory was left behind");
}

#[tokio::test]
async fn audit_log_tells_who_wrote_what() {
    let control_plane = ControlPlane::shared().await;
    let namespace = control_plane.namespace("audit").await.unwrap();
    let mut config = control_plane.client_config().clone();
    config.headers.push(("user-agent".parse().unwrap(), "audited/1".parse().unwrap()));
    let api: Api<ConfigMap> = Api::namespaced(config.try_into().unwrap(), &namespace);

    let made = api.create(&PostParams::default(), &config_map("watched")).await.unwrap();
    api.create(&PostParams::default(), &config_map("watched")).await.unwrap_err();
    api.replace("watched", &PostParams::default(), &made).await.unwrap();
    api.get("watched").await.unwrap();
    api.delete("watched", &DeleteParams::default()).await.unwrap();

    let events = control_plane.audit_events().unwrap();
    let seen: Vec<_> = events
        .iter()
        .filter(|event| event.is_about("configmaps", &namespace, "watched"))
        .map(|event| (event.verb.as_str(), event.response.code, event.is_write(), event.user_agent.as_str()))
        .collect();
    assert_eq!(
        seen,
        [
            ("create", 201, true, "audited/1"),
            ("create", 409, false, "audited/1"),
            ("update", 200, true, "audited/1"),
            ("get", 200, false, "audited/1"),
            ("delete", 200, true, "audited/1"),
        ]
    );
}

#[tokio::test]
async fn kubectl_reaches_it_through_the_kubeconfig() {
    let control_plane = ControlPlane::shared().await;
    let namespace = control_plane.namespace("kubectl").await.unwrap();

    let output = Command::new(tools::find("kubectl").unwrap())
        .args(["get", "namespace", &namespace, "--output=name"])
        .env("KUBECONFIG", control_plane.kubeconfig_path())
        .output()
        .unwrap();

    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), format!("namespace/{namespace}"), "{output:?}");
}

#[test]
fn servers_die_with_a_killed_launcher() {
    // Its own, since every start removes abandoned directories, those of other tests too.
    let parent = tempfile::tempdir().unwrap();
    let launch = || launch(|command| command.env("TMPDIR", parent.path()));
    let mut launcher = launch();
    let kubeconfig = kubeconfig_of(&mut launcher);
    let servers = children_of(launcher.id());
    assert_eq!(servers.len(), 2, "etcd and kube-apiserver are its children");

    launcher.kill().unwrap();
    launcher.wait().unwrap();

    wait_until("the servers are gone", || servers.iter().all(|server| !is_running(*server)));
    // What the killed launcher could not remove is removed by the next start.
    assert!(kubeconfig.exists(), "a killed launcher cannot have removed its directory");
    let mut next = launch();
    kubeconfig_of(&mut next);
    assert!(!kubeconfig.exists(), "the directory of a killed launcher stays for ever");
    next.kill().unwrap();
    next.wait().unwrap();
}

#[test]
fn launcher_stops_its_servers_when_asked_to() {
    let mut launcher = launch(|command| command);
    let kubeconfig = kubeconfig_of(&mut launcher);
    let servers = children_of(launcher.id());

    kill(Pid::from_raw(i32::try_from(launcher.id()).unwrap()), Signal::SIGINT).unwrap();

    assert!(launcher.wait().unwrap().success());
    assert!(servers.iter().all(|server| !is_running(*server)), "a server goes on");
    assert!(!kubeconfig.exists(), "the directory was left behind");
}

#[test]
fn launcher_without_binaries_says_how_to_get_them() {
    let empty = tempfile::tempdir().unwrap();
    let launcher = launch(|command| command.env("KUBEBUILDER_ASSETS", empty.path()).stderr(Stdio::piped()));

    let output = launcher.wait_with_output().unwrap();

    assert!(!output.status.success());
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains(&empty.path().join("etcd").display().to_string()), "{message}");
    assert!(message.contains("make setup"), "{message}");
}

fn launch(change: impl FnOnce(&mut Command) -> &mut Command) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_control-plane"));
    change(command.stdout(Stdio::piped())).spawn().unwrap()
}

/// Reads what the launcher prints until it names the kubeconfig, which it does when everything is ready.
fn kubeconfig_of(launcher: &mut Child) -> PathBuf {
    let mut lines = BufReader::new(launcher.stdout.as_mut().unwrap()).lines();
    let path = lines.find_map(|line| Some(PathBuf::from(line.unwrap().trim().strip_prefix("export KUBECONFIG=")?)));
    path.expect("the launcher ended before its servers were ready")
}

fn children_of(parent: u32) -> Vec<u32> {
    fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok())
        .filter(|process| stat(*process).is_some_and(|(_, parent_of_it)| parent_of_it == parent))
        .collect()
}

/// A zombie has ended: where nobody reaps orphans, it stays listed.
fn is_running(process: u32) -> bool {
    stat(process).is_some_and(|(state, _)| state != "Z")
}

/// The state and the parent of a process, from the fields behind its name.
fn stat(process: u32) -> Option<(String, u32)> {
    let stat = fs::read_to_string(Path::new("/proc").join(process.to_string()).join("stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.to_owned(), fields.next()?.parse().ok()?))
}

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_mins(1);
    while !condition() {
        assert!(Instant::now() < deadline, "timed out before {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
