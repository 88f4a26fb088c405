//! What our own tables say beside Azure's: kinds that are none of ARM's, and where exported values come from.

#![expect(clippy::unwrap_used, reason = "a test")]

use flotilla_crds::{ArmId, Catalog, Kind, Manager, Owner};
use serde_json::{Value, json};

fn not_of_arm() -> Vec<std::sync::Arc<Kind>> {
    let catalog = Catalog::embedded();
    let entries = catalog.kinds().filter(|entry| !entry.manager.is_arm());
    entries.map(|entry| catalog.kind(&entry.group, &entry.kind).unwrap()).collect()
}

#[test]
fn users_and_groups_are_kinds_without_an_arm_type() {
    let catalog = Catalog::embedded();
    let found: Vec<(String, Manager)> =
        not_of_arm().iter().map(|kind| (kind.entry().crd_name(), kind.entry().manager)).collect();
    assert_eq!(
        found,
        [
            ("users.dbformysql.azure.com".to_owned(), Manager::MySql),
            ("users.dbforpostgresql.azure.com".to_owned(), Manager::PostgreSql),
            ("securitygroups.entra.azure.com".to_owned(), Manager::Entra),
            ("users.sql.azure.com".to_owned(), Manager::AzureSql),
        ]
    );
    assert!(catalog.kind_of_arm_type("").is_none() && catalog.kind_of_arm_type("mysql/users").is_none());
    for kind in not_of_arm() {
        assert_eq!(kind.arm_type(), "");
        if let Owner::Kind { group, kind } = kind.owner() {
            assert!(catalog.entry(&group, &kind).is_some_and(|owner| owner.manager.is_arm()));
        }
    }
}

#[test]
fn their_only_version_is_stored_and_checks_values() {
    for kind in not_of_arm() {
        let crd = kind.crd();
        let versions = crd["spec"]["versions"].as_array().unwrap();
        assert_eq!(versions.len(), 1);
        assert_eq!((&versions[0]["name"], &versions[0]["storage"]), (&json!("v1"), &json!(true)));
        let spec = &versions[0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
        assert!(spec["required"].is_array(), "{} requires nothing", kind.name());
        assert!(spec["properties"].get("$propertyBag").is_none());
        assert_eq!(kind.crd_with(&[]), crd, "the stored version can't be left out");
    }
}

#[test]
fn an_owner_that_must_be_an_object_has_no_arm_id() {
    let owner = |group: &str| {
        let kind = Catalog::embedded().kind(group, "User").unwrap();
        kind.own_spec_schema("v1").unwrap()["properties"]["owner"].clone()
    };
    assert_eq!(owner("dbformysql.azure.com")["required"], json!(["name"]));
    assert!(owner("dbforpostgresql.azure.com")["properties"].get("armId").is_none());
    assert!(owner("sql.azure.com")["properties"].get("armId").is_some());
}

#[test]
fn a_status_is_checked_where_a_fact_says_so() {
    let kind = Catalog::embedded().kind("insights.azure.com", "AutoscaleSetting").unwrap();
    let crd = kind.crd();
    let version = crd["spec"]["versions"].as_array().unwrap().iter().find(|v| v["name"] == "v1api20221001").unwrap();
    let status = &version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"];
    assert_eq!(status["profiles"]["items"]["required"], json!(["capacity", "name", "rules"]));
    assert!(status.get("required").is_none());
    assert_eq!(status["conditions"]["items"]["required"], json!(["lastTransitionTime", "reason", "status", "type"]));
}

#[test]
fn an_answer_that_a_checked_status_would_refuse_costs_no_more_than_its_part() {
    let kind = Catalog::embedded().kind("insights.azure.com", "AutoscaleSetting").unwrap();
    let version = kind.version("v1api20221001").unwrap();
    let capacity = json!({"minimum": "1", "maximum": "2", "default": "1"});
    let action = |kind: &str| json!({"type": kind, "direction": "Increase", "cooldown": "PT1M"});
    let profile = |rules: Value| json!({"name": "p", "capacity": capacity, "rules": rules});
    let trigger = json!({"metricName": "m", "metricResourceUri": "/x", "operator": "Equals", "statistic": "Max", "threshold": 1.5,
        "timeAggregation": "Last", "timeGrain": "PT1M", "timeWindow": "PT5M"});
    let rule = |kind: &str| json!({"metricTrigger": trigger, "scaleAction": action(kind)});
    let body = json!({"name": "a", "properties": {"enabled": true, "profiles": [
        profile(json!([rule("ExactCount"), rule("SomethingNew")])), {"name": "without capacity", "rules": []}]}});
    let status = version.status(&body);
    assert_eq!(status["profiles"], json!([profile(json!([rule("ExactCount")]))]));
    assert_eq!((&status["name"], &status["enabled"]), (&json!("a"), &json!(true)));
}

#[test]
fn a_child_of_an_object_spells_the_whole_type_its_own_way() {
    let kind = Catalog::embedded().kind("insights.azure.com", "PricingPlan").unwrap();
    let owner_type = "Microsoft.Insights/components";
    let below = |owner: &str| {
        let owner = ArmId::parse(owner).unwrap();
        kind.arm_id_below(Some(&owner), Some(owner_type), "", "current").unwrap().to_string()
    };
    let group = "/subscriptions/s/resourceGroups/rg/providers";
    assert_eq!(
        below(&format!("{group}/Microsoft.Insights/components/c")),
        format!("{group}/microsoft.insights/components/c/pricingPlans/current")
    );
    // What a user spelled stays.
    assert_eq!(
        below(&format!("{group}/MICROSOFT.insights/components/c")),
        format!("{group}/MICROSOFT.insights/components/c/pricingPlans/current")
    );
}

/// Whether a status has a value for a Secret or config map at this path.
fn resolves(status: &Value, path: &str) -> bool {
    let at = path.split('.').try_fold(status, |schema, name| schema["properties"].get(name));
    at.is_some_and(|schema| matches!(schema["type"].as_str(), Some("string" | "integer")))
}

#[test]
fn every_export_says_where_its_value_is() {
    let catalog = Catalog::embedded();
    let mut computed = Vec::new();
    for entry in catalog.kinds() {
        let kind = catalog.kind(&entry.group, &entry.kind).unwrap();
        for version in kind.versions() {
            let status = kind.own_status_schema(version.name()).unwrap();
            for export in version.exports() {
                let about = format!("{}/{} {} {}", entry.group, entry.kind, version.name(), export.name);
                match export.source.split_once(':') {
                    Some(("status", path)) => assert!(resolves(&status, path), "{about}: no {path} in the status"),
                    Some(("computed", what)) => computed.push(what.to_owned()),
                    // That the action exists and answers this is checked when the catalog is made.
                    Some((action, path)) => assert!(!action.is_empty() && !path.is_empty(), "{about}"),
                    None => panic!("{about}: no source"),
                }
            }
        }
    }
    computed.sort();
    computed.dedup();
    assert_eq!(computed, ["first network interface", "subscription of the id"]);
}
