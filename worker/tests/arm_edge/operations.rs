//! Operations of every type whose answers were recorded, and what can go wrong while they run.

use flotilla_armsim::{FaultAction, FaultMatch, SettingsChange};

use super::*;

const STORAGE: &str = "providers/Microsoft.Storage/storageAccounts/account1";
const ENVIRONMENT: &str = "providers/Microsoft.App/managedEnvironments/env-1";

fn somewhere() -> Value {
    json!({"location": "westus2", "properties": {}})
}

/// Types that are in no region.
const GLOBAL: [&str; 3] =
    ["Microsoft.Network/dnsZones", "Microsoft.Network/privateDnsZones", "Microsoft.Network/trafficmanagerprofiles"];

/// Types whose bodies armsim looks into; for the others any body does.
fn body(arm_type: &str, group: &str) -> Value {
    let environment = format!("{group}/{ENVIRONMENT}");
    match arm_type {
        "Microsoft.App/containerApps" => json!({"location": "westus2", "properties": {"environmentId": environment,
            "template": {"containers": [{"name": "a", "image": "registry.example/a:1"}]}}}),
        "Microsoft.App/jobs" => json!({"location": "westus2", "properties": {"environmentId": environment,
            "configuration": {"triggerType": "Manual", "replicaTimeout": 60},
            "template": {"containers": [{"name": "a", "image": "registry.example/a:1"}]}}}),
        "Microsoft.Storage/storageAccounts" => {
            json!({"location": "westus2", "kind": "StorageV2", "sku": {"name": "Standard_LRS"}, "properties": {}})
        }
        name if GLOBAL.iter().any(|zone| name.starts_with(zone)) => json!({"location": "global", "properties": {}}),
        _ => somewhere(),
    }
}

/// Types that were recorded, parents before children.
fn types() -> Vec<&'static str> {
    let table = include_str!("../../../loadtests/armsim/data/arm-profiles.tsv");
    let mut types: Vec<&str> = table
        .lines()
        .filter(|line| !line.starts_with('#') && line.contains('/'))
        .filter_map(|line| line.split('\t').next())
        .filter(|name| *name != "Microsoft.Resources/resourceGroups")
        .collect();
    types.sort_by_key(|name| (name.matches('/').count(), !name.ends_with("/managedEnvironments")));
    types
}

/// The id of a resource of that type in `group`; parents share its beginning.
fn id_of(group: &str, arm_type: &str) -> String {
    let (namespace, types) = arm_type.split_once('/').unwrap();
    let names = types.split('/').map(|part| {
        let name = if part.eq_ignore_ascii_case("storageAccounts") { "account1" } else { "env-1" };
        format!("/{part}/{name}")
    });
    names.fold(format!("{group}/providers/{namespace}"), |id, part| id + &part)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_recorded_type_is_followed_from_put_to_gone() {
    let azure = FakeAzure::start().await;
    let group = azure.group("all-types").await;
    let (mut made, mut ends) = (Vec::new(), BTreeMap::<String, usize>::new());
    for arm_type in types() {
        let id = id_of(&group, arm_type);
        let answer = match azure.put(&id, &body(arm_type, &group)).await {
            Ok(answer) => answer,
            Err(error) => panic!("{arm_type}: {}", error.message()),
        };
        let form = match azure.begin(Verb::Put, &id, &answer) {
            Outcome::Poll(handle) => format!("{:?}", handle.form).split('(').next().unwrap_or_default().to_owned(),
            other => format!("{other:?}"),
        };
        *ends.entry(form).or_default() += 1;
        let end = azure.follow(Verb::Put, &id, &answer).await;
        assert!(matches!(end, End::Done | End::Read), "{arm_type}: {end:?}");
        let live = azure.read(&id).await.unwrap_or_else(|error| panic!("{arm_type}: {}", error.message()));
        let state = live.pointer("/properties/provisioningState").and_then(Value::as_str).unwrap_or("Succeeded");
        assert!(["succeeded", "created"].contains(&state.to_ascii_lowercase().as_str()), "{arm_type} is {state}");
        made.push((arm_type, id));
    }
    let ways: Vec<&str> = ends.keys().map(String::as_str).collect();
    assert_eq!(ways, ["Done", "Location", "Resource", "Status"], "all ways to follow a PUT were taken");
    for (arm_type, id) in made.iter().rev() {
        let end = match azure.settle(Verb::Delete, id, None).await {
            Ok(end) => end,
            Err(error) if error.is_gone() => End::Done,
            Err(error) => panic!("{arm_type}: {}", error.message()),
        };
        assert_eq!(end, End::Done, "{arm_type}");
        assert!(azure.read(id).await.unwrap_err().is_gone(), "{arm_type}");
    }
}

#[tokio::test]
async fn group_takes_everything_with_it() {
    let azure = FakeAzure::start().await;
    let group = azure.group("cascade").await;
    let account = format!("{group}/{STORAGE}");
    azure.settle(Verb::Put, &account, Some(&body("Microsoft.Storage/storageAccounts", &group))).await.unwrap();
    assert_eq!(azure.settle(Verb::Delete, &group, None).await.unwrap(), End::Done);
    for id in [&group, &account] {
        assert!(azure.send(Call::delete(id, GROUPS)).await.unwrap_err().is_gone(), "{id}");
    }
}

#[tokio::test]
async fn polls_that_fail_do_not_end_an_operation() {
    let azure = FakeAzure::start().await;
    let group = azure.group("faults").await;
    let id = format!("{group}/{ENVIRONMENT}");
    let polls =
        || FaultMatch { method: Some(Method::Get), path: Some("*operation*".to_owned()), ..FaultMatch::default() };
    for (status, code) in
        [(404, "NotFound"), (429, "TooManyRequests"), (503, "ServiceUnavailable"), (500, "Oops"), (403, "No")]
    {
        let action = FaultAction::Status {
            status,
            code: code.to_owned(),
            message: String::new(),
            retry_after: (status == 429).then_some(9),
        };
        azure.fault(polls(), 2, action);
    }
    azure.fault(polls(), 1, FaultAction::Drop);
    azure.sim.expire_tokens();
    assert_eq!(azure.settle(Verb::Put, &id, Some(&somewhere())).await.unwrap(), End::Read);
    assert_eq!(
        azure.calls(Method::Put, "managedEnvironments"),
        2,
        "the one with the expired token, and the one that counted"
    );
    assert_eq!(azure.read(&id).await.unwrap()["properties"]["provisioningState"], "Succeeded");
}

#[tokio::test]
async fn token_that_ends_during_an_operation_is_replaced() {
    let azure = FakeAzure::start().await;
    let group = azure.group("tokens").await;
    let id = format!("{group}/{ENVIRONMENT}");
    let answer = azure.put(&id, &somewhere()).await.unwrap();
    let Outcome::Poll(handle) = azure.begin(Verb::Put, &id, &answer) else { panic!("{answer:?}") };
    assert_eq!(azure.token_calls(), 1);
    azure.sim.expire_tokens();
    assert_eq!(azure.poll(handle).await, End::Read);
    assert_eq!(azure.token_calls(), 2);
}

#[tokio::test]
async fn failed_operation_carries_azures_own_words() {
    let azure = FakeAzure::start().await;
    let group = azure.group("failing").await;
    let id = format!("{group}/{ENVIRONMENT}");
    let action =
        FaultAction::FailOperation { code: "AllocationFailed".to_owned(), message: "No room in westus2.".to_owned() };
    azure.fault(FaultMatch { method: Some(Method::Put), ..FaultMatch::default() }, 1, action);
    let end = azure.settle(Verb::Put, &id, Some(&somewhere())).await.unwrap();
    let End::Failed(failure) = end else { panic!("{end:?}") };
    assert_eq!((failure.code.as_str(), failure.message.as_str()), ("AllocationFailed", "No room in westus2."));
    // The next PUT begins a new one.
    assert_eq!(azure.settle(Verb::Put, &id, Some(&somewhere())).await.unwrap(), End::Read);
}

#[tokio::test]
async fn operation_whose_record_is_lost_is_decided_by_the_resource() {
    let azure = FakeAzure::start().await;
    let group = azure.group("lost").await;
    let id = format!("{group}/{ENVIRONMENT}");
    azure
        .sim
        .change(SettingsChange { hold: Some(vec!["Microsoft.App/*".to_owned()]), ..SettingsChange::default() })
        .unwrap();
    let answer = azure.put(&id, &somewhere()).await.unwrap();
    let Outcome::Poll(handle) = azure.begin(Verb::Put, &id, &answer) else { panic!("{answer:?}") };
    let running = azure.sim.operations();
    let operation = &running[0].id;
    // ARM's minute of grace passes, then the operation ends and its record goes.
    tokio::time::sleep(Duration::from_millis(150)).await;
    azure.sim.finish_operation(operation).unwrap();
    azure.sim.forget_operation(operation).unwrap();
    assert_eq!(azure.poll(handle).await, End::Done);
    assert_eq!(azure.calls(Method::Put, "managedEnvironments"), 1);
}

#[tokio::test]
async fn waits_that_arm_asks_for_are_kept_by_its_own_clock() {
    let azure = FakeAzure::start().await;
    let group = azure.group("waits").await;
    let id = format!("{group}/{ENVIRONMENT}");
    azure.settle(Verb::Put, &id, Some(&somewhere())).await.unwrap();
    let calls = azure.sim.calls();
    let times: Vec<f64> = calls
        .iter()
        .filter(|call| call.operation.is_some() && call.path.to_ascii_lowercase().contains("managedenvironment"))
        .map(|call| call.sim_seconds)
        .collect();
    assert!(times.len() >= 3, "{times:?}");
    // Retry-After is 15; half a second is for the journal's own rounding.
    assert!(times.windows(2).all(|pair| pair[1] - pair[0] >= 14.5), "{times:?}");
}
