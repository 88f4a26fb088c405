//! The importer, from a small tree of type data: what comes out, that it is reproducible, and that mistakes are named.

#![expect(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flotilla_crds::{Catalog, Kind, Manager, Owner, Resolved, SecretValue};
use flotilla_crds::{Imported, import};
use serde_json::{Value, json};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

fn imported() -> Imported {
    import(&fixtures().join("types"), &fixtures().join("data"), &[]).unwrap()
}

fn kind(name: &str) -> Arc<Kind> {
    let bytes: &'static [u8] = Box::leak(imported().bytes.into_boxed_slice());
    Catalog::from_bytes(bytes).unwrap().kind("example.azure.com", name).unwrap()
}

fn thing() -> Arc<Kind> {
    kind("Thing")
}

#[test]
fn the_same_inputs_give_the_same_bytes() {
    assert_eq!(imported().bytes, imported().bytes);
}

#[test]
fn a_spec_follows_the_rules() {
    let kind = thing();
    assert_eq!(
        (kind.arm_type(), kind.owner()),
        (
            "Microsoft.Example/things",
            Owner::Kind { group: "resources.azure.com".to_owned(), kind: "ResourceGroup".to_owned() }
        )
    );
    let spec = kind.own_spec_schema("v20240101").unwrap();
    let mut names: Vec<&str> = spec["properties"].as_object().unwrap().keys().map(String::as_str).collect();
    names.sort_unstable();
    // Flattened; `parts` have a kind of their own; the inner location gives way to the outer one.
    assert_eq!(
        names,
        [
            "azureName",
            "chain",
            "count",
            "enabled",
            "fresh",
            "identity",
            "issuer",
            "issuerFromConfig",
            "location",
            "maker",
            "operatorSpec",
            "owner",
            "password",
            "peerReferences",
            "pet",
            "properties_location",
            "ratio",
            "size",
            "subnetReference",
            "tags",
            "tools",
        ]
    );
    assert_eq!(spec["required"], json!(["location", "owner", "size"]));
    assert_eq!(
        spec["properties"]["azureName"],
        json!({"type": "string", "pattern": "^[a-z]+$", "minLength": 3, "maxLength": 24})
    );
    assert_eq!(spec["properties"]["size"]["enum"], json!(["Large", "Small"]));
    assert_eq!(spec["properties"]["ratio"]["type"], "number");
    assert_eq!(spec["properties"]["password"]["required"], json!(["key", "name"]));
    assert_eq!(spec.pointer("/properties/tools/items/properties/length/minimum"), Some(&json!(1)));
    assert_eq!(spec.pointer("/properties/tools/items/properties/id"), None);
    assert_eq!(spec.pointer("/properties/pet/properties/bigDog/properties/name/type"), Some(&json!("string")));
    // A type may occur twice on a path.
    assert!(spec.pointer("/properties/chain/properties/next/properties/value").is_some());
    assert!(spec.pointer("/properties/chain/properties/next/properties/next").is_none());
}

#[test]
fn a_status_has_what_the_service_returns() {
    let status = thing().own_status_schema("v20240101").unwrap();
    let has = |name: &str| status["properties"].get(name).is_some();
    assert!(has("endpoint") && has("subnetId") && has("id") && has("conditions"));
    assert!(!has("password") && !has("apiVersion") && status.get("required").is_none());
    assert_eq!(status.pointer("/properties/parts/items/properties"), Some(&json!({"id": {"type": "string"}})));
    assert!(
        status
            .pointer(
                "/properties/identity/properties/userAssignedIdentities/additionalProperties/properties/principalId"
            )
            .is_some()
    );
}

#[test]
fn our_own_types_stand_beside_azures() {
    let thing = thing();
    let maker = |schema: &Value| schema.pointer("/properties/maker").cloned();
    let spec = |version: &str| maker(&thing.own_spec_schema(version).unwrap());
    let status = thing.own_status_schema("v20240101").unwrap();
    let expected = json!({"type": "object", "required": ["name"], "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 9}, "since": {"type": "integer"}}});
    assert_eq!((spec("v20240101"), spec("v1api20230101")), (Some(expected.clone()), None));
    // A status is checked only where a fact says so.
    assert_eq!(maker(&status), Some(expected));
    assert_eq!(status["properties"]["note"], json!({"type": "string"}));
}

#[test]
fn a_kind_that_is_none_of_arms_is_what_the_table_says() {
    let badge = kind("Badge");
    assert_eq!((badge.arm_type(), badge.entry().manager, badge.owner()), ("", Manager::Entra, Owner::None));
    let version = badge.version("v1").unwrap();
    assert_eq!(version.api_version(), "v1");
    assert_eq!(
        badge.own_spec_schema("v1").unwrap(),
        json!({"type": "object", "required": ["colour"], "properties": {
            "colour": {"type": "string", "enum": ["blue", "red"]},
            "pin": {"type": "object", "required": ["key", "name"], "properties": {"key": {"type": "string"}, "name": {"type": "string"}}}}})
    );
    let status = badge.own_status_schema("v1").unwrap();
    let names: Vec<&String> = status["properties"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["colour", "conditions", "number"]);
    assert_eq!(status["required"], json!(["number"]));
}

#[test]
fn all_versions_have_one_structure_and_old_ones_say_what_they_lack() {
    fn structure(schema: &Value) -> Value {
        let inner = |key: &str| {
            schema[key].as_object().map(|m| m.iter().map(|(k, v)| (k.clone(), structure(v))).collect::<Value>())
        };
        json!({
            "type": schema["type"],
            "properties": inner("properties"),
            "items": schema["items"].is_object().then(|| structure(&schema["items"])),
            "values": schema["additionalProperties"].is_object().then(|| structure(&schema["additionalProperties"])),
        })
    }
    let crd = thing().crd();
    let versions = crd["spec"]["versions"].as_array().unwrap();
    let names: Vec<&str> = versions.iter().map(|v| v["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["v1api20230101", "v20240101", "v20240101storage"]);
    let schema = |i: usize| &versions[i]["schema"]["openAPIV3Schema"];
    assert_eq!(structure(schema(0)), structure(schema(1)));
    // Nothing is written through the storage version, and it is to keep whatever is stored.
    assert_eq!(schema(2)["properties"]["spec"]["x-kubernetes-preserve-unknown-fields"], true);
    assert_eq!(structure(&schema(0)["properties"]["status"]), structure(&schema(2)["properties"]["status"]));
    let rules = |i: usize| schema(i)["properties"]["spec"]["x-kubernetes-validations"].to_string();
    assert!(rules(0).contains("fresh does not exist in v1api20230101, but in v20240101: use kubectl edit things.v20240101.example.azure.com NAME"));
    assert!(
        !rules(1).contains("does not exist") && rules(1).contains("issuer and issuerFromConfig exclude each other")
    );
    assert!(schema(2)["properties"]["spec"].get("required").is_none());
    assert_eq!(versions.iter().filter(|v| v["storage"] == true).count(), 1);
}

#[test]
fn a_body_undoes_what_the_rules_did() {
    let kind = thing();
    let version = kind.version("v20240101").unwrap();
    let id = |name: &str| flotilla_crds::ArmId::resource_group("s", name);
    let mut resolved = Resolved::default();
    resolved.references.insert("spec.subnetReference".to_owned(), id("subnet"));
    resolved.references.insert("spec.peerReferences[0]".to_owned(), id("peer"));
    resolved.references.insert("spec.identity.userAssignedIdentities[0].reference".to_owned(), id("me"));
    resolved.secrets.insert("spec.password".to_owned(), SecretValue::new("hidden"));
    resolved.config.insert("spec.issuerFromConfig".to_owned(), "https://issuer".to_owned());
    let reference = json!({"group": "g", "kind": "K", "name": "n"});
    let spec = json!({
        "azureName": "abc", "owner": {"name": "rg"}, "operatorSpec": {}, "location": "westus", "properties_location": "here", "size": "Small",
        "subnetReference": reference, "peerReferences": [reference], "tags": {}, "password": {"name": "s", "key": "k"},
        "issuerFromConfig": {"name": "c", "key": "k"}, "identity": {"type": "UserAssigned", "userAssignedIdentities": [{"reference": reference}]},
        "pet": {"bigDog": {"name": "Rex", "kind": "BigDog", "barks": false}}, "tools": [{"name": "saw", "length": 3}], "chain": {},
    });
    assert_eq!(version.inputs(&spec).references.len(), 3);
    let body = version.put_body(&spec, "abc", &resolved).unwrap();
    assert_eq!(
        body,
        json!({
            "name": "abc", "location": "westus",
            "identity": {"type": "UserAssigned", "userAssignedIdentities": {id("me").as_str(): {}}},
            "properties": {
                "location": "here", "size": "Small", "subnetId": id("subnet").as_str(), "peerIds": [id("peer").as_str()], "password": "hidden",
                "issuer": "https://issuer", "pet": {"name": "Rex", "kind": "BigDog", "barks": false}, "tools": [{"name": "saw", "properties": {"length": 3}}],
                "chain": {},
            },
        })
    );
    assert_eq!(version.validate_body(&body), Ok(()));
    let status = version.status(&body);
    assert_eq!(status["properties_location"], "here");
    assert_eq!(status["pet"], json!({"bigDog": {"name": "Rex", "kind": "BigDog", "barks": false}}));
    assert_eq!(status["tools"], json!([{"name": "saw", "length": 3}]));
    assert_eq!(status.get("password"), None);
}

#[test]
fn errors_name_the_field() {
    let kind = thing();
    let version = kind.version("v1api20230101").unwrap();
    for (spec, expected) in [
        (json!({"fresh": "x"}), "spec.fresh does not exist in v1api20230101"),
        (json!({"tools": [{"length": "long"}]}), "spec.tools[0].length must be a whole number"),
        (json!({"subnetReference": {"armId": "/subscriptions/s"}}), "spec.subnetReference is not resolved"),
        (json!({"password": {"name": "s", "key": "k"}}), "spec.password is not resolved"),
        (
            json!({"issuer": "x", "issuerFromConfig": {"name": "c", "key": "k"}}),
            "spec.issuer and spec.issuerFromConfig exclude each other: set one of them",
        ),
        (
            json!({"pet": {"cat": {}, "bigDog": {}}}),
            "spec.pet.bigDog and spec.pet.cat exclude each other: set one of them",
        ),
        (json!([]), "spec must be an object"),
    ] {
        assert_eq!(version.put_body(&spec, "abc", &Resolved::default()).unwrap_err().to_string(), expected);
    }
}

#[test]
fn a_wrong_body_is_told_by_path() {
    let kind = thing();
    let version = kind.version("v20240101").unwrap();
    let body = json!({"name": "abc", "properties": {"count": 0, "pet": {"kind": "Fish"}, "enabled": 1, "colour": "red", "size": "Medium", "issuer": "x"}});
    let mut found: Vec<String> = version.validate_body(&body).unwrap_err().iter().map(ToString::to_string).collect();
    found.sort();
    assert_eq!(
        found,
        [
            "location: is required",
            "properties.colour: is not known",
            "properties.count: is out of bounds: 0",
            "properties.enabled: must be true or false",
            "properties.pet.kind: must be one of Cat, BigDog",
        ]
    );
}

#[test]
fn facts_that_no_type_has_are_reported() {
    assert_eq!(imported().unused_facts, ["example.azure.com.tsv:5 ThingProperties.nowhere secret"]);
}

/// The fixtures with one file changed.
fn with(file: &str, text: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    copy(&fixtures(), folder.path());
    fs::write(folder.path().join(file), text).unwrap();
    let error = import(&folder.path().join("types"), &folder.path().join("data"), &[]).unwrap_err().to_string();
    error.replace(&folder.path().display().to_string(), "")
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() { copy(&path, &target) } else { assert!(fs::copy(&path, &target).is_ok()) }
    }
}

#[test]
fn mistakes_are_named_with_file_line_and_rule() {
    const TYPES: &str = "types/example/microsoft.example/2024-01-01/types.json";
    for (file, text, expected) in [
        (TYPES, "{", "/types/example/microsoft.example/2024-01-01/types.json: not a list of types"),
        (TYPES, "[]", "/data/kinds.tsv:2: no types.json has Microsoft.Example/things@2024-01-01"),
        (
            TYPES,
            r##"[{"$type":"ResourceType","name":"Microsoft.Example/things@2024-01-01","body":{"$ref":"#/7"},"writableScopes":8}]"##,
            "/types/example/microsoft.example/2024-01-01/types.json: type Microsoft.Example/things@2024-01-01: it refers to type 7, and the file has 1",
        ),
        ("data/kinds.tsv", "a\tb\n", "/data/kinds.tsv:1: expected 6 columns separated by tabs, found 2"),
        (
            "data/kinds.tsv",
            "g\tK\tks\tA/b\tnext\tnext\n",
            "/data/kinds.tsv:1: version next does not name an api-version",
        ),
        (
            "data/facts/example.azure.com.tsv",
            "*\t*\tThing\tx\tsecrte\t\twhy\n",
            "/data/facts/example.azure.com.tsv:1: unknown fact \"secrte\"",
        ),
        (
            "data/facts/example.azure.com.tsv",
            "*\t*\tThing\tx\tsecret\t\t\n",
            "/data/facts/example.azure.com.tsv:1: a fact needs a reason in its last column",
        ),
        (
            "data/exports.tsv",
            "example.azure.com\tOther\tsecret\tx\t*\t\n",
            "/data/exports.tsv:1: the kind example.azure.com/Other does not exist",
        ),
        (
            "data/exports.tsv",
            "example.azure.com\tThing\tsecret\tx\tv20240101\tlistSecrets:a\n",
            "/data/exports.tsv:1: Microsoft.Example/things@2024-01-01 has no POST action listSecrets",
        ),
        (
            "data/exports.tsv",
            "example.azure.com\tThing\tsecret\tx\tv20240101\tlistKeys:keys[name=a].value\n",
            "/data/exports.tsv:1: listKeys of Microsoft.Example/things@2024-01-01 does not answer keys[name=a].value",
        ),
        (
            "data/exports.tsv",
            "example.azure.com\tThing\tsecret\tx\t*\t\n",
            "/data/exports.tsv:1: the source is not of the form action:path",
        ),
        (
            "data/types/example.azure.com.tsv",
            "Maker\tname\tLetters\t\n",
            "/data/types/example.azure.com.tsv:1: \"Letters\" is not a type of this table",
        ),
    ] {
        assert_eq!(with(file, text), expected);
    }
    assert!(import(Path::new("/nonexistent"), &fixtures().join("data"), &[]).is_err());
}
