//! What specs need, and what is said of those that give no request.

use serde_json::{Value, json};

use super::*;
use crate::Catalog;

const ADMIN: (&str, &str) = ("dbforpostgresql.azure.com", "FlexibleServersAdministrator");
const SERVER: &str = "/subscriptions/s/resourceGroups/rg/providers/Microsoft.DBforPostgreSQL/flexibleServers/pg";

/// Asks the seam about an object `default/mine` with this spec.
fn with<R>((group, kind): (&str, &str), uid: Option<&str>, spec: &Value, ask: impl FnOnce(Subject<'_>) -> R) -> R {
    let catalog = Catalog::embedded();
    let kind = catalog.kind(group, kind).expect("the kind is in the catalog");
    let version = kind.hub().expect("the kind has a hub");
    ask(Subject { catalog, kind: &kind, version, namespace: "default", name: "mine", uid, spec })
}

#[test]
fn name_from_a_config_map_is_a_need_and_its_value_becomes_the_name() {
    let spec = json!({
        "owner": {"armId": SERVER},
        "azureNameFromConfig": {"name": "principals", "key": "admin"},
        "principalType": "User",
    });
    with(ADMIN, Some("u"), &spec, |subject| {
        let needs = subject.needs();
        let name = needs.name.as_ref().expect("the name is needed");
        assert_eq!(
            (name.path.as_str(), name.name.as_str(), name.key.as_deref()),
            ("spec.azureNameFromConfig", "principals", Some("admin"))
        );
        assert!(needs.config_maps.is_empty(), "the body does not need it: {:?}", needs.config_maps);
        let name = subject.name(Some("11111111-2222-3333-4444-555555555555")).unwrap();
        let owner = ArmId::parse(SERVER).unwrap();
        let id = subject.id(Some(&owner), "s", &name).unwrap();
        assert_eq!(id.to_string(), format!("{SERVER}/administrators/11111111-2222-3333-4444-555555555555"));
        let body = subject.body(&id, &Resolved::default()).unwrap();
        assert_eq!(body["name"], "11111111-2222-3333-4444-555555555555");
        assert!(body.get("azureNameFromConfig").is_none(), "{body}");
    });
}

#[test]
fn names_that_can_not_be_used_are_refused_with_their_field() {
    let both = json!({"azureName": "a", "azureNameFromConfig": {"name": "m", "key": "k"}});
    let config = json!({"azureNameFromConfig": {"name": "m", "key": "k"}});
    for (spec, value, path, words) in [
        (&both, Some("b"), "spec.azureNameFromConfig", "exclude each other"),
        (&config, Some(""), "spec.azureNameFromConfig", "empty value"),
        (&config, None, "spec.azureName", "not resolved"),
        (&config, Some("a/b"), "spec.azureNameFromConfig", "not allowed in an ARM name"),
    ] {
        let error = with(ADMIN, Some("u"), spec, |subject| subject.name(value)).unwrap_err();
        assert_eq!(error.path, path);
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[test]
fn random_name_is_not_known_before_the_object_exists() {
    let random = json!({"operatorSpec": {"namingConvention": "random"}});
    let role = ("authorization.azure.com", "RoleAssignment");
    let error = with(role, None, &random, |subject| subject.name(None)).unwrap_err();
    assert_eq!(error.cause, Cause::Name(NameError::ByUid));
    assert!(with(role, Some("u"), &random, |subject| subject.name(None)).is_ok());
    // Other kinds are named after their objects, whatever the convention says.
    let group = ("resources.azure.com", "ResourceGroup");
    assert_eq!(with(group, None, &random, |subject| subject.name(None)).as_deref(), Ok("mine"));
}

#[test]
fn owners_and_references_that_can_not_be_followed_name_field_cause_and_next_step() {
    let account = ("storage.azure.com", "StorageAccount");
    let role = ("authorization.azure.com", "RoleAssignment");
    let of_owner = |kind, owner: Value| {
        let owner = with(kind, None, &json!({"owner": owner}), |subject| subject.needs().owner);
        owner.expect("the kind has an owner").wanted.unwrap_err()
    };
    let missing = of_owner(account, Value::Null);
    assert_eq!((missing.path.as_str(), &missing.cause), ("spec.owner", &Cause::NoOwner));
    assert_eq!(missing.next(), "name the resource that this one belongs to in spec.owner");

    let wrong = of_owner(account, json!({"armId": SERVER}));
    assert_eq!(wrong.path, "spec.owner.armId");
    assert!(wrong.to_string().contains("StorageAccount belongs to"), "{wrong}");

    let unclear = of_owner(account, json!({"name": "rg", "armId": SERVER}));
    assert!(matches!(unclear.cause, Cause::Malformed(_)), "{unclear}");

    let user = json!({"group": "dbformysql.azure.com", "kind": "User", "name": "u"});
    assert_eq!(of_owner(role, user).cause, Cause::NotOfArm("User".to_owned()));

    let unknown = json!({"group": "storage.azure.com", "kind": "Sphere", "name": "s"});
    assert!(matches!(of_owner(role, unknown).cause, Cause::UnknownKind { .. }));

    let spec = json!({"owner": {"armId": SERVER}, "roleDefinitionReference": {"wellKnownName": "Reader"}});
    let needs = with(role, None, &spec, |subject| subject.needs());
    let reader = needs.references[0].wanted.clone().unwrap_err();
    assert_eq!(reader.cause, Cause::WellKnown("Reader".to_owned()));
    assert_eq!(reader.next(), "name the resource by spec.roleDefinitionReference.armId");
}
