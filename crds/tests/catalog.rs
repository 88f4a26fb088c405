//! The committed catalog: every kind loads, is owned and named as it should be, and has a CRD of sound form.

#![expect(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeSet;
use std::time::Instant;

use flotilla_crds::{ArmId, Catalog, NameContext, Owner, Pattern, Scope, Target, Version, admission_policies};
use serde_json::{Value, json};

const GROUP: &str = "/subscriptions/s/resourceGroups/rg";

fn context(name: &str) -> NameContext<'_> {
    NameContext { namespace: "default", name, uid: "2b3ad6d4-8a2b-4f0b-9d0c-1d5f3c2b1a00", from_config: None }
}

#[test]
fn every_kind_loads() {
    let catalog = Catalog::embedded();
    let start = Instant::now();
    let (mut kinds, mut versions, mut nodes) = (0, 0, 0);
    for entry in catalog.kinds() {
        let kind = catalog.kind(&entry.group, &entry.kind).unwrap();
        kinds += 1;
        versions += kind.versions().len();
        nodes += kind.node_count();
        if entry.manager.is_arm() {
            assert_eq!(catalog.kind_of_arm_type(&entry.arm_type.to_uppercase()).unwrap().arm_type, entry.arm_type);
        }
        // What `crdVersions=newest` installs and examples are made of.
        let stable = kind.versions().iter().rfind(|version| !version.name().contains("preview"));
        let newest = stable.or(kind.versions().last()).map(Version::name);
        assert_eq!(kind.hub().map(Version::name), newest, "the hub of {} is not its newest version", entry.kind);
    }
    println!("{kinds} kinds, {versions} versions, {nodes} types in {:?}", start.elapsed());
    let standard: Vec<usize> = catalog.standard().map(|entry| entry.versions.len()).collect();
    assert_eq!((standard.len(), standard.iter().sum()), (294, 777));
    assert!(kinds > 294 + 1_700 && versions > 777 + 1_700);
}

#[test]
fn owners_that_are_kinds_exist() {
    let catalog = Catalog::embedded();
    for entry in catalog.kinds().filter(|entry| entry.manager.is_arm()) {
        if let Some((group, kind)) = &entry.owner {
            let owner = catalog
                .entry(group, kind)
                .unwrap_or_else(|| panic!("{} is owned by {kind}, which is not a kind", entry.kind));
            let below = entry.arm_type.rsplit_once('/').unwrap().0;
            assert!(kind == "ResourceGroup" || owner.arm_type.eq_ignore_ascii_case(below), "{}", entry.kind);
        }
        let alone = flotilla_crds::Owner::None == catalog.kind(&entry.group, &entry.kind).unwrap().owner();
        assert!(
            !alone || entry.scopes.tenant() || entry.scopes.subscription(),
            "{} has no owner and no scope",
            entry.kind
        );
    }
}

#[test]
fn ids_follow_the_owner() {
    let catalog = Catalog::embedded();
    let kind = |group: &str, kind: &str| catalog.kind(group, kind).unwrap();
    let rg = kind("resources.azure.com", "ResourceGroup");
    assert_eq!((rg.owner(), rg.scope()), (Owner::None, Scope::Subscription));
    let group = rg.arm_id(None, "s", "rg").unwrap();
    assert_eq!(group.as_str(), GROUP);
    let account = kind("storage.azure.com", "StorageAccount");
    let account_id = account.arm_id(Some(&group), "s", "sa").unwrap();
    assert_eq!(account_id.as_str(), format!("{GROUP}/providers/Microsoft.Storage/storageAccounts/sa"));
    let blob = kind("storage.azure.com", "StorageAccountsBlobService");
    assert_eq!(
        blob.arm_id(Some(&account_id), "s", "default").unwrap().as_str(),
        format!("{account_id}/blobServices/default")
    );
    let role = kind("authorization.azure.com", "RoleAssignment");
    assert_eq!(role.owner(), Owner::Extension);
    assert_eq!(
        role.arm_id(Some(&account_id), "s", "r").unwrap(),
        account_id.extension("Microsoft.Authorization/roleAssignments", "r")
    );
    let wrong = blob.arm_id(Some(&group), "s", "default").unwrap_err().to_string();
    assert_eq!(
        wrong,
        format!(
            "owner {GROUP} is of type Microsoft.Resources/resourceGroups, but StorageAccountsBlobService belongs to a resource of type Microsoft.Storage/storageAccounts"
        )
    );
    assert_eq!(
        account.arm_id(None, "s", "sa").unwrap_err().to_string(),
        "StorageAccount needs an owner, but spec.owner is not set"
    );
}

#[test]
fn names_are_stated_defaulted_fixed_or_uuids() {
    let catalog = Catalog::embedded();
    let kind = |group: &str, kind: &str| catalog.kind(group, kind).unwrap();
    let account = kind("storage.azure.com", "StorageAccount");
    assert_eq!(account.arm_name(&context("sa"), &json!({})).unwrap(), "sa");
    assert_eq!(account.arm_name(&context("sa"), &json!({"azureName": "other"})).unwrap(), "other");
    assert!(account.arm_name(&context("sa"), &json!({"azureName": "a/b"})).is_err());
    let blob = kind("storage.azure.com", "StorageAccountsBlobService");
    assert_eq!(blob.arm_name(&context("x"), &json!({})).unwrap(), "default");
    let role = kind("authorization.azure.com", "RoleAssignment");
    let spec = json!({"owner": {"group": "resources.azure.com", "kind": "ResourceGroup", "name": "rg"}});
    let name = role.arm_name(&context("r"), &spec).unwrap();
    assert_eq!(name.len(), 36);
    assert_eq!(role.arm_name(&context("r"), &spec).unwrap(), name);
    assert_ne!(role.arm_name(&context("q"), &spec).unwrap(), name);
    let own = "aab463b4-d1c7-43d2-ab6f-d208a9ebda45";
    assert_eq!(role.arm_name(&context(own), &spec).unwrap(), own);
}

#[test]
fn targets_say_what_is_wrong_with_them() {
    let owner = Some(("resources.azure.com", "ResourceGroup"));
    let object = Target::Object {
        group: "resources.azure.com".to_owned(),
        kind: "ResourceGroup".to_owned(),
        name: "rg".to_owned(),
    };
    assert_eq!(Target::of_owner(&json!({"name": "rg"}), owner), object);
    assert_eq!(Target::of_owner(&json!({"armId": GROUP}), owner), Target::ArmId(ArmId::parse(GROUP).unwrap()));
    for bad in [json!({}), json!({"name": "a", "armId": GROUP}), json!({"armId": "rg"})] {
        assert!(matches!(Target::of_owner(&bad, owner), Target::Malformed(_)), "{bad}");
    }
    assert!(matches!(Target::of_reference(&json!({"armId": GROUP, "name": "x"})), Target::Malformed(_)));
}

#[test]
fn every_crd_has_one_storage_version_and_fits_the_api_server() {
    let catalog = Catalog::embedded();
    for entry in catalog.kinds() {
        let crd = catalog.kind(&entry.group, &entry.kind).unwrap().crd();
        let versions = crd["spec"]["versions"].as_array().unwrap();
        let storage: Vec<&Value> = versions.iter().filter(|v| v["storage"] == true).collect();
        assert_eq!(storage.len(), 1);
        assert_eq!(versions.last().unwrap()["name"], json!(entry.storage_version()));
        let size = crd.to_string().len();
        assert!(size < 1 << 20, "{} takes {size} bytes", entry.kind);
    }
}

/// Whether CEL knows a property with this schema.
fn is_visible(schema: &Value) -> bool {
    match (schema.get("items"), schema.get("additionalProperties")) {
        (Some(inner), _) | (_, Some(inner)) => is_visible(inner),
        _ => schema["x-kubernetes-preserve-unknown-fields"] != true,
    }
}

fn check_rules(schema: &Value, found: &mut usize) {
    for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
        *found += 1;
        assert!(rule["message"].as_str().unwrap().len() < 2048);
        for name in rule["rule"].as_str().unwrap().split("has(self.").skip(1).filter_map(|rest| rest.split(')').next())
        {
            let property = schema["properties"].get(name.replace("__dash__", "-").trim_matches('_'));
            assert!(property.is_some_and(is_visible), "CEL does not know {name} of {schema}");
        }
    }
    let inner = schema["properties"].as_object().into_iter().flatten().map(|(_, s)| s);
    for inner in inner.chain(schema.get("items")).chain(schema.get("additionalProperties")) {
        check_rules(inner, found);
    }
}

#[test]
fn rules_are_about_properties_that_cel_knows() {
    let catalog = Catalog::embedded();
    let mut found = 0;
    for entry in catalog.kinds() {
        for version in catalog.kind(&entry.group, &entry.kind).unwrap().crd()["spec"]["versions"].as_array().unwrap() {
            check_rules(&version["schema"]["openAPIV3Schema"], &mut found);
        }
    }
    println!("{found} rules");
    assert!(found > 500);
}

#[test]
fn one_policy_serves_all_kinds_of_a_pattern() {
    let catalog = Catalog::embedded();
    let pattern = Pattern::parse("storage.azure.com/*;app.azure.com/Job").unwrap();
    let policies = admission_policies(catalog.matching(&pattern));
    assert_eq!(policies.len(), 2);
    let rules = policies[0]["spec"]["matchConstraints"]["resourceRules"].as_array().unwrap();
    let groups: BTreeSet<&str> = rules.iter().map(|r| r["apiGroups"][0].as_str().unwrap()).collect();
    assert_eq!(groups, BTreeSet::from(["app.azure.com", "storage.azure.com"]));
    assert!(admission_policies([]).is_empty());
}

/// The structure of a schema: what the API server prunes by.
fn structure(schema: &Value) -> Value {
    let below = |name: &str| schema.get(name).filter(|inner| inner.is_object()).map(structure);
    let fields = schema["properties"].as_object().into_iter().flatten();
    let fields: serde_json::Map<String, Value> = fields.map(|(name, inner)| (name.clone(), structure(inner))).collect();
    json!({
        "type": schema["type"], "properties": fields, "items": below("items"), "values": below("additionalProperties"),
        "all": schema["x-kubernetes-preserve-unknown-fields"],
    })
}

#[test]
fn api_versions_share_their_structure_and_the_storage_version_prunes_no_spec() {
    let catalog = Catalog::embedded();
    for entry in catalog.standard() {
        let crd = catalog.kind(&entry.group, &entry.kind).unwrap().crd();
        let versions = crd["spec"]["versions"].as_array().unwrap();
        let part = |version: &Value, part: &str| version["schema"]["openAPIV3Schema"]["properties"][part].clone();
        let (storage, api): (Vec<&Value>, Vec<&Value>) =
            versions.iter().partition(|version| version["storage"] == true);
        let Some(first) = api.first() else { continue };
        for version in &api {
            let name = format!("{} {}", entry.kind, version["name"]);
            assert_eq!(structure(&part(version, "spec")), structure(&part(first, "spec")), "{name}");
            assert_eq!(structure(&part(version, "status")), structure(&part(first, "status")), "{name}");
        }
        assert_eq!(part(storage[0], "spec")["x-kubernetes-preserve-unknown-fields"], true, "{}", entry.kind);
        assert_eq!(structure(&part(storage[0], "status")), structure(&part(first, "status")), "{}", entry.kind);
    }
}
