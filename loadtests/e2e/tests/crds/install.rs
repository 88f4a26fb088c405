//! Every CRD is accepted, users see how far the installation is, and installing again changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use flotilla_crds::admission;
use flotilla_testbed::control_plane::audit::{Event, Object};
use serde_json::Value;

use super::told;
use super::world::{SERVED_WITHIN, condition, world};

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
async fn installation_tells_how_far_it_is() {
    let world = world().await;
    let all = world.all.len();
    let progress: Vec<usize> =
        told::lines("Installing CRDs", all).iter().map(|line| line.number("installed")).collect();
    println!("progress: {progress:?} of {all}");
    assert!(progress.len() >= 3 && progress.is_sorted() && progress.iter().all(|&installed| installed <= all));
    let end = &told::lines("Installed CRDs", all)[0];
    assert_eq!((end.number("installed"), end.number("failed")), (all, 0));
}

#[tokio::test]
async fn first_kinds_are_used_before_the_last_are_installed() {
    let world = world().await;
    println!("first object with {} of {} kinds served", world.served_at_first_object, world.all.len());
    assert!(world.served_at_first_object < world.all.len() / 2);
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
    let all = world.all.len();
    let told_before = told::lines("Installed CRDs", all).len();

    let started = Instant::now();
    let end = world.leader().lead(told::next("Installed CRDs", all, told_before, SERVED_WITHIN)).await;
    let took = started.elapsed();

    println!("{all} unchanged CRDs looked at in {:.1} s", took.as_secs_f64());
    assert_eq!((end.number("installed"), end.number("written"), end.number("failed")), (all, 0, 0));
    let installed = ["customresourcedefinitions", "validatingadmissionpolicies", "validatingadmissionpolicybindings"];
    // Another test asks whether the server would take CRDs that are not installed.
    let names: BTreeSet<String> = before.keys().cloned().chain([admission::POLICY.to_owned()]).collect();
    let is_ours = |object: &Object| installed.contains(&object.resource.as_str()) && names.contains(&object.name);
    let is_write = |event: &&Event| event.is_write() && event.object.as_ref().is_some_and(is_ours);
    let events = world.control_plane.audit_events().unwrap().split_off(from);
    let writes: Vec<_> = events.iter().filter(is_write).collect();
    assert!(writes.is_empty(), "{writes:?}");
    assert_eq!(versions(api.crds().await), before);
    // It takes 3 s where nobody else uses the cores.
    assert!(took < Duration::from_secs(30), "{took:?}");
}
