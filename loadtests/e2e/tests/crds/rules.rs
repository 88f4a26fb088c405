//! What must be refused is refused with a message that says which field and what to do.

use flotilla_crds::Kind;
use futures::stream::{self, StreamExt};
use serde_json::{Value, json};

use super::api::{Api, Target};
use super::installation::{Installation, installation};
use super::judge::{self, Why};
use super::maximal;

/// The biggest spec of a kind's newest version, and where it goes.
fn newest<'a>(installation: &'a Installation, kind: &str) -> (Target<'a>, Value) {
    let kind = installation.kind(kind);
    let version = kind.versions().last().unwrap().name();
    (Target { kind, version, name: "rules" }, maximal::spec(&kind.own_spec_schema(version).unwrap(), 0))
}

async fn refused(api: &Api, at: Target<'_>, spec: &Value, words: &[&str]) {
    let refused = api.would_create(at, spec).await.expect_err(&words.join(", "));
    let missing: Vec<&&str> = words.iter().filter(|word| !refused.message.contains(**word)).collect();
    assert!(missing.is_empty(), "{missing:?} not in: {refused}");
}

async fn taken(api: &Api, at: Target<'_>, spec: &Value) {
    api.would_create(at, spec).await.unwrap_or_else(|refused| panic!("{}: {refused}", at.kind.name()));
}

#[tokio::test]
async fn version_takes_what_it_has_and_refuses_what_another_has() {
    let installation = installation().await;
    let api = installation.api("rules").await;
    let mut cases = Vec::new();
    for kind in &installation.kinds {
        let versions = kind.versions();
        for (i, version) in versions.iter().enumerate() {
            for other in [&versions[0], &versions[versions.len() - 1], &versions[(i + 1) % versions.len()]] {
                cases.push((kind, version.name(), other.name()));
            }
        }
    }
    cases.sort_by_key(|(kind, version, other)| (kind.group(), kind.name(), *version, *other));
    cases.dedup_by_key(|(kind, version, other)| (kind.group(), kind.name(), *version, *other));
    let looks = cases.iter().map(|(kind, version, other)| look(&api, kind, version, other));
    let outcomes: Vec<Result<usize, String>> = stream::iter(looks).buffered(8).collect().await;
    let complaints: Vec<&String> = outcomes.iter().filter_map(|outcome| outcome.as_ref().err()).collect();
    let refusals: usize = outcomes.iter().flatten().sum();
    println!("{} specs, {refusals} of them refused", outcomes.len());
    assert!(complaints.is_empty() && refusals > 0, "{} complaints:\n{complaints:#?}", complaints.len());
}

/// Tells a version a spec of another: 1 if it was refused, for every reason that its own schema has.
async fn look(api: &Api, kind: &Kind, version: &str, other: &str) -> Result<usize, String> {
    let spec = maximal::spec(&kind.own_spec_schema(other).unwrap(), 0);
    let objections = judge::objections(&kind.own_spec_schema(version).unwrap(), &spec);
    let about = format!("{} {version} given {other}", kind.name());
    match api.would_create(Target { kind, version, name: "rules" }, &spec).await {
        Ok(_) if objections.is_empty() => Ok(0),
        Ok(_) => Err(format!("{about}: took {objections:?}")),
        Err(refused) if objections.is_empty() => Err(format!("{about}: {refused}")),
        Err(refused) => {
            // Rules on fields that a version lacks are checked once the rest of the spec is right.
            let first = |why: Why| objections.iter().filter(move |objection| objection.why == why);
            let stated = if objections.iter().all(|o| o.why == Why::Unknown) { Why::Unknown } else { Why::Value };
            // Of something in a list the message names the list, and how many are named has a limit.
            let field = |path: &str| path.trim_start_matches("spec.").split('[').next().unwrap_or(path).to_owned();
            let silent = first(stated).take(10).find(|o| !refused.message.contains(&field(&o.path)));
            silent.map_or(Ok(1), |o| Err(format!("{about}: no word on {}: {refused}", o.path)))
        }
    }
}

#[tokio::test]
async fn message_on_a_field_of_another_version_says_how_to_write_it() {
    let installation = installation().await;
    let api = installation.api("rules").await;
    let kind = installation.kind("StorageAccount");
    let old = Target { kind, version: "v1api20210401", name: "old" };
    let mut spec = maximal::spec(&kind.own_spec_schema(old.version).unwrap(), 0);
    spec["dnsEndpointType"] = json!("Standard");
    let how = "use kubectl edit storageaccounts.v20250601.storage.azure.com NAME";
    refused(&api, old, &spec, &["dnsEndpointType does not exist in v1api20210401, but in v20250601", how]).await;
}

#[tokio::test]
async fn typing_errors_are_refused_with_their_path() {
    let installation = installation().await;
    let api = installation.api("rules").await;
    let (at, mut spec) = newest(installation, "StorageAccount");
    spec["accessTyer"] = json!("Hot");
    spec["networkAcls"]["bypas"] = json!("None");
    refused(&api, at, &spec, &["unknown field \"spec.accessTyer\"", "unknown field \"spec.networkAcls.bypas\""]).await;
}

#[tokio::test]
async fn reference_has_exactly_one_form() {
    let installation = installation().await;
    let api = installation.api("rules").await;
    let (at, mut spec) = newest(installation, "ContainerApp");
    let id = "/subscriptions/1/resourceGroups/rg/providers/Microsoft.App/managedEnvironments/env";
    let named = json!({ "group": "app.azure.com", "kind": "ManagedEnvironment", "name": "env" });
    for good in [json!({ "armId": id }), named.clone()] {
        spec["environmentReference"] = good;
        taken(&api, at, &spec).await;
    }
    let mut both = named.clone();
    both["armId"] = json!(id);
    for bad in [json!({}), json!({ "name": "env" }), json!({ "armId": "env" }), both] {
        spec["environmentReference"] = bad;
        refused(&api, at, &spec, &["spec.environmentReference"]).await;
    }
}

#[tokio::test]
async fn owner_has_exactly_one_form() {
    let installation = installation().await;
    let api = installation.api("rules").await;
    let (at, mut spec) = newest(installation, "StorageAccount");
    for good in [json!({ "name": "rg" }), json!({ "armId": "/subscriptions/1/resourceGroups/rg" })] {
        spec["owner"] = good;
        taken(&api, at, &spec).await;
    }
    for bad in
        [json!({}), json!({ "name": "rg", "armId": "/subscriptions/1/resourceGroups/rg" }), json!({ "armId": "rg" })]
    {
        spec["owner"] = bad;
        refused(&api, at, &spec, &["spec.owner"]).await;
    }
    spec.as_object_mut().unwrap().remove("owner");
    refused(&api, at, &spec, &["spec.owner"]).await;
}

#[tokio::test]
async fn value_and_its_config_map_source_exclude_each_other() {
    let installation = installation().await;
    let api = installation.api("rules").await;
    let (at, mut spec) = newest(installation, "FederatedIdentityCredential");
    spec["issuerFromConfig"] = json!({ "name": "config", "key": "issuer" });
    refused(&api, at, &spec, &["issuer and issuerFromConfig exclude each other"]).await;
    spec.as_object_mut().unwrap().remove("issuer");
    taken(&api, at, &spec).await;
}

#[tokio::test]
async fn two_outputs_never_share_a_key() {
    let installation = installation().await;
    let api = installation.api("rules").await;
    let (at, mut spec) = newest(installation, "StorageAccount");
    let to = |key: &str| json!({ "name": "outputs", "key": key });
    let expression = |key: &str| json!({ "name": "outputs", "key": key, "value": "self.metadata.name" });
    let mut outputs = json!({
        "secrets": { "key1": to("a"), "key2": to("b") },
        "secretExpressions": [expression("c"), { "name": "outputs", "value": "{'d': 'e'}" }],
        "configMapExpressions": [expression("a"), expression("b")],
    });
    spec["operatorSpec"] = outputs.clone();
    taken(&api, at, &spec).await;
    for (path, value, words) in [
        ("/secrets/key2", to("a"), "the same Secret key: outputs/a"),
        ("/secretExpressions/0", expression("b"), "the same Secret key: outputs/b"),
        ("/configMapExpressions/1", expression("a"), "the same config map key: outputs/a"),
    ] {
        let before = std::mem::replace(outputs.pointer_mut(path).unwrap(), value);
        spec["operatorSpec"] = outputs.clone();
        refused(&api, at, &spec, &[words]).await;
        *outputs.pointer_mut(path).unwrap() = before;
    }
}
