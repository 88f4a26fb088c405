//! `flotilla plan` as people run it: what it prints, how it ends, and what it says to bad input.

#![expect(clippy::unwrap_used, reason = "a test")]

#[path = "shared/program.rs"]
mod program;

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use program::flotilla;
use serde_json::Value;

const MANIFEST: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/conformance/storage-and-roles/manifest.yaml");
const SUBSCRIPTION: [&str; 2] = ["--subscription", "00000000-0000-0000-0000-000000000000"];
const GROUP: &str = "apiVersion: resources.azure.com/v1api20200601\nkind: ResourceGroup\nmetadata:\n  name: rg\nspec:\n  location: westus\n";

fn plan(stdin: &str, more: &[&str]) -> program::Ran {
    flotilla(&[&["plan", "-f", "-"], &SUBSCRIPTION[..], more].concat(), stdin)
}

/// A storage account whose spec ends with these lines.
fn account(lines: &str) -> String {
    let head = "apiVersion: storage.azure.com/v1api20230101\nkind: StorageAccount\nmetadata:\n  name: sa\nspec:\n";
    let spec = "  location: westus\n  kind: StorageV2\n  owner: {name: rg}\n  sku: {name: Standard_LRS}\n";
    format!("{GROUP}---\n{head}{spec}{lines}")
}

#[test]
fn a_plan_is_a_tree_of_owners() {
    let ran = flotilla(&[&["plan", "-f", MANIFEST], &SUBSCRIPTION[..]].concat(), "");
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    assert!(
        ran.out.contains("<secret>") && !ran.out.contains("{PASSWORD}"),
        "values of Secrets are hidden from people"
    );
    insta::assert_snapshot!(ran.out);
}

#[test]
fn tools_get_every_value_that_they_gave() {
    for format in ["json", "yaml"] {
        let ran = flotilla(&[&["plan", "-o", format, "-f", MANIFEST], &SUBSCRIPTION[..]].concat(), "");
        let requests: Vec<Value> = serde_saphyr::from_str(&ran.out).unwrap();
        let app = requests.iter().find(|r| r["object"] == "ContainerApp/default/ferry").unwrap();
        assert_eq!(app["body"]["properties"]["configuration"]["secrets"][0]["value"], "{PASSWORD}");
        assert_eq!(app["method"], "PUT");
        let role = requests.iter().find(|r| r["object"] == "RoleAssignment/default/writes-blobs").unwrap();
        assert_eq!(role["body"]["properties"]["principalId"], "<known after apply>");
    }
    let shown = flotilla(&[&["plan", "--show-secrets", "-f", MANIFEST], &SUBSCRIPTION[..]].concat(), "");
    assert!(shown.out.contains("{PASSWORD}"));
}

#[test]
fn exit_codes_tell_what_happened() {
    for (input, flags, code) in [
        (GROUP, &[][..], 0),
        (GROUP, &["--exit-code"][..], 2),
        ("", &["--exit-code"][..], 1),
        ("# nothing\n---\n---\n", &[][..], 1),
        ("apiVersion: v1\nkind: Secret\nmetadata: {name: s}\n", &["--exit-code"][..], 0),
        ("a: [", &["--exit-code"][..], 1),
    ] {
        assert_eq!(plan(input, flags).code, Some(code), "{input}");
    }
    assert_eq!(flotilla(&["plan", "-f", "/does/not/exist.yaml"], "").code, Some(1));
    let ran = flotilla(&["plan", "-f", "-"], GROUP);
    assert_eq!(
        ran.err,
        "note: flotilla plan: the plan shows the nil UUID as the subscription; set --subscription or AZURE_SUBSCRIPTION_ID\n"
    );
}

#[test]
fn what_can_be_planned_is_planned_beside_errors() {
    let ran = plan(&account("  acessTier: Hot\n"), &["-o", "json"]);
    let requests: Vec<Value> = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((ran.code, requests.len()), (Some(1), 1));
    assert_eq!(requests[0]["object"], "ResourceGroup/default/rg");
}

#[test]
fn variables_are_put_in_and_missing_ones_told() {
    let text = GROUP.replace("name: rg", "name: ${NAME}-${WHERE}");
    let ran = plan(&text, &["--var", "NAME=rg", "--var", "WHERE=west", "-o", "json"]);
    assert!(ran.out.contains("/resourceGroups/rg-west?"), "{}", ran.out);
    let ran = plan(&text, &["--var", "NAME=rg"]);
    assert_eq!(ran.err, "note: -:4:1: ${WHERE} is not replaced; --var WHERE=… replaces it\n");
}

#[test]
fn folders_are_read_in_order_and_only_deep_when_asked() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, rg: &str| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, GROUP.replace("name: rg", &format!("name: {rg}"))).unwrap();
    };
    for (file, rg) in [("b.yml", "b"), ("a.yaml", "a"), ("deep/c.json", "c"), ("notes.txt", "d")] {
        write(file, rg);
    }
    let path = folder.path().to_str().unwrap();
    let names = |more: &[&str]| {
        let ran = flotilla(&[&["plan", "-o", "json", "-f", path], &SUBSCRIPTION[..], more].concat(), "");
        let requests: Vec<Value> = serde_json::from_str(&ran.out).unwrap();
        requests.iter().map(|r| r["body"]["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(&[]), ["a", "b"]);
    assert_eq!(names(&["-R"]), ["a", "b", "c"]);
    let empty = tempfile::tempdir().unwrap();
    let ran = flotilla(&["plan", "-f", empty.path().to_str().unwrap()], "");
    assert!(ran.err.contains("the folder contains no .yaml, .yml or .json file") && ran.code == Some(1), "{}", ran.err);
}

#[test]
fn a_policy_of_skip_only_reads() {
    let text =
        GROUP.replace("  name: rg", "  name: rg\n  annotations: {serviceoperator.azure.com/reconcile-policy: skip}");
    let ran = plan(&text, &["-o", "json"]);
    let requests: Vec<Value> = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((requests[0]["method"].as_str(), requests[0]["body"].is_null()), (Some("GET"), true));
}

/// Every mistake is reported with its file, line and field, and what was probably meant.
#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn mistakes_are_told_where_they_are() {
    let rule = |kind: &str, spec: &str| {
        format!(
            "{GROUP}---\napiVersion: network.azure.com/v1api20240301\nkind: {kind}\nmetadata: {{name: x}}\nspec:\n{spec}"
        )
    };
    let cases = [
        (
            account("  acessTier: Hot\n"),
            "error: -:17:3: StorageAccount/default/sa: spec.acessTier: no such field in v1api20230101; did you mean \"accessTier\"?",
        ),
        (
            account("  accessTier: Hott\n"),
            "error: -:17:15: StorageAccount/default/sa: spec.accessTier: must be Cool, Hot or Premium, not \"Hott\"; did you mean \"Hot\"?",
        ),
        (
            account("  accessTier: 5\n"),
            "error: -:17:15: StorageAccount/default/sa: spec.accessTier: must be a string, not 5; write it in quotes",
        ),
        (
            account("  allowBlobPublicAccess: \"true\"\n"),
            "error: -:17:26: StorageAccount/default/sa: spec.allowBlobPublicAccess: must be true or false, not the string \"true\"; leave the quotes out",
        ),
        (
            account("  networkAcls: []\n"),
            "error: -:17:16: StorageAccount/default/sa: spec.networkAcls: must be a map, not a list",
        ),
        (
            account("  networkAcls:\n    bypass: None\n"),
            "error: -:18:5: StorageAccount/default/sa: spec.networkAcls.defaultAction: is required",
        ),
        (
            account("").replace("  sku: {name: Standard_LRS}\n", ""),
            "error: -:13:3: StorageAccount/default/sa: spec.sku: is required",
        ),
        (
            account("").replace("owner: {name: rg}", "owner: {nam: rg}"),
            "error: -:15:11: StorageAccount/default/sa: spec.owner.nam: no such field in v1api20230101; did you mean \"name\"?",
        ),
        (
            account("").replace("owner: {name: rg}", "owner: {name: rh}"),
            "warning: -:15:3: StorageAccount/default/sa: spec.owner: ResourceGroup/default/rh is not among the manifests, so its id is not known; did you mean \"rg\"?",
        ),
        (
            account("").replace("owner: {name: rg}", "owner: {name: rg, armId: /subscriptions/s}"),
            "error: -:15:3: StorageAccount/default/sa: spec.owner: name and armId exclude each other",
        ),
        (
            account("").replace(
                "owner: {name: rg}",
                "owner: {armId: /subscriptions/s/resourceGroups/g/providers/Microsoft.Web/sites/x}",
            ),
            "error: -:15:11: StorageAccount/default/sa: spec.owner.armId: owner /subscriptions/s/resourceGroups/g/providers/Microsoft.Web/sites/x is of type Microsoft.Web/sites, but StorageAccount belongs to a resource of type Microsoft.Resources/resourceGroups",
        ),
        (
            account("  azureName: a/b\n"),
            "error: -:17:14: StorageAccount/default/sa: spec.azureName: \"a/b\" does not match ^[a-z0-9]+$",
        ),
        (
            GROUP.replace("ResourceGroup", "ResourceGrup"),
            "error: -:2:1: ResourceGrup/default/rg: resources.azure.com has no kind ResourceGrup; did you mean \"ResourceGroup\"?",
        ),
        (
            GROUP.replace("resources.", "web."),
            "error: -:2:1: ResourceGroup/default/rg: web.azure.com has no kind ResourceGroup; ResourceGroup is in resources.azure.com",
        ),
        (
            GROUP.replace("resources.", "resource."),
            "error: -:1:1: ResourceGroup/default/rg: no API group resource.azure.com; did you mean \"resources.azure.com\"?",
        ),
        (
            GROUP.replace("20200601", "20200602"),
            "error: -:1:1: ResourceGroup/default/rg: apiVersion: ResourceGroup has no version v1api20200602; did you mean \"v1api20200601\"? it has v1api20200601",
        ),
        (GROUP.replace("metadata", "metdata"), "error: -:1:1: ResourceGroup/default/: metadata.name is missing"),
        (
            GROUP.replace("name: rg", "name: on"),
            "error: -:4:3: ResourceGroup: metadata.name: must be a string, not true; write it in quotes",
        ),
        (
            GROUP.replace("apiVersion", "apiversion"),
            "error: -:1:1: apiVersion is missing; did you mean \"apiVersion\"?",
        ),
        (
            GROUP.replace("  name: rg", "  name: rg\n  namspace: x"),
            "error: -:5:3: ResourceGroup/default/rg: metadata.namspace: no such field; did you mean \"namespace\"?",
        ),
        ("- a\n- b\n".to_owned(), "error: -:1:1: a manifest must be a map with apiVersion, kind and metadata"),
        ("kind: List\napiVersion: v1\nitems: 3\n".to_owned(), "error: -:1:1: items: a List must have a list of items"),
        (
            "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata: {a: '%%'}\n".to_owned(),
            "error: -:4:8: data.a: not base64; plain text goes into stringData",
        ),
        (
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\n".to_owned(),
            "note: -:1:1: skipped Deployment (apps/v1): not a resource of ARM",
        ),
        (format!("{GROUP}---\n{GROUP}"), "warning: -:8:1: ResourceGroup/default/rg: the object is also in -:1:1"),
        (
            rule(
                "NetworkInterface",
                "  location: westus\n  owner: {name: rg}\n  ipConfigurations:\n  - name: a\n    subnet:\n      reference: {group: network.azure.com, kind: VirtualNetworkSubnet, name: s}\n",
            ),
            "error: -:17:7: NetworkInterface/default/x: spec.ipConfigurations[0].subnet.reference: no kind VirtualNetworkSubnet in \"network.azure.com\"; did you mean \"VirtualNetworksSubnet\"?",
        ),
        (
            rule(
                "NetworkInterface",
                "  location: westus\n  owner: {name: rg}\n  ipConfigurations:\n  - name: a\n    subnet:\n      reference: {group: network.azure.com, name: s}\n",
            ),
            "error: -:17:18: NetworkInterface/default/x: spec.ipConfigurations[0].subnet.reference: set either armId, or group, kind and name",
        ),
        ("a: 1\nb: [1, 2\nc: 3\n".to_owned(), "error: -:3:2: not valid YAML: "),
        ("a: 1\n\tb: 2\n".to_owned(), "error: -:1:4: not valid YAML: while scanning a plain scalar, found a tab"),
    ];
    let mut wrong = String::new();
    for (input, expected) in cases {
        let ran = plan(&input, &[]);
        if !ran
            .err
            .lines()
            .any(|line| if expected.ends_with([':', ' ']) { line.starts_with(expected) } else { line == expected })
        {
            writeln!(wrong, "expected {expected}\ngot      {}", ran.err).unwrap();
        }
        let failed = expected.starts_with("error");
        assert_eq!(ran.code, Some(i32::from(failed)), "{expected}");
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn objects_that_wait_for_each_other_are_named() {
    let rule = |name: &str, other: &str| {
        format!(
            "---\napiVersion: network.azure.com/v1api20240301\nkind: VirtualNetworksVirtualNetworkPeering\nmetadata: {{name: {name}}}\nspec:\n  owner: {{name: {name}}}\n\
             ---\napiVersion: network.azure.com/v1api20240301\nkind: VirtualNetwork\nmetadata: {{name: {name}}}\nspec:\n  location: westus\n  owner: {{name: rg}}\n  \
             ddosProtectionPlan: {{reference: {{group: network.azure.com, kind: VirtualNetwork, name: {other}}}}}\n"
        )
    };
    let ran = plan(&format!("{GROUP}{}{}", rule("a", "b"), rule("b", "a")), &["-o", "json"]);
    let field = "spec.ddosProtectionPlan.reference";
    let expected = format!(
        "these wait for each other: VirtualNetwork/default/a ({field}) → VirtualNetwork/default/b ({field}) → VirtualNetwork/default/a; name one of them"
    );
    assert!(ran.err.contains(&expected), "{}", ran.err);
    let stuck = "VirtualNetworksVirtualNetworkPeering/default/a: it depends on objects that wait for each other";
    assert!(ran.err.contains(stuck), "{}", ran.err);
    let requests: Vec<Value> = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((ran.code, requests.len()), (Some(1), 1));
}

#[test]
fn huge_and_deep_input_is_refused_soon() {
    let folder = tempfile::tempdir().unwrap();
    let huge = folder.path().join("huge.yaml");
    std::fs::write(&huge, "a: b\n".repeat(20 << 20)).unwrap();
    let start = Instant::now();
    let ran = flotilla(&["plan", "-f", huge.to_str().unwrap()], "");
    assert!(ran.err.contains("larger than 64 MiB; split it into several files"), "{}", ran.err);
    assert_eq!(ran.code, Some(1));
    let piped = plan(&"x".repeat(65 << 20), &[]);
    assert!(piped.err.contains("-: larger than 64 MiB"), "{}", piped.err);
    let deep = plan(&account(&format!("  tags: {}{}\n", "{a: ".repeat(5000), "}".repeat(5000))), &[]);
    assert!(
        deep.err.starts_with("error: -:17:") && deep.err.contains("not valid YAML: nested deeper than 100 levels"),
        "{}",
        deep.err
    );
    let many = plan(&format!("a: [{}]\n", "1,".repeat(3_000_000)), &[]);
    assert!(many.err.contains("not valid YAML: more than 2000000 values"), "{}", many.err);
    assert!(start.elapsed() < Duration::from_mins(1), "took {:?}", start.elapsed());
}

#[test]
fn two_objects_of_one_resource_are_told() {
    let account = |name: &str| {
        format!(
            "---\napiVersion: storage.azure.com/v1api20230101\nkind: StorageAccount\nmetadata: {{name: {name}}}\n\
             spec: {{azureName: same, owner: {{name: rg}}, location: westus2, kind: StorageV2, sku: {{name: Standard_LRS}}}}\n"
        )
    };
    let ran = flotilla(&["plan", "-f", "-"], &format!("{GROUP}{}{}", account("one"), account("two")));
    assert!(ran.err.contains("it is the same resource in Azure as StorageAccount/default/one"), "{}", ran.err);
    assert_eq!(ran.code, Some(0));
}

#[test]
fn a_resource_that_an_alternative_names_needs_one() {
    let config = |spec: &str| {
        format!(
            "apiVersion: web.azure.com/v20250301\nkind: SitesConfig\nmetadata: {{name: c}}\n\
             spec: {{owner: {{armId: /subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/rg/providers/Microsoft.Web/sites/s}}{spec}}}\n"
        )
    };
    let none = flotilla(&["plan", "-f", "-"], &config(""));
    assert!(none.err.contains("set one of appsettings, ") && none.code == Some(1), "{}", none.err);
    let web = flotilla(&["plan", "-f", "-", "-o", "json"], &config(", web: {alwaysOn: true}"));
    assert!(web.out.contains("/sites/s/config/web?api-version"), "{}{}", web.out, web.err);
}

#[test]
fn an_owner_without_an_arm_id_is_refused() {
    let lock = "apiVersion: entra.azure.com/v1
kind: SecurityGroup
metadata: {name: sg}
spec: {displayName: d, mailNickname: m}
---
apiVersion: authorization.azure.com/v1api20220401
kind: RoleAssignment
metadata: {name: ra}
spec:
  owner: {group: entra.azure.com, kind: SecurityGroup, name: sg}
  principalId: 9a329043-7ad7-4b1c-812f-9c7a93d6392a
  roleDefinitionReference: {armId: /providers/Microsoft.Authorization/roleDefinitions/acdd72a7-3385-48ef-bd42-f606fba81ae7}
";
    let ran = flotilla(&["plan", "-f", "-"], lock);
    assert!(ran.err.contains("SecurityGroup objects have no ARM id") && ran.code == Some(1), "{}", ran.err);
}
