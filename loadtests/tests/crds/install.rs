//! Every CRD is accepted, and installing again changes nothing.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use flotilla_loadtests::control_plane::audit::Event;
use serde_json::Value;

use super::world::{condition, world};

const LAST: &str = "validatingadmissionpolicybindings";

#[tokio::test]
async fn every_crd_is_accepted_and_served() {
    let world = world().await;
    println!("{} CRDs and their policy served after {:.1} s", world.all.len(), world.took.as_secs_f64());
    let crds = world.api("install").await.crds().await;

    let complaints: Vec<String> = crds
        .iter()
        .filter(|crd| {
            let good = |name| condition(crd, name) == Some("True");
            !good("Established") || !good("NamesAccepted") || condition(crd, "NonStructuralSchema").is_some()
        })
        .map(|crd| format!("{}: {}", crd["metadata"]["name"], crd["status"]["conditions"]))
        .collect();

    assert_eq!(crds.len(), world.all.len());
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[tokio::test]
async fn next_leader_writes_nothing() {
    let world = world().await;
    let api = world.api("install").await;
    let versions = |crds: Vec<Value>| -> BTreeMap<String, String> {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        crds.iter().map(|crd| (text(&crd["metadata"]["name"]), text(&crd["metadata"]["resourceVersion"]))).collect()
    };
    let before = versions(api.crds().await);
    let from = world.control_plane.audit_events().unwrap().len();
    let since = || world.control_plane.audit_events().unwrap().split_off(from);
    let of = |event: &Event, resources: &[&str]| {
        event.object.as_ref().is_some_and(|object| resources.contains(&object.resource.as_str()))
    };

    world
        .lead(async {
            // The last thing that an installer looks at.
            let deadline = Instant::now() + Duration::from_mins(1);
            while !since().iter().any(|event| of(event, &[LAST])) {
                assert!(Instant::now() < deadline, "no look at the {LAST}");
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        })
        .await;

    let installed = ["customresourcedefinitions", "validatingadmissionpolicies", LAST];
    let events = since();
    let writes: Vec<_> = events.iter().filter(|event| event.is_write() && of(event, &installed)).collect();
    assert!(writes.is_empty(), "{writes:?}");
    assert_eq!(versions(api.crds().await), before);
}
