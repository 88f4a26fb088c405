//! kubectl's own commands on our kinds, with no webhook anywhere.

use flotilla_worker::engine::spec_version;
use serde_json::{Value, json};

use super::api::{Target, Write, object};
use super::installation::{Installation, installation};
use super::kubectl::Kubectl;
use super::maximal;

const OLD: &str = "v1api20230101";
const NEW: &str = "v20250601";

fn account(installation: &Installation, version: &str, variant: u64) -> Value {
    let kind = installation.kind("StorageAccount");
    let spec = maximal::spec(&kind.own_spec_schema(version).unwrap(), variant);
    object(Target { kind, version, name: "account" }, json!({}), &spec)
}

fn version(object: &Value) -> String {
    spec_version(&serde_json::from_value(object.clone()).unwrap()).unwrap()
}

#[tokio::test]
async fn category_lists_every_kind_with_its_condition() {
    let installation = installation().await;
    let api = installation.api("kubectl").await;
    let kubectl = Kubectl::new(installation.control_plane, &api.namespace);
    for (kind, name) in [("StorageAccount", "account"), ("ResourceGroup", "group")] {
        let kind = installation.kind(kind);
        let version = kind.versions().last().unwrap().name();
        let at = Target { kind, version, name };
        api.create(at, &maximal::spec(&kind.own_spec_schema(version).unwrap(), 0)).await.unwrap();
        let condition = json!({
            "type": "Ready", "status": "False", "severity": "Warning", "reason": "OwnerNotReady",
            "message": "waits for its owner", "lastTransitionTime": "2026-01-02T03:04:05Z",
        });
        let status = json!({ "status": { "conditions": [condition] } });
        api.write_status(at, Write::Merge, "flotilla", &status).await.unwrap();
    }
    for category in ["azure", "storage"] {
        let table = kubectl.ok(&["get", category]).await;
        let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
        let row = ["account", "False", "Warning", "OwnerNotReady", "waits", "for", "its", "owner"];
        assert!(rows.iter().any(|line| line == &["NAME", "READY", "SEVERITY", "REASON", "MESSAGE"]), "{table}");
        assert!(rows.iter().any(|line| line.iter().zip(row).all(|(cell, word)| cell.ends_with(word))), "{table}");
        assert_eq!(table.contains("resourcegroup"), category == "azure", "{table}");
    }
}

#[tokio::test]
async fn dry_run_diff_and_explain_work() {
    let installation = installation().await;
    let api = installation.api("kubectl").await;
    let kubectl = Kubectl::new(installation.control_plane, &api.namespace);
    let first = kubectl.file(&account(installation, OLD, 0));
    let said = kubectl.ok(&["apply", "--dry-run=server", "-f", &first]).await;
    assert!(said.contains("server dry run"), "{said}");
    assert_eq!(kubectl.run(&["get", "storageaccount", "account"]).await.code, 1);
    kubectl.ok(&["apply", "-f", &first]).await;

    let nothing = kubectl.run(&["diff", "-f", &first]).await;
    assert_eq!((nothing.code, &*nothing.out), (0, ""), "{}", nothing.err);
    let mut changed = account(installation, OLD, 0);
    changed["spec"]["tags"] = json!({ "team": "blue" });
    let difference = kubectl.run(&["diff", "-f", &kubectl.file(&changed)]).await;
    assert_eq!(difference.code, 1, "{}", difference.err);
    assert!(difference.out.contains("+    team: blue"), "{}", difference.out);
    let server = kubectl.run(&["diff", "--server-side", "--force-conflicts", "-f", &kubectl.file(&changed)]).await;
    assert!(server.out.contains("+    team: blue"), "{}", server.out);

    let page = kubectl.ok(&["explain", "storageaccount.spec.owner", "--api-version=storage.azure.com/v20250601"]).await;
    assert!(page.contains("armId\t<string>"), "{page}");
    let status = kubectl.ok(&["explain", "containerapp.status.conditions"]).await;
    assert!(status.contains("lastTransitionTime\t<string>"), "{status}");
}

#[tokio::test]
async fn everyday_commands_lose_nothing() {
    let installation = installation().await;
    let api = installation.api("kubectl").await;
    let kubectl = Kubectl::new(installation.control_plane, &api.namespace);
    let pause = || tokio::time::sleep(std::time::Duration::from_millis(1100));
    let new = account(installation, NEW, 0);
    kubectl.ok(&["apply", "-f", &kubectl.file(&new)]).await;

    // No version in the command: kubectl takes the one that discovery prefers, or the one that is named.
    for resource in ["storageaccount", "storageaccounts.v1api20210401.storage.azure.com"] {
        kubectl.ok(&["label", resource, "account", "team=blue", "--overwrite"]).await;
        kubectl.ok(&["annotate", resource, "account", "note=kept", "--overwrite"]).await;
        let read = kubectl.json(resource, "account").await;
        assert_eq!(read["spec"], new["spec"], "{resource}");
        assert_eq!(read["metadata"]["generation"], 1);
    }
    assert_eq!(version(&kubectl_fields(&kubectl).await), NEW);

    pause().await;
    let tier = new["spec"]["accessTier"].as_str().unwrap();
    let other = if tier == "Hot" { "Cool" } else { "Hot" };
    let (from, to) = (format!("accessTier: {tier}"), format!("accessTier: {other}"));
    let old = kubectl.edit("storageaccounts.v1api20210401.storage.azure.com", "account", &from, &to).await;
    assert_ne!(old.code, 0, "{}", old.out);
    let advice = "use kubectl edit storageaccounts.v20250601.storage.azure.com NAME";
    assert!(old.err.contains(advice) || old.out.contains(advice), "{old:?}");
    assert_eq!(kubectl.json("storageaccount", "account").await["spec"], new["spec"]);
    let edited = kubectl.edit("storageaccounts.v20250601.storage.azure.com", "account", &from, &to).await;
    assert_eq!(edited.code, 0, "{edited:?}");
    let mut expected = new["spec"].clone();
    expected["accessTier"] = json!(other);
    let read = kubectl_fields(&kubectl).await;
    assert_eq!((&read["spec"], version(&read)), (&expected, NEW.to_owned()));

    // A manifest of an older version takes away what it does not have, because the last one put it there.
    pause().await;
    let old = account(installation, OLD, 0);
    kubectl.ok(&["apply", "-f", &kubectl.file(&old)]).await;
    let read = kubectl_fields(&kubectl).await;
    assert_eq!((&read["spec"], version(&read)), (&old["spec"], OLD.to_owned()));

    // The same manifest with nothing but another apiVersion.
    pause().await;
    let mut renamed = old.clone();
    renamed["apiVersion"] = json!("storage.azure.com/v20230101");
    kubectl.ok(&["apply", "-f", &kubectl.file(&renamed)]).await;
    let read = kubectl_fields(&kubectl).await;
    assert_eq!((&read["spec"], version(&read)), (&old["spec"], "v20230101".to_owned()));

    // To the server, what the client applied is somebody else's: server-side apply must take it over in its own version first.
    pause().await;
    let server_side = ["apply", "--server-side", "--force-conflicts", "-f"];
    let file = kubectl.file(&new);
    let early = kubectl.run(&[&server_side[..], &[&file]].concat()).await;
    assert!(early.err.contains("sku.tier does not exist in v20250601, but in v20230101"), "{early:?}");
    kubectl.ok(&[&server_side[..], &[&kubectl.file(&renamed)]].concat()).await;
    kubectl.ok(&[&server_side[..], &[&kubectl.file(&new)]].concat()).await;
    let read = kubectl_fields(&kubectl).await;
    assert_eq!((&read["spec"], version(&read)), (&new["spec"], NEW.to_owned()));
}

/// The object with its `managedFields`, which kubectl hides unless asked.
async fn kubectl_fields(kubectl: &Kubectl) -> Value {
    let args = ["get", "storageaccount", "account", "--output=json", "--show-managed-fields"];
    serde_json::from_str(&kubectl.ok(&args).await).unwrap()
}
