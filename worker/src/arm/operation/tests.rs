use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::error::{Context, Extras};
use super::*;
use crate::budget::Observation;

const SECRET_URL: &str = "https://arm.example/subscriptions/0/providers/P/locations/l/ops/1?api-version=2024-01-01&t=63&c=CERT&s=SIGN&h=HASH";
const ID: &str = "/subscriptions/0/resourceGroups/rg/providers/Microsoft.App/jobs/j1";

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_900_000_000 + seconds).unwrap()
}

fn start(verb: Verb) -> Start<'static> {
    Start { verb, resource_id: ID, api_version: "2024-03-01", generation: 3, body_hash: "00ff" }
}

fn answer(status: u16, body: Value) -> Answer {
    Answer {
        status,
        body,
        async_operation: None,
        location: None,
        retry_after: None,
        request_id: None,
        correlation_id: None,
        rate: Observation::default(),
    }
}

fn with_async(answer: Answer) -> Answer {
    Answer { async_operation: Some(Url::parse(SECRET_URL).unwrap()), ..answer }
}

fn with_location(answer: Answer, location: &str) -> Answer {
    Answer { location: Some(location.to_owned()), ..answer }
}

fn state(word: &str) -> Value {
    json!({"id": ID, "properties": {"provisioningState": word}})
}

fn begun(verb: Verb, answer: &Answer) -> Outcome {
    begin(&start(verb), answer, at(0), TimeScale::REAL)
}

#[track_caller]
fn handle(verb: Verb, answer: &Answer) -> Handle {
    match begun(verb, answer) {
        Outcome::Poll(handle) => handle,
        other => panic!("{other:?}"),
    }
}

fn poll(handle: &mut Handle, seconds: i64, answer: &Answer) -> Step {
    handle.advance(Ok(answer), at(seconds), TimeScale::REAL)
}

fn error(status: u16, body: &Value, retry_after: Option<u64>) -> Error {
    let context = Context { verb: Some(Verb::Get), path: ID.to_owned(), ..Context::default() };
    let retry_after = retry_after.map(Duration::from_secs);
    Error::refused(context, status, body.to_string().as_bytes(), Extras { retry_after, ..Extras::default() })
}

fn fail(handle: &mut Handle, seconds: i64, status: u16) -> Step {
    handle.advance(Err(&error(status, &Value::Null, None)), at(seconds), TimeScale::REAL)
}

fn is_status(handle: &Handle) -> bool {
    matches!(handle.form, Form::Status(_))
}

// The nine forms in which a PUT is answered.

#[test]
fn put_whose_state_is_terminal_or_absent_is_done() {
    for body in
        [state("Succeeded"), json!({"properties": {}}), Value::Null, json!({"properties": {"provisioningState": null}})]
    {
        assert_eq!(begun(Verb::Put, &answer(201, body.clone())), Outcome::Done, "{body}");
        assert_eq!(begun(Verb::Put, &answer(200, body)), Outcome::Done);
    }
}

#[test]
fn put_with_an_operation_is_followed_there_and_then_read() {
    let location = SECRET_URL.replace("ops", "results");
    for accepted in [
        with_async(answer(201, state("Creating"))),
        with_location(with_async(answer(202, Value::Null)), &location),
        with_location(with_async(answer(200, state("Updating"))), &location),
        // Even where it looks finished.
        with_async(answer(200, state("Succeeded"))),
    ] {
        let mut handle = handle(Verb::Put, &accepted);
        assert!(is_status(&handle));
        for word in ["InProgress", "Creating", "Dequeued", "CreatingAgentPool: 0/1 nodes completed", "Completed"] {
            assert!(matches!(poll(&mut handle, 5, &answer(200, json!({"status": word}))), Step::Wait { .. }), "{word}");
            assert_eq!(handle.last_state, word);
        }
        assert_eq!(poll(&mut handle, 9, &answer(200, json!({"status": "succeeded"}))), Step::ReadResource);
    }
}

#[test]
fn put_with_a_location_alone_is_followed_by_status_code() {
    let mut handle = handle(Verb::Put, &with_location(answer(202, Value::Null), SECRET_URL));
    assert!(matches!(handle.form, Form::Location(_)));
    assert!(matches!(poll(&mut handle, 2, &answer(202, Value::Null)), Step::Wait { .. }));
    assert_eq!(poll(&mut handle, 4, &answer(200, json!({"name": "a"}))), Step::ReadResource);
}

#[test]
fn relative_location_is_no_operation() {
    let created = with_location(answer(201, json!({"properties": {"clientId": "c"}})), "/subscriptions/0/x");
    assert_eq!(begun(Verb::Put, &created), Outcome::Done);
}

#[test]
fn location_of_the_resource_itself_is_a_read_of_it() {
    let itself = format!("https://arm.example{}", ID.to_uppercase());
    let mut handle = handle(Verb::Put, &with_location(answer(201, state("Linking")), &itself));
    assert_eq!(handle.form, Form::Resource);
    assert_eq!(poll(&mut handle, 1, &answer(200, state("Succeeded"))), Step::Done);
}

#[test]
fn put_without_a_header_is_followed_at_the_resource() {
    let mut handle = handle(Verb::Put, &answer(201, state("provisioning")));
    assert_eq!(format!("{:?}", handle.call()), format!("GET {ID}?api-version=2024-03-01 (poll)"));
    assert!(matches!(poll(&mut handle, 1, &answer(200, state("RegisteringDns"))), Step::Wait { .. }));
    assert_eq!(poll(&mut handle, 2, &answer(200, state("Succeeded"))), Step::Done);
    let failed = begun(Verb::Put, &answer(200, state("Failed")));
    assert!(matches!(failed, Outcome::Failed(Failure { ref code, .. }) if code == "Failed"), "{failed:?}");
}

#[test]
fn strange_state_that_stays_does_not_wait_for_ever() {
    let mut created = handle(Verb::Put, &answer(200, state("Created")));
    assert!(matches!(poll(&mut created, 30, &answer(200, state("Created"))), Step::Wait { .. }));
    assert!(matches!(poll(&mut created, 80, &answer(200, state("Activating"))), Step::Wait { .. }));
    assert!(matches!(poll(&mut created, 100, &answer(200, state("Created"))), Step::Wait { .. }));
    assert!(matches!(poll(&mut created, 150, &answer(200, state("Created"))), Step::Wait { .. }));
    assert_eq!(poll(&mut created, 160, &answer(200, state("Created"))), Step::Done);
    let mut working = handle(Verb::Put, &with_async(answer(201, state("Creating"))));
    for word in ["InProgress", "Updating", "CreatingAgentPool: 0/1 nodes completed"] {
        for seconds in [10_000, 20_000] {
            assert!(
                matches!(poll(&mut working, seconds, &answer(200, json!({"status": word}))), Step::Wait { .. }),
                "{word}"
            );
        }
    }
    assert!(is_status(&working));
    poll(&mut working, 30_000, &answer(200, json!({"status": "Completed"})));
    poll(&mut working, 30_060, &answer(200, json!({"status": "Completed"})));
    assert_eq!(working.form, Form::Resource);
    assert_eq!(poll(&mut working, 30_061, &answer(200, state("Succeeded"))), Step::Done);
}

// DELETE and POST.

#[test]
fn delete_ends_at_once_or_where_its_url_ends() {
    assert_eq!(begun(Verb::Delete, &answer(204, Value::Null)), Outcome::Done);
    assert_eq!(begun(Verb::Delete, &answer(200, Value::Null)), Outcome::Done);
    for status in [200, 204] {
        let mut group = handle(Verb::Delete, &with_location(answer(202, Value::Null), SECRET_URL));
        assert!(matches!(poll(&mut group, 15, &answer(202, Value::Null)), Step::Wait { .. }));
        assert_eq!(poll(&mut group, 30, &answer(status, Value::Null)), Step::Done);
    }
    let mut other = handle(Verb::Delete, &with_async(answer(202, Value::Null)));
    assert_eq!(poll(&mut other, 1, &answer(200, json!({"status": "Succeeded"}))), Step::Done);
}

#[test]
fn delete_without_a_url_ends_when_the_resource_is_gone() {
    let accepted = answer(202, Value::Null);
    let mut gone = handle(Verb::Delete, &accepted);
    assert!(matches!(poll(&mut gone, 5, &answer(200, state("Succeeded"))), Step::Wait { .. }));
    assert!(matches!(poll(&mut gone, 500, &answer(200, state("Deleting"))), Step::Wait { .. }));
    assert_eq!(fail(&mut gone, 505, 404), Step::Done);
    let mut stays = handle(Verb::Delete, &accepted);
    assert!(matches!(poll(&mut stays, 100, &answer(200, state("Succeeded"))), Step::Failed(_)));
}

#[test]
fn result_of_a_post_is_read_at_its_location() {
    let result = "https://arm.example/results/1?s=SIGN";
    let mut action = handle(Verb::Post, &with_location(with_async(answer(202, Value::Null)), result));
    let ended = poll(&mut action, 5, &answer(200, json!({"status": "Succeeded"})));
    assert_eq!(ended, Step::Wait { until: at(5) });
    assert!(matches!(&action.form, Form::Location(url) if url.as_str() == result));
    assert_eq!(poll(&mut action, 6, &answer(200, json!({"keys": []}))), Step::Done);
}

// Failures of the operation, and of a poll.

#[test]
fn failed_operation_gives_its_own_code_and_text() {
    let body = json!({"name": "1", "status": "Failed", "error": {"code": "ServerIsBusy", "message": "Try later.",
        "details": [{"code": "Inner", "message": "disk"}]}});
    let mut failed = handle(Verb::Put, &with_async(answer(201, state("Creating"))));
    let Step::Failed(failure) = poll(&mut failed, 5, &answer(200, body)) else { panic!() };
    assert_eq!((failure.code.as_str(), failure.message.as_str()), ("ServerIsBusy", "Try later.; Inner: disk"));
    let error = Error::operation(Context::default(), &failure.code, &failure.message);
    assert_eq!(error.reason(), "ServerIsBusy");
    let silent = poll(&mut failed, 6, &answer(200, json!({"status": "Canceled"})));
    let expected = Failure { code: "Canceled".to_owned(), message: "the operation ended as Canceled".to_owned() };
    assert_eq!(silent, Step::Failed(expected));
}

#[test]
fn refusal_at_a_location_is_the_operations_own() {
    let mut group = handle(Verb::Delete, &with_location(answer(202, Value::Null), SECRET_URL));
    let locked = error(409, &json!({"error": {"code": "ScopeLocked", "message": "locked"}}), None);
    let step = group.advance(Err(&locked), at(30), TimeScale::REAL);
    assert_eq!(step, Step::Failed(Failure { code: "ScopeLocked".to_owned(), message: "locked".to_owned() }));
}

#[test]
fn failed_poll_keeps_the_operation() {
    for status in [401, 403, 408, 429, 500, 502, 503, 504] {
        let mut kept = handle(Verb::Put, &with_async(answer(201, state("Creating"))));
        let before = kept.form.clone();
        for round in 0..50 {
            let now = 1000 + round;
            let Step::Wait { until } = fail(&mut kept, now, status) else { panic!("{status}") };
            assert!(until > at(now) && until <= at(now + 30), "{status}: {until}");
        }
        assert_eq!(kept.form, before);
        assert_eq!(poll(&mut kept, 2000, &answer(200, json!({"status": "Succeeded"}))), Step::ReadResource);
        assert_eq!(kept.failures(), 0);
    }
}

#[test]
fn throttled_poll_waits_as_long_as_arm_says() {
    let mut kept = handle(Verb::Put, &with_async(answer(201, state("Creating"))));
    let step = kept.advance(Err(&error(429, &Value::Null, Some(300))), at(10), TimeScale::REAL);
    assert_eq!(step, Step::Wait { until: at(310) });
}

#[test]
fn record_that_is_not_there_yet_counts_as_running() {
    let mut young = handle(Verb::Put, &with_async(answer(201, state("Creating"))));
    assert!(matches!(fail(&mut young, 2, 404), Step::Wait { .. }));
    assert!(matches!(fail(&mut young, 59, 404), Step::Wait { .. }));
    assert!(is_status(&young));
}

#[test]
fn record_that_is_gone_leaves_the_resource_to_decide() {
    for (status, answered, expected) in [
        (404, answer(200, state("Succeeded")), Step::Done),
        (410, answer(200, json!({"properties": {}})), Step::Done),
        (
            400,
            answer(200, state("Failed")),
            Step::Failed(Failure { code: "Failed".to_owned(), message: "the operation ended as Failed".to_owned() }),
        ),
    ] {
        let mut lost = handle(Verb::Put, &with_async(answer(201, state("Creating"))));
        assert_eq!(fail(&mut lost, 100, status), Step::Wait { until: at(100) }, "{status}");
        assert_eq!(lost.form, Form::Resource);
        assert!(matches!(poll(&mut lost, 101, &answer(200, state("Updating"))), Step::Wait { .. }));
        assert_eq!(poll(&mut lost, 102, &answered), expected, "{status}");
    }
    let mut removed = handle(Verb::Put, &with_async(answer(201, state("Creating"))));
    fail(&mut removed, 100, 404);
    assert!(matches!(fail(&mut removed, 101, 404), Step::Failed(failure) if failure.code == "ResourceNotFound"));
    let mut deleted = handle(Verb::Delete, &with_async(answer(202, Value::Null)));
    fail(&mut deleted, 100, 404);
    assert_eq!(fail(&mut deleted, 101, 404), Step::Done);
}

#[test]
fn record_that_never_says_anything_leaves_the_resource_to_decide() {
    let mut mute = handle(Verb::Put, &with_async(answer(201, state("Creating"))));
    let polls = (0..100).take_while(|round| {
        poll(&mut mute, *round, &answer(200, Value::Null));
        is_status(&mute)
    });
    assert_eq!(polls.count(), usize::try_from(BLIND_LIMIT).unwrap());
    // Accepted again is a word; nothing at all with 204 is the end.
    let mut accepted = handle(Verb::Put, &with_async(answer(201, state("Creating"))));
    for _ in 0..50 {
        poll(&mut accepted, 1, &answer(202, Value::Null));
    }
    assert!(is_status(&accepted));
    assert_eq!(poll(&mut accepted, 1, &answer(204, Value::Null)), Step::ReadResource);
}

// Waiting.

#[test]
fn waits_follow_retry_after_and_otherwise_grow() {
    let accepted = with_async(answer(201, state("Creating")));
    let told = Answer { retry_after: Some(Duration::from_secs(15)), ..accepted.clone() };
    let mut told = handle(Verb::Put, &told);
    assert_eq!(told.next_poll, at(15));
    let silent = answer(200, json!({"status": "Running"}));
    assert_eq!(poll(&mut told, 15, &silent), Step::Wait { until: at(30) }, "its last word holds");
    let mut handle = handle(Verb::Put, &accepted);
    let running = answer(200, json!({"status": "Running"}));
    let waits: Vec<f64> = (0..12)
        .map(|_| match poll(&mut handle, 0, &running) {
            Step::Wait { until } => until.duration_since(at(0)).as_secs_f64(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert!(waits.is_sorted() && (waits[0] - 1.5).abs() < 1e-6 && (waits[11] - 30.0).abs() < 1e-6, "{waits:?}");
    let told = Answer { retry_after: Some(Duration::from_mins(10)), ..running };
    assert_eq!(poll(&mut handle, 0, &told), Step::Wait { until: at(600) });
}

#[test]
fn own_waits_and_the_grace_follow_arms_clock() {
    let sixty = TimeScale::new(60.0).unwrap();
    let accepted = with_async(answer(201, state("Creating")));
    let Outcome::Poll(mut handle) = begin(&start(Verb::Put), &accepted, at(0), sixty) else { panic!() };
    assert!(handle.next_poll < at(1));
    let gone = error(404, &Value::Null, None);
    assert!(matches!(handle.advance(Err(&gone), at(0), sixty), Step::Wait { until } if until > at(0)));
    handle.advance(Err(&gone), at(2), sixty);
    assert_eq!(handle.form, Form::Resource, "two of our seconds are two of its minutes");
}

// Storing.

#[test]
fn stored_handle_is_small_and_comes_back_equal() {
    let mut handle = handle(Verb::Put, &with_async(answer(201, state("Creating"))));
    poll(&mut handle, 5, &answer(200, json!({"status": "InProgress"})));
    let text = serde_json::to_string(&handle).unwrap();
    assert!(text.len() < SECRET_URL.len() + ID.len() + 220, "{text}");
    assert_eq!(serde_json::from_str::<Handle>(&text).unwrap(), handle);
}

#[test]
fn signature_is_stored_but_not_printed() {
    let handle = handle(Verb::Put, &with_async(answer(201, state("Creating"))));
    assert!(serde_json::to_string(&handle).unwrap().contains("s=SIGN"));
    let printed = format!("{handle:?} {:?} {:?}", handle.call(), Outcome::Poll(handle.clone()));
    assert!(!printed.contains("SIGN") && !printed.contains("CERT"), "{printed}");
}

#[test]
fn broken_handles_are_refused_without_printing_them() {
    for text in [
        r#"{"verb":"PUT","id":"/a","api":"1","form":"status","started":0,"next":0}"#,
        r#"{"verb":"PUT","id":"/a","api":"1","form":"status","url":"/ops?s=SIGN","started":0,"next":0}"#,
        "{}",
        "",
    ] {
        let error = serde_json::from_str::<Handle>(text).unwrap_err();
        assert!(!error.to_string().contains("SIGN"), "{error}");
    }
}

#[test]
fn tokens_of_azure_service_operator_are_understood() {
    let create = "GenericClient.CreateOrUpdateByID";
    let asynchronous = json!({"type": "GenericResource", "token": {"type": "Azure-AsyncOperation", "asyncURL": SECRET_URL,
        "locURL": "", "origURL": "https://arm.example/x", "method": "PUT", "finalState": "", "state": "InProgress"}});
    let resumed = resume(&asynchronous.to_string(), create, &start(Verb::Put), at(0)).unwrap();
    assert!(is_status(&resumed) && resumed.verb == Verb::Put && resumed.generation == 3);
    let location = json!({"type": "x", "token": {"type": "loc", "pollURL": SECRET_URL, "state": "InProgress"}});
    let resumed = resume(&location.to_string(), "GenericClient.DeleteByID", &start(Verb::Put), at(0)).unwrap();
    assert!(matches!(resumed.form, Form::Location(_)) && resumed.verb == Verb::Delete);
    let body = json!({"type": "x", "token": {"type": "body", "pollURL": "https://arm.example/x", "state": "Creating"}});
    assert_eq!(resume(&body.to_string(), create, &start(Verb::Put), at(0)).unwrap().form, Form::Resource);
    let old = json!({"type": "pool;Azure-AsyncOperation", "asyncURL": SECRET_URL});
    assert!(resume(&old.to_string(), create, &start(Verb::Put), at(0)).is_some());
    for unknown in
        ["", "{}", "[]", r#"{"token":{"type":"fancy","url":"x"}}"#, r#"{"token":{"type":"loc","pollURL":"/x"}}"#]
    {
        assert_eq!(resume(unknown, create, &start(Verb::Put), at(0)), None, "{unknown}");
    }
}

// Whatever comes, in whatever order.

fn any_body() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        "[A-Za-z]{1,12}".prop_map(|word| json!({"status": word})),
        prop_oneof!["Creating", "Updating", "Deleting", "Weird"].prop_map(|word| state(&word)),
        Just(json!({"status": 7, "properties": []})),
        Just(Value::String("<html>".to_owned())),
    ]
}

#[derive(Clone, Debug)]
enum Event {
    Answered(u16, Value),
    Refused(u16),
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        (prop_oneof![Just(200_u16), Just(202)], any_body()).prop_map(|(status, body)| Event::Answered(status, body)),
        prop_oneof![Just(401_u16), Just(403), Just(404), Just(408), Just(429), Just(500), Just(503)]
            .prop_map(Event::Refused),
    ]
}

proptest! {
    /// While Azure has said nothing final and the acceptance is fresh, the operation neither ends nor is asked in a spin,
    /// and a worker that takes over sees what the first one saw.
    #[test]
    fn nothing_but_azures_word_ends_an_operation(
        events in proptest::collection::vec(any_event(), 1..40),
        delete in any::<bool>(),
    ) {
        let verb = if delete { Verb::Delete } else { Verb::Put };
        let mut handle = handle(verb, &with_async(answer(202, Value::Null)));
        for event in events {
            let step = match &event {
                Event::Answered(status, body) => {
                    let word = operation_state(*status, body).0;
                    prop_assume!(matches!(word, Progress::Running | Progress::Unsaid));
                    poll(&mut handle, 30, &answer(*status, body.clone()))
                }
                Event::Refused(status) => fail(&mut handle, 30, *status),
            };
            if handle.form == Form::Resource {
                // The record was mute for too long.
                break;
            }
            let Step::Wait { until } = step else { panic!("{event:?} ended it: {step:?}") };
            prop_assert!(until > at(30), "{event:?} makes it spin");
            let text = serde_json::to_string(&handle).unwrap();
            let other: Handle = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(&other.form, &handle.form);
            prop_assert_eq!(other.next_poll.as_millisecond(), handle.next_poll.as_millisecond());
        }
    }

    #[test]
    fn any_first_answer_is_understood(status in 200_u16..300, body in any_body(), with in 0..4, verb in 0_usize..4) {
        let verb = [Verb::Put, Verb::Patch, Verb::Post, Verb::Delete][verb];
        let first = answer(status, body);
        let first = match with {
            0 => first,
            1 => with_async(first),
            2 => with_location(first, SECRET_URL),
            _ => with_location(first, "/relative"),
        };
        if let Outcome::Poll(handle) = begun(verb, &first) {
            prop_assert!(handle.next_poll > at(0));
        }
    }
}
