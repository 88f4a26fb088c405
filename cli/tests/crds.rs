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
    assert!(json.len() == 294 && redis["secrets"].as_array().unwrap().contains(&"primaryKey".into()), "{redis}");
    let yaml: Vec<Value> = serde_saphyr::from_str(&flotilla(&["crds", "list", "-o", "yaml"], "").out).unwrap();
    assert_eq!(yaml, json);
}

#[test]
fn every_crd_is_printed_in_one_list() {
    let ran = flotilla(&["crds", "print", "*", "-o", "json"], "");
    let list: Value = serde_json::from_str(&ran.out).unwrap();
    let items = list["items"].as_array().unwrap();
    assert_eq!(list["kind"], "List");
    assert!(items.len() == 294 && items.iter().all(|crd| crd["kind"] == "CustomResourceDefinition"));
    let one = flotilla(&["crds", "print", "ResourceGroup"], "");
    let crd: Value = serde_saphyr::from_str(one.out.strip_prefix("---\n").unwrap()).unwrap();
    assert!(items.contains(&crd));
}

#[test]
fn any_type_of_azure_can_be_had_at_any_api_version() {
    let print = |pattern: &str| -> Value {
        let ran = flotilla(&["crds", "print", pattern, "-o", "json"], "");
        assert_eq!(ran.err, "");
        serde_json::from_str::<Value>(&ran.out).unwrap()["items"][0].clone()
    };
    let names = |crd: &Value| -> Vec<String> {
        let versions = crd["spec"]["versions"].as_array().unwrap().iter();
        versions.map(|v| v["name"].as_str().unwrap().to_owned()).collect()
    };
    let old = print("microsoft.automation/automationaccounts@2021-06-22");
    assert_eq!(old["metadata"]["name"], "automationaccounts.automation.azure.com");
    assert_eq!(names(&old).len(), 3, "the named one, the newest and the storage version");
    assert!(names(&old).contains(&"v20210622".to_owned()));
    // Also of a kind that ASO has, beside its own versions.
    let both = names(&print("Microsoft.Storage/storageAccounts@2019-06-01;storage.azure.com/StorageAccount"));
    assert!(both.contains(&"v20190601".to_owned()) && both.contains(&"v1api20230101".to_owned()), "{both:?}");
    let unknown = flotilla(&["crds", "print", "microsoft.automation/automationaccounts@1999-01-01"], "");
    assert!(unknown.err.contains("has no api-version 1999-01-01 in this catalog; the newest are 2"), "{}", unknown.err);
    let listed =
        flotilla(&["crds", "list", "--all-versions", "-o", "json", "AutomationAccount.automation.azure.com"], "");
    assert_ne!(listed.code, Some(0));
    let listed =
        flotilla(&["crds", "list", "--all-versions", "-o", "json", "automation.azure.com/AutomationAccount"], "");
    let listed: Value = serde_json::from_str(&listed.out).unwrap();
    assert!(listed[0]["otherVersions"].as_array().unwrap().len() > 5, "{listed}");
    assert!(flotilla(&["crds", "list", "--further", "-o", "name"], "").out.lines().count() > 1_700);
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
    assert!(number("/kinds") == 294 && number("/versions") == 777, "{stats}");
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
    for (page, further) in [("kinds.md", false), ("further_types.md", true)] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference").join(page);
        let committed = std::fs::read_to_string(path).unwrap();
        let made = flotilla::crds::reference(further).unwrap();
        assert!(committed == made, "docs/reference/{page} is stale: run make generate");
    }
}

#[test]
fn example_shows_what_must_be_set_and_what_else_could_be() {
    let ran = flotilla(&["crds", "example", "StorageAccount", "--version", "2023-01-01"], "");
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    insta::assert_snapshot!(ran.out);
    let full = flotilla(&["crds", "example", "containerapp", "--full"], "").out;
    for note in
        ["# or group, kind and name of an object", "# of a Secret in", "activeRevisionsMode: Multiple # or Single"]
    {
        assert!(full.contains(note), "{note}:\n{full}");
    }
}

#[test]
fn example_is_of_the_version_that_the_pattern_names() {
    let ran = flotilla(&["crds", "example", "Microsoft.Automation/automationAccounts@2023-11-01"], "");
    assert!(ran.out.contains("apiVersion: automation.azure.com/v20231101\n"), "{}{}", ran.out, ran.err);
    let ran = flotilla(&["crds", "example", "Microsoft.Automation/automationAccounts@1999-01-01"], "");
    assert!(ran.err.contains("has no api-version 1999-01-01") && ran.code == Some(1), "{}", ran.err);
    let ran = flotilla(&["crds", "example", "Microsoft.Resources/deployments"], "");
    assert!(ran.out.contains("mode: Incremental"), "{}", ran.out);
}

#[test]
fn every_example_can_be_planned() {
    for extent in [&[][..], &["--full"]] {
        let ask = |format| flotilla(&[&["crds", "example", "*", "-o", format], extent].concat(), "").out;
        let yaml = ask("yaml");
        let list: Value = serde_json::from_str(&ask("json")).unwrap();
        let examples = list["items"].as_array().unwrap();
        assert_eq!(&serde_saphyr::from_multiple::<Value>(&yaml).unwrap(), examples);
        let plan = flotilla(&["plan", "-f", "-", "-o", "json"], &yaml);
        assert_eq!(plan.code, Some(0), "{}", plan.err);
        let requests: Vec<Value> = serde_json::from_str(&plan.out).unwrap();
        let not_of_arm = plan.err.matches("make no request to ARM").count();
        assert_eq!(requests.len() + not_of_arm, examples.len(), "{}", plan.err);
        assert!(requests.len() >= 290 && not_of_arm < 5, "{} requests", requests.len());
    }
}

#[test]
fn example_of_a_version_that_is_not_there_is_an_error() {
    for (version, help) in [
        ("v1api20230102", "did you mean \"v1api20230101\"?"),
        ("latest", "there are v1api20210401, v20210401, v1api20220901, "),
    ] {
        let ran = flotilla(&["crds", "example", "StorageAccount", "--version", version], "");
        let start = format!("error: storage.azure.com/StorageAccount has no version {version:?}; {help}");
        assert!(ran.err.starts_with(&start) && ran.code == Some(1), "{}", ran.err);
    }
    let ran = flotilla(&["crds", "example", "StorageAcount"], "");
    assert_eq!(ran.err, "error: no kind matches \"StorageAcount\"; did you mean \"StorageAccount\"?\n");
}
