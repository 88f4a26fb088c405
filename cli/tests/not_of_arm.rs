//! Kinds that are none of ARM's: planned without a request, listed with what keeps their objects.

#![expect(clippy::unwrap_used, reason = "a test")]

#[path = "shared/program.rs"]
mod program;

use serde_json::{Value, json};

const MANIFESTS: &str = "\
apiVersion: dbformysql.azure.com/v1
kind: User
metadata: {name: sailor}
spec:
  owner: {name: harbour}
  localUser:
    serverAdminUsername: admin
    serverAdminPassword: {name: admin, key: password}
    password: {name: sailor, key: password}
---
apiVersion: dbformysql.azure.com/v20241230
kind: FlexibleServer
metadata: {name: harbour}
spec:
  owner: {armId: /subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/rg}
  location: westus2
---
apiVersion: entra.azure.com/v1
kind: SecurityGroup
metadata: {name: crew}
spec:
  displayName: crew
  mailNickname: crew
  operatorSpec: {configmaps: {entraID: {name: crew, key: id}}}
---
apiVersion: authorization.azure.com/v20220401
kind: RoleAssignment
metadata: {name: crew-reads}
spec:
  owner: {armId: /subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/rg}
  principalIdFromConfig: {name: crew, key: id}
  roleDefinitionReference:
    armId: /subscriptions/00000000-0000-0000-0000-000000000000/providers/Microsoft.Authorization/roleDefinitions/b24988ac-6180-42a0-ab88-20f7382dd24c
";

#[test]
fn their_objects_make_no_request_and_no_error() {
    let ran = program::flotilla(&["plan", "-f", "-", "-o", "json"], MANIFESTS);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let requests: Value = serde_json::from_str(&ran.out).unwrap();
    let objects: Vec<&str> = requests.as_array().unwrap().iter().map(|r| r["object"].as_str().unwrap()).collect();
    assert_eq!(objects, ["FlexibleServer/default/harbour", "RoleAssignment/default/crew-reads"]);
    assert_eq!(requests[1]["body"]["properties"]["principalId"], "<known after apply>");
    assert!(ran.err.contains("User objects belong to a MySQL server and make no request to ARM"), "{}", ran.err);
    assert!(!ran.err.contains("is not among the manifests, so its values"), "{}", ran.err);
    assert!(ran.err.contains("SecurityGroup objects belong to Microsoft Entra"), "{}", ran.err);
}

#[test]
fn their_fields_are_checked() {
    let wrong = MANIFESTS.replace("displayName: crew", "displayNmae: crew");
    let ran = program::flotilla(&["plan", "-f", "-", "-o", "json"], &wrong);
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("displayNmae") && ran.err.contains("displayName"), "{}", ran.err);
}

#[test]
fn they_are_listed_with_what_keeps_them() {
    let ran = program::flotilla(&["crds", "list", "entra.azure.com/*", "-o", "json"], "");
    let listed: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&listed[0]["armType"], &listed[0]["manager"]), (&Value::Null, &json!("entra")));
    let ran = program::flotilla(&["crds", "list", "sql.azure.com/User"], "");
    assert!(ran.out.contains("an Azure SQL database"), "{}", ran.out);
}
