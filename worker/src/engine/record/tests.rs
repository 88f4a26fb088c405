use serde_json::{Value, json};

use super::*;
use crate::engine::names;

const HOUR: Duration = Duration::from_hours(1);

fn id(name: &str) -> Id {
    let kind = Arc::new(GroupKind::new("resources.azure.com", "ResourceGroup"));
    Id { kind, namespace: "n".into(), name: name.into() }
}

fn key(name: &str) -> Key {
    Key::of("n", &id(name).kind, name)
}

/// An object as the watch shows it.
fn object(name: &str, version: u64, generation: i64, ready: Option<i64>) -> Value {
    let conditions =
        ready.map(|observed| json!([{ "type": "Ready", "status": "True", "observedGeneration": observed }]));
    json!({
        "metadata": {
            "name": name, "namespace": "n", "uid": name, "resourceVersion": version.to_string(),
            "generation": generation, "finalizers": [names::FINALIZER],
            "annotations": { (names::OPERATOR_NAMESPACE): "sys", (names::RESOURCE_ID): "/subscriptions/s/resourceGroups/g" },
        },
        "status": { "conditions": conditions.unwrap_or(json!([])) },
    })
}

fn see(records: &mut Records, name: &str, object: Value, now: Instant) -> bool {
    let seen: Seen = serde_json::from_value(object).unwrap();
    records.seen(id(name), name, key(name), &seen, Handover::Clean, now)
}

fn next(records: &mut Records, now: Instant) -> Option<(String, Class)> {
    let job = records.next(now, |_| true)?;
    Some((job.id.name.to_string(), job.class))
}

fn done(waits_for: WaitsFor) -> Done {
    let (mind, next, handover) = (Mind::default(), Next::AfterResync, Handover::Clean);
    Done { mind, next, waits_for, handover, standing: None }
}

#[test]
fn settled_objects_cost_nothing_at_a_start_and_are_reconciled_within_a_period() {
    let (mut records, now) = (Records::new(Some(HOUR)), Instant::now());
    for n in 0..100 {
        see(&mut records, &n.to_string(), object(&n.to_string(), 1, 1, Some(1)), now);
    }
    assert_eq!(next(&mut records, now), None);
    let halfway = std::iter::from_fn(|| next(&mut records, now + HOUR / 2)).count();
    assert!((25..75).contains(&halfway), "{halfway} of 100 at half time");
    let rest = std::iter::from_fn(|| next(&mut records, now + HOUR)).count();
    assert_eq!(halfway + rest, 100);
}

#[test]
fn only_what_a_user_changes_asks_for_a_reconcile() {
    let (mut records, now) = (Records::new(None), Instant::now());
    see(&mut records, "a", object("a", 1, 1, None), now);
    assert_eq!(next(&mut records, now), Some(("a".into(), Class::Change)));
    // Our own writes meanwhile: annotations and status.
    see(&mut records, "a", object("a", 2, 1, None), now);
    see(&mut records, "a", object("a", 3, 1, Some(1)), now);
    records.done(&id("a"), "a", done(WaitsFor::Unchanged), now);
    assert_eq!(next(&mut records, now), None);
    see(&mut records, "a", object("a", 4, 2, Some(1)), now);
    assert_eq!(next(&mut records, now), Some(("a".into(), Class::Change)));
}

#[test]
fn a_list_that_is_older_than_the_watch_changes_nothing() {
    let (mut records, now) = (Records::new(None), Instant::now());
    see(&mut records, "a", object("a", 9, 2, Some(2)), now);
    assert!(!see(&mut records, "a", object("a", 5, 1, None), now));
    assert_eq!(next(&mut records, now), None);
    assert!(records.standing(&id("a")).unwrap().ready);
}

#[test]
fn those_that_wait_are_woken_and_what_lies_elsewhere_is_told() {
    let (mut records, now) = (Records::new(None), Instant::now());
    for name in ["child", "owner"] {
        see(&mut records, name, object(name, 1, 1, None), now);
    }
    let (owner, secret) = (id("owner"), super::super::trouble::core("Secret", "n", "s"));
    while let Some((name, _)) = next(&mut records, now) {
        let targets = vec![owner.clone(), secret.clone()];
        let waits_for = if name == "child" { WaitsFor::These(targets) } else { WaitsFor::Unchanged };
        records.done(&id(&name), &name, done(waits_for), now);
    }
    // The owner is ours: its change is seen here.
    let told: Vec<_> = records.take_interest().unwrap().into_iter().map(|name| name.name).collect();
    assert_eq!(told, ["s"]);
    assert_eq!(records.take_interest(), None);
    assert!(see(&mut records, "owner", object("owner", 2, 1, Some(1)), now), "became ready");
    assert_eq!(records.wake(&owner), 1);
    assert_eq!(next(&mut records, now), Some(("child".into(), Class::Wake)));
    records.done(&id("child"), "child", done(WaitsFor::NOBODY), now);
    assert_eq!(records.wake(&secret), 0);
    assert_eq!(records.take_interest(), Some(Vec::new()));
}

#[test]
fn an_object_that_was_made_anew_under_its_name_starts_afresh() {
    let (mut records, now) = (Records::new(None), Instant::now());
    see(&mut records, "a", object("a", 1, 1, None), now);
    let job = records.next(now, |_| true).unwrap();
    let seen: Seen = serde_json::from_value(object("a", 2, 1, None)).unwrap();
    records.seen(id("a"), "other", key("a"), &seen, Handover::Clean, now);
    // The reconcile of the one before ends without a trace, and the new one gets its own.
    let mut mind = job.mind;
    mind.memory.deleted = true;
    records.done(&id("a"), "a", Done { mind, ..done(WaitsFor::Unchanged) }, now);
    let job = records.next(now, |_| true).unwrap();
    assert_eq!((job.mind, job.class), (Mind::default(), Class::Change));
}

#[test]
fn objects_of_a_shard_that_went_are_forgotten() {
    let (mut records, now) = (Records::new(None), Instant::now());
    see(&mut records, "a", object("a", 1, 1, None), now);
    records.forget_ranges(&[KeyRange::ALL]);
    assert_eq!((records.len(), next(&mut records, now)), (0, None));
}
