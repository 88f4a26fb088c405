//! What a cluster has from before our CRDs: objects that no version of ours would take.

use flotilla_crds::Catalog;
use serde_json::{Value, json};

use super::api::{Api, Target};

/// The name of the object that breaks our rules.
pub(crate) const BROKEN: &str = "broken";

/// Installs a CRD without any rule and an object that breaks rules of ours: an enum, and the shape of the owner.
pub(crate) async fn leave_behind(api: &Api, catalog: &Catalog) {
    let kind = catalog.kind("storage.azure.com", "StorageAccount").unwrap();
    let mut crd = kind.crd();
    for version in crd["spec"]["versions"].as_array_mut().unwrap() {
        let schema = &mut version["schema"]["openAPIV3Schema"];
        *schema = structure(schema);
    }
    api.install(&crd).await.unwrap();
    let spec = json!({
        "accessTier": "Lukewarm",
        "kind": "StorageV2",
        "location": "westeurope",
        "owner": { "name": "rg", "armId": "no id at all" },
        "sku": { "name": "Standard_LRS" },
    });
    let newest = kind.versions().last().unwrap().name();
    let at = Target { kind: &kind, version: newest, name: BROKEN };
    // A new CRD is served a moment after it is accepted.
    for _ in 0..100 {
        match api.create(at, &spec).await {
            Ok(_) => return,
            Err(refused) if refused.code == 404 => tokio::time::sleep(std::time::Duration::from_millis(100)).await,
            Err(refused) => panic!("{refused}"),
        }
    }
    panic!("{} is not served after 10 s", crd["metadata"]["name"]);
}

/// A schema without value validation.
fn structure(schema: &Value) -> Value {
    match schema {
        Value::Object(members) => {
            let rule = |name: &str| {
                matches!(
                    name,
                    "required"
                        | "enum"
                        | "pattern"
                        | "minimum"
                        | "maximum"
                        | "minLength"
                        | "maxLength"
                        | "minItems"
                        | "maxItems"
                        | "oneOf"
                        | "anyOf"
                        | "not"
                        | "x-kubernetes-validations"
                )
            };
            let keep = |(name, inner): (&String, &Value)| match (name.as_str(), inner) {
                // The names below `properties` are fields, whatever they are called.
                ("properties", Value::Object(fields)) => {
                    let fields = fields.iter().map(|(field, schema)| (field.clone(), structure(schema))).collect();
                    Some((name.clone(), Value::Object(fields)))
                }
                (rule_name, _) if rule(rule_name) => None,
                _ => Some((name.clone(), structure(inner))),
            };
            Value::Object(members.iter().filter_map(keep).collect())
        }
        other => other.clone(),
    }
}
