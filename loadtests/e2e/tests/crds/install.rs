//! Every CRD is accepted, users see how far the installation is, and installing again changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use flotilla_crds::ADMISSION_POLICY;
use flotilla_testbed::control_plane::audit::{Event, Object};
use serde_json::Value;

use super::installation::{SERVED_WITHIN, condition, installation};
use super::leader_log;

#[tokio::test]
async fn every_crd_is_accepted_and_served() {
    let installation = installation().await;
    println!("{} CRDs and their policy served after {:.1} s", installation.all.len(), installation.took.as_secs_f64());
    let crds = installation.api("install").await.crds().await;

    let complaints: Vec<String> = crds
        .iter()
        .filter(|crd| {
            let good = |name| condition(crd, name) == Some("True");
            !good("Established") || !good("NamesAccepted") || condition(crd, "NonStructuralSchema").is_some()
        })
        .map(|crd| format!("{}: {}", crd["metadata"]["name"], crd["status"]["conditions"]))
        .collect();

    assert_eq!(crds.len(), installation.all.len());
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[tokio::test]
async fn installation_tells_how_far_it_is() {
    let installation = installation().await;
    let all = installation.all.len();
    let progress: Vec<usize> =
        leader_log::lines("Installing CRDs", all).iter().map(|line| line.number("installed")).collect();
    println!("progress: {progress:?} of {all}");
    assert!(progress.len() >= 3 && progress.is_sorted() && progress.iter().all(|&installed| installed <= all));
    let end = &leader_log::lines("Installed CRDs", all)[0];
    assert_eq!((end.number("installed"), end.number("failed")), (all, 0));
}

#[tokio::test]
async fn first_kinds_are_used_before_the_last_are_installed() {
    let installation = installation().await;
    println!("first object with {} of {} kinds served", installation.served_at_first_object, installation.all.len());
    assert!(installation.served_at_first_object < installation.all.len() / 2);
}

#[tokio::test]
async fn next_leader_writes_nothing() {
    let installation = installation().await;
    let api = installation.api("install").await;
    let versions = |crds: Vec<Value>| -> BTreeMap<String, String> {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        crds.iter().map(|crd| (text(&crd["metadata"]["name"]), text(&crd["metadata"]["resourceVersion"]))).collect()
    };
    let before = versions(api.crds().await);
    let from = installation.control_plane.audit_events().unwrap().len();
    let all = installation.all.len();
    let lines_before = leader_log::lines("Installed CRDs", all).len();

    let started = Instant::now();
    let end = installation.leader().lead(leader_log::next("Installed CRDs", all, lines_before, SERVED_WITHIN)).await;
    let took = started.elapsed();

    println!("{all} unchanged CRDs checked in {:.1} s", took.as_secs_f64());
    assert_eq!((end.number("installed"), end.number("written"), end.number("failed")), (all, 0, 0));
    let installed = ["customresourcedefinitions", "validatingadmissionpolicies", "validatingadmissionpolicybindings"];
    // Another test asks whether the server would take CRDs that are not installed.
    let names: BTreeSet<String> = before.keys().cloned().chain([ADMISSION_POLICY.to_owned()]).collect();
    let is_ours = |object: &Object| installed.contains(&object.resource.as_str()) && names.contains(&object.name);
    let is_write = |event: &&Event| event.is_write() && event.object.as_ref().is_some_and(is_ours);
    let events = installation.control_plane.audit_events().unwrap().split_off(from);
    let writes: Vec<_> = events.iter().filter(is_write).collect();
    assert!(writes.is_empty(), "{writes:?}");
    assert_eq!(versions(api.crds().await), before);
    // It takes 3 s where nobody else uses the cores.
    assert!(took < Duration::from_secs(30), "{took:?}");
}
