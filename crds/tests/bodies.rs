//! Rules of PUT bodies that only some kinds show.

#![expect(clippy::unwrap_used, reason = "a test")]

use flotilla_crds::{ArmId, Catalog, Resolved};
use serde_json::{Value, json};

fn body(group: &str, kind: &str, version: &str, spec: &Value, resolved: &Resolved) -> Value {
    let kind = Catalog::embedded().kind(group, kind).unwrap();
    kind.version(version).unwrap().put_body(spec, "thing", resolved).unwrap()
}

#[test]
fn where_what_is_not_set_is_null_an_empty_map_is_sent_as_it_is() {
    let account =
        |spec: &Value| body("storage.azure.com", "StorageAccount", "v1api20230101", spec, &Resolved::default());
    assert_eq!(account(&json!({"location": "westus2"})).get("tags"), Some(&Value::Null));
    assert_eq!(account(&json!({"tags": {}}))["tags"], json!({}));
    // An empty list is one that is not set.
    let body_of = |rules: Value| account(&json!({"networkAcls": {"defaultAction": "Deny", "ipRules": rules}}));
    assert_eq!(body_of(json!([])).pointer("/properties/networkAcls/ipRules"), Some(&Value::Null));
    // Elsewhere both are left out.
    let group =
        |spec: Value| body("resources.azure.com", "ResourceGroup", "v1api20200601", &spec, &Resolved::default());
    assert!(group(json!({"location": "westus2", "tags": {}})).get("tags").is_none());
}

#[test]
fn of_a_string_and_a_reference_the_reference_counts() {
    let kind = Catalog::embedded().kind("machinelearningservices.azure.com", "Workspace").unwrap();
    let schema = kind.own_spec_schema("v1api20210701").unwrap();
    assert_eq!(
        schema.pointer("/properties/encryption/properties/keyVaultProperties/required"),
        Some(&json!(["keyIdentifier", "keyVaultArmId", "keyVaultArmReference"]))
    );
    let id = ArmId::resource_group("s", "rg").extension("Microsoft.KeyVault/vaults", "v");
    let mut resolved = Resolved::default();
    let at = "spec.encryption.keyVaultProperties.keyVaultArmReference";
    resolved.references.insert(at.to_owned(), id.clone());
    let spec = json!({"location": "westus2", "encryption": {"keyVaultProperties": {
        "keyIdentifier": "k", "keyVaultArmId": "/elsewhere", "keyVaultArmReference": {"armId": id.as_str()}}}});
    let body = body("machinelearningservices.azure.com", "Workspace", "v1api20210701", &spec, &resolved);
    assert_eq!(body.pointer("/properties/encryption/keyVaultProperties/keyVaultArmId"), Some(&json!(id.as_str())));
}

#[test]
fn a_body_that_carries_children_has_properties_even_if_there_are_none() {
    let kind = Catalog::embedded().kind("network.azure.com", "NetworkSecurityGroup").unwrap();
    let version = kind.version("v20250301").unwrap();
    let mut body = json!({"name": "nsg", "location": "westus2"});
    version.keep_children(&mut body, &json!({"properties": {"securityRules": []}}));
    assert_eq!(body, json!({"name": "nsg", "location": "westus2", "properties": {}}));
}
