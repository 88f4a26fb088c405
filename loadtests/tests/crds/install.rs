//! Every CRD is accepted, and installing again changes nothing.

use std::collections::BTreeMap;

use flotilla_crds::admission;
use serde_json::Value;

use super::world::{condition, world};

#[tokio::test]
async fn every_crd_is_accepted_and_served() {
    let world = world().await;
    println!("{} CRDs and their policy served after {:.1} s", world.kinds.len(), world.took.as_secs_f64());
    let crds = world.api("install").await.crds().await;

    let complaints: Vec<String> = crds
        .iter()
        .filter(|crd| {
            let good = |name| condition(crd, name) == Some("True");
            !good("Established") || !good("NamesAccepted") || condition(crd, "NonStructuralSchema").is_some()
        })
        .map(|crd| format!("{}: {}", crd["metadata"]["name"], crd["status"]["conditions"]))
        .collect();

    assert_eq!(crds.len(), world.kinds.len());
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[tokio::test]
async fn installing_again_changes_nothing() {
    let world = world().await;
    let api = world.api("install").await;
    let versions = |crds: Vec<Value>| -> BTreeMap<String, String> {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        crds.iter().map(|crd| (text(&crd["metadata"]["name"]), text(&crd["metadata"]["resourceVersion"]))).collect()
    };
    let before = versions(api.crds().await);

    for kind in &world.kinds {
        api.install(&kind.crd()).await.unwrap();
    }
    for object in admission::policies(world.kinds.iter().map(|kind| kind.entry())) {
        let first = api.install(&object).await.unwrap();
        let second = api.install(&object).await.unwrap();
        assert_eq!(first["metadata"]["resourceVersion"], second["metadata"]["resourceVersion"], "{}", object["kind"]);
    }

    assert_eq!(versions(api.crds().await), before);
}
