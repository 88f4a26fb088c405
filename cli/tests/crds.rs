//! `flotilla crds` as people run it.

#![expect(clippy::unwrap_used, reason = "a test")]

#[path = "shared/program.rs"]
mod program;

use std::path::Path;

use program::flotilla;
use serde_json::Value;

#[test]
fn kinds_are_listed_with_versions_and_types() {
    let ran = flotilla(&["crds", "list", "resources.azure.com", "app.azure.com/Job"], "");
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    insta::assert_snapshot!(ran.out);
    let names = flotilla(&["crds", "list", "-o", "name", "storageaccount"], "");
    assert_eq!(names.out, "storageaccounts.storage.azure.com\n");
    let json: Vec<Value> = serde_json::from_str(&flotilla(&["crds", "list", "-o", "json"], "").out).unwrap();
    let redis = json.iter().find(|k| k["kind"] == "Redis").unwrap();
    assert!(json.len() >= 287 && redis["secrets"].as_array().unwrap().contains(&"primaryKey".into()), "{redis}");
    let yaml: Vec<Value> = serde_saphyr::from_str(&flotilla(&["crds", "list", "-o", "yaml"], "").out).unwrap();
    assert_eq!(yaml, json);
}

#[test]
fn every_crd_is_printed_in_one_list() {
    let ran = flotilla(&["crds", "print", "*", "-o", "json"], "");
    let list: Value = serde_json::from_str(&ran.out).unwrap();
    let items = list["items"].as_array().unwrap();
    assert_eq!(list["kind"], "List");
    assert!(items.len() >= 287 && items.iter().all(|crd| crd["kind"] == "CustomResourceDefinition"));
    let one = flotilla(&["crds", "print", "ResourceGroup"], "");
    let crd: Value = serde_saphyr::from_str(one.out.strip_prefix("---\n").unwrap()).unwrap();
    assert!(items.contains(&crd));
}

#[test]
fn a_pattern_that_matches_nothing_is_an_error() {
    let ran = flotilla(&["crds", "print", "storag.azure.com/*"], "");
    assert_eq!(ran.err, "error: no kind matches \"storag.azure.com/*\"; did you mean \"storage.azure.com/*\"?\n");
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""));
}

#[test]
fn stats_count_and_measure() {
    let stats: Value = serde_json::from_str(&flotilla(&["crds", "stats", "-o", "json"], "").out).unwrap();
    let number = |path: &str| stats.pointer(path).and_then(Value::as_u64).unwrap();
    assert!(number("/kinds") >= 287 && number("/versions") >= 770, "{stats}");
    assert!(number("/catalogBytes") < 1 << 20 && number("/largestKind/bytes") < 1 << 20, "{stats}");
    assert!(number("/allKinds/bytes") > 0 && number("/allKinds/bytes") < 64 << 20, "{stats}");
}

#[test]
fn a_cluster_that_is_not_there_is_an_error() {
    let ran = flotilla(&["crds", "diff", "ResourceGroup"], "");
    assert!(ran.err.starts_with("error: failed to ") && !ran.err.contains("backtrace"), "{}", ran.err);
    assert_eq!(ran.code, Some(1));
}

#[test]
fn the_reference_is_as_generated() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/kinds.md");
    let committed = std::fs::read_to_string(path).unwrap();
    assert!(committed == flotilla::crds::reference().unwrap(), "docs/reference/kinds.md is stale: run make generate");
}
