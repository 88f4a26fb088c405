//! Situations and the step that each asks for.

use jiff::Timestamp;

use super::*;
use crate::arm::error::Retry;
use crate::engine::condition::{self, Condition};
use crate::engine::memory::Memory;

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

fn id() -> String {
    "/subscriptions/s/resourceGroups/rg".to_owned()
}

fn intent(generation: i64) -> Intent {
    Intent { generation, api_version: "2020-06-01".into(), hash: format!("{generation:016}") }
}

fn desired(generation: i64) -> Desired {
    Desired { id: id(), intent: intent(generation), secrets: false, deletable: true }
}

fn ready(wanted: &Ready, generation: i64) -> Option<Condition> {
    condition::replace(None, wanted, generation, now())
}

/// An object that was just applied, looked up and not yet claimed.
fn fresh() -> Observed {
    Observed {
        object: Object { generation: 1, ..Object::default() },
        policy: Policy::Manage,
        installation: "flotilla-system".into(),
        memory: Memory::default(),
        operation: None,
        desired: Some(desired(1)),
        live: None,
        due: false,
        handover: Handover::Clean,
    }
}

/// Claimed and announced by somebody; what became of the PUT is not known.
fn announced() -> Observed {
    let mut o = fresh();
    o.object = Object {
        finalizer: true,
        installation: Some("flotilla-system".into()),
        resource_id: Some(id()),
        intent: Some(intent(1)),
        ..o.object
    };
    o
}

/// Ready, and nothing to do.
fn settled() -> Observed {
    let mut o = announced();
    o.object.ready = ready(&Ready::succeeded(), 1);
    o.object.created = true;
    o.desired = None;
    o
}

/// Ready once, and now deleted by somebody.
fn deleted() -> Observed {
    let mut o = settled();
    o.object.deleting = true;
    o.object.generation = 2;
    o.desired = Some(desired(2));
    o
}

fn found(state: State, differences: &[&str], shown: bool) -> Live {
    Live::Found { state, differences: differences.iter().map(|d| (*d).to_owned()).collect(), shown }
}

#[track_caller]
fn expect(o: &Observed, plan: &str) {
    assert_eq!(decide(o, now()).as_str(), plan, "{}", decide(o, now()));
}

#[test]
fn the_intent_is_written_before_anything_is_sent() {
    expect(&Observed { desired: None, ..fresh() }, "resolve");
    expect(&fresh(), "claim");
    let mut o = announced();
    o.memory.intend(intent(1));
    expect(&o, "put");
}

#[test]
fn an_announced_put_of_unknown_fate_is_looked_for_in_azure_first() {
    let mut o = announced();
    expect(&o, "read");
    o.live = Some(found(State::Running, &[], false));
    expect(&o, "wait");
    o.live = Some(found(State::Settled, &[], false));
    expect(&o, "finish");
    o.live = Some(found(State::Settled, &["tags"], false));
    expect(&o, "put");
    o.live = Some(found(State::Failed, &[], false));
    expect(&o, "put");
    o.live = Some(Live::Absent);
    o.memory.absent = 1;
    expect(&o, "wait");
    o.memory.absent = 2;
    expect(&o, "put");
}

#[test]
fn secret_values_of_an_announced_put_are_sent_again_because_no_read_shows_them() {
    let mut o = announced();
    o.desired.as_mut().unwrap().secrets = true;
    o.live = Some(found(State::Settled, &[], false));
    expect(&o, "put");
}

#[test]
fn an_accepted_put_is_read_and_never_sent_again() {
    let mut o = announced();
    o.memory.accepted(&intent(1));
    expect(&o, "read");
    for differences in [&[][..], &["sku"][..]] {
        o.live = Some(found(State::Settled, differences, false));
        expect(&o, "finish");
    }
    o.live = Some(Live::Absent);
    expect(&o, "wait");
}

#[test]
fn an_unchanged_object_costs_nothing_until_it_is_due_and_then_a_read() {
    let mut o = settled();
    expect(&o, "nothing");
    o.due = true;
    expect(&o, "resolve");
    o.desired = Some(desired(1));
    expect(&o, "read");
    o.live = Some(found(State::Settled, &[], true));
    expect(&o, "nothing");
    o.live = Some(found(State::Settled, &[], false));
    expect(&o, "finish");
    o.live = Some(found(State::Settled, &["sku.name"], true));
    expect(&o, "put");
    o.live = Some(Live::Absent);
    o.memory.absent = 2;
    expect(&o, "put");
}

#[test]
fn a_body_that_differs_without_the_spec_is_sent_only_for_its_secrets() {
    let mut o = settled();
    o.due = true;
    let mut desired = desired(1);
    desired.intent.hash = "ffffffffffffffff".into();
    o.desired = Some(desired);
    o.live = Some(found(State::Settled, &[], true));
    expect(&o, "nothing");
    o.desired.as_mut().unwrap().secrets = true;
    expect(&o, "claim");
}

#[test]
fn a_newer_spec_is_announced_again_also_after_an_operation_of_the_older_one() {
    let mut o = settled();
    o.object.generation = 2;
    o.desired = Some(desired(2));
    expect(&o, "claim");
    o.operation = Some(Operation { deletes: false, generation: 1, outcome: Outcome::Done, unheard: None });
    expect(&o, "claim");
    o.operation =
        Some(Operation { deletes: false, generation: 1, outcome: Outcome::Running(now() + READ_AGAIN), unheard: None });
    expect(&o, "wait");
}

#[test]
fn after_an_unclean_take_over_a_newer_spec_is_not_sent_before_a_read() {
    let mut o = settled();
    o.object.generation = 2;
    o.desired = Some(desired(2));
    o.handover = Handover::Unclean;
    expect(&o, "read");
    o.live = Some(found(State::Running, &[], true));
    expect(&o, "wait");
    o.live = Some(found(State::Settled, &["tags"], true));
    expect(&o, "claim");
}

#[test]
fn an_operation_is_polled_when_due_and_its_handle_goes_after_the_status() {
    let mut o = announced();
    o.operation = Some(Operation { deletes: false, generation: 1, outcome: Outcome::Running(now()), unheard: None });
    expect(&o, "poll");
    o.operation.as_mut().unwrap().outcome = Outcome::Done;
    o.memory.accepted(&intent(1));
    expect(&o, "read");
    o.live = Some(found(State::Settled, &[], false));
    expect(&o, "finish");
    o.object.ready = ready(&Ready::succeeded(), 1);
    o.live = Some(found(State::Settled, &[], true));
    expect(&o, "drop_operation");
    o.operation = None;
    expect(&o, "nothing");
}

#[test]
fn objects_of_another_installation_are_left_alone() {
    let mut o = settled();
    o.object.installation = Some("other".into());
    o.object.deleting = true;
    expect(&o, "ignore");
}

#[test]
fn policy_skip_reads_and_shows_only() {
    let mut o = Observed { policy: Policy::Skip, ..fresh() };
    expect(&o, "claim");
    o.object = Object { intent: None, ..announced().object };
    expect(&o, "read");
    o.live = Some(Live::Absent);
    expect(&o, "refuse");
    o.live = Some(found(State::Settled, &["sku"], false));
    expect(&o, "finish");
    o.object.ready = ready(&Ready::succeeded(), 1);
    o.live = Some(found(State::Settled, &["sku"], true));
    expect(&o, "nothing");
}

#[test]
fn trouble_rests_until_its_time_a_newer_spec_or_a_wake() {
    let mut o = announced();
    let trouble = Trouble::new(Ready::warning(Reason::Code("Conflict".into()), "busy"), Retry::Slow).of(Category::Busy);
    o.memory.rejected(&intent(1));
    o.memory.fail(trouble, 1, now(), None);
    expect(&o, "wait");
    let woken = {
        let mut o = o.clone();
        o.memory.wake();
        o
    };
    expect(&woken, "put");
    o.object.generation = 2;
    o.desired = Some(desired(2));
    expect(&o, "claim");
}

#[test]
fn a_passing_fault_of_a_routine_read_leaves_the_condition_alone() {
    let mut o = settled();
    let trouble = |category| Trouble::new(Ready::warning(Reason::UnknownError, "failed"), Retry::Slow).of(category);
    o.memory.fail(trouble(Category::Transient), 1, now(), None);
    assert!(matches!(decide(&o, now()), Plan::Wait { ready: None, .. }));
    o.memory.fail(trouble(Category::Authorization), 1, now(), None);
    assert!(matches!(decide(&o, now()), Plan::Wait { ready: Some(_), .. }));
}

#[test]
fn another_subscription_or_name_than_the_claimed_one_is_refused() {
    let mut o = settled();
    o.due = true;
    o.desired = Some(Desired { id: "/subscriptions/t/resourceGroups/rg".into(), ..desired(1) });
    let Plan::Refuse(trouble) = decide(&o, now()) else { panic!("not refused") };
    assert_eq!(trouble.ready.reason, Reason::SubscriptionMismatch);
    o.desired = Some(Desired { id: "/subscriptions/s/resourceGroups/other".into(), ..desired(1) });
    expect(&o, "refuse");
}

#[test]
fn a_name_that_azure_never_took_may_be_corrected() {
    let mut o = announced();
    o.object.generation = 2;
    o.desired = Some(Desired { id: "/subscriptions/s/resourceGroups/better".into(), ..desired(2) });
    expect(&o, "read");
    o.live = Some(Live::Absent);
    expect(&o, "claim");
    o.live = Some(found(State::Settled, &[], false));
    expect(&o, "refuse");
}

#[test]
fn a_deleted_object_goes_when_its_resource_is_gone() {
    let mut o = deleted();
    expect(&Observed { desired: None, ..o.clone() }, "resolve");
    expect(&o, "delete");
    o.operation =
        Some(Operation { deletes: true, generation: 2, outcome: Outcome::Running(now() + READ_AGAIN), unheard: None });
    expect(&o, "wait");
    o.operation.as_mut().unwrap().outcome = Outcome::Done;
    expect(&o, "remove_finalizer");
    o.operation = None;
    o.memory.deleted = true;
    expect(&o, "remove_finalizer");
    o.object.finalizer = false;
    expect(&o, "nothing");
}

#[test]
fn a_deleted_object_that_azure_never_saw_goes_at_once() {
    let mut o = deleted();
    o.object.resource_id = None;
    o.object.created = false;
    o.desired = None;
    expect(&o, "remove_finalizer");
}

#[test]
fn a_deleted_object_whose_annotation_somebody_removed_takes_its_resource_along() {
    let mut o = deleted();
    o.object.resource_id = None;
    o.desired = None;
    expect(&o, "resolve");
    o.desired = Some(desired(2));
    expect(&o, "delete");
}

#[test]
fn policies_that_keep_the_resource_let_the_object_go() {
    for policy in [Policy::Skip, Policy::DetachOnDelete] {
        expect(&Observed { policy, desired: None, ..deleted() }, "remove_finalizer");
    }
}

#[test]
fn a_running_put_does_not_hold_up_a_delete() {
    let mut o = deleted();
    o.operation =
        Some(Operation { deletes: false, generation: 1, outcome: Outcome::Running(now() + READ_AGAIN), unheard: None });
    expect(&o, "delete");
}

#[test]
fn no_error_but_proof_of_absence_lets_a_deleted_object_go() {
    let mut o = deleted();
    o.memory.delete_refused = true;
    let trouble = Trouble::new(Ready::warning(Reason::Code("AuthorizationFailed".into()), "no"), Retry::Slow)
        .of(Category::Authorization);
    o.memory.fail(trouble, 2, now(), None);
    expect(&o, "read");
    for category in Category::ALL {
        o.live = Some(Live::Refused { category, parent_absent: false });
        expect(&o, "wait");
    }
    o.live = Some(Live::Refused { category: Category::Authorization, parent_absent: true });
    expect(&o, "remove_finalizer");
    o.live = Some(Live::Absent);
    expect(&o, "remove_finalizer");
}

#[test]
fn an_object_that_never_came_to_be_can_be_deleted_without_permission() {
    let mut o = deleted();
    o.object.created = false;
    o.memory.delete_refused = true;
    o.live = Some(Live::Refused { category: Category::Invalid, parent_absent: false });
    expect(&o, "remove_finalizer");
    o.live = Some(Live::Refused { category: Category::Authorization, parent_absent: false });
    expect(&o, "delete");
    o.object.ready = ready(&Ready::warning(Reason::Code("AuthorizationFailed".into()), "no"), 1);
    expect(&o, "remove_finalizer");
}

#[test]
fn a_kind_that_azure_cannot_delete_waits_for_its_parent_to_go() {
    let mut o = deleted();
    o.desired.as_mut().unwrap().deletable = false;
    expect(&o, "read");
    o.live = Some(found(State::Settled, &[], true));
    let Plan::Refuse(trouble) = decide(&o, now()) else { panic!("not refused") };
    assert_eq!(trouble.ready.reason, Reason::DeletionNotSupportedInAzure);
    o.live = Some(Live::Absent);
    expect(&o, "remove_finalizer");
}

#[test]
fn a_new_object_says_that_it_waits_for_another_one_only_if_that_lasts() {
    let trouble = Trouble::new(Ready::warning(Reason::WaitingForOwner, "waiting"), Retry::Fast);
    let mut o = Observed { desired: None, ..fresh() };
    let mut said = Vec::new();
    for _ in 0..4 {
        o.memory.fail(trouble.clone(), 1, now(), None);
        let Plan::Wait { ready, .. } = decide(&o, now()) else { panic!("it waits") };
        said.push(ready.is_some());
    }
    assert_eq!(said, [false, false, true, true]);

    o.memory = Memory::default();
    o.object = announced().object;
    o.memory.fail(trouble, 1, now(), None);
    assert!(matches!(decide(&o, now()), Plan::Wait { ready: Some(_), .. }), "what was claimed says so at once");
}
