//! The local control plane as its users see it: it serves, each test has its own namespace, the log tells who did
//! what, and nothing of it stays behind.

use std::collections::BTreeSet;

use flotilla_loadtests::control_plane::{ControlPlane, Options, kubernetes_version};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, ResourceExt};

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
    let control_plane = ControlPlane::start(Options::default()).await.unwrap();
    let api: Api<ConfigMap> = Api::namespaced(control_plane.client(), "default");
    let made = api.create(&PostParams::default(), &config_map("lasting")).await.unwrap();

    control_plane.kill_api_server().await.unwrap();
    assert!(api.get("lasting").await.is_err(), "a killed server answered");
    control_plane.restart_api_server().await.unwrap();

    assert_eq!(api.get("lasting").await.unwrap().uid(), made.uid());
    let directory = control_plane.directory().to_owned();
    control_plane.stop().await.unwrap();
    assert!(!directory.exists(), "the directory was left behind");
}
