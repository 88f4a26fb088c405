//! What `kubectl explain` shows, and what it costs.

#![expect(clippy::unwrap_used, reason = "a test")]

use flotilla_crds::Catalog;
use serde_json::Value;

fn take_away(schema: &mut Value) -> usize {
    let mut bytes = 0;
    if let Some(object) = schema.as_object_mut() {
        if let Some(Value::String(text)) = object.get("description") {
            // With its keyword, quotes, colon and comma.
            bytes += text.len() + 17;
            object.remove("description");
        }
        bytes += object.values_mut().map(take_away).sum::<usize>();
    }
    bytes
}

fn schema<'a>(crd: &'a Value, version: &str) -> &'a Value {
    let versions = crd["spec"]["versions"].as_array().unwrap();
    &versions.iter().find(|v| v["name"] == version).unwrap()["schema"]["openAPIV3Schema"]
}

#[test]
fn every_version_says_where_azure_describes_it() {
    let crd = Catalog::embedded().kind("storage.azure.com", "StorageAccount").unwrap().crd();
    assert_eq!(
        schema(&crd, "v20230101")["description"],
        "ARM type Microsoft.Storage/storageAccounts, api-version 2023-01-01, see \
         https://learn.microsoft.com/azure/templates/microsoft.storage/storageaccounts"
    );
    assert_eq!(schema(&crd, "v1api20230101")["description"], "The same as v20230101");
    assert!(schema(&crd, "v20250601storage").get("description").is_none());
    let user = Catalog::embedded().kind("sql.azure.com", "User").unwrap().crd();
    assert_eq!(schema(&user, "v1")["description"], "A User of an Azure SQL database");
}

#[test]
fn the_version_that_kubectl_asks_for_describes_our_fields() {
    let crd = Catalog::embedded().kind("storage.azure.com", "StorageAccount").unwrap().crd();
    let field = |version: &str, path: &str| {
        schema(&crd, version).pointer(&path.replace('/', "/properties/")).unwrap().get("description").cloned()
    };
    assert_eq!(field("v20250601", "/spec/owner").unwrap(), "ResourceGroup that it belongs to, by name or armId");
    for path in ["/spec/azureName", "/spec/operatorSpec", "/status/conditions"] {
        assert!(field("v20250601", path).is_some(), "{path}");
        assert!(field("v20230101", path).is_none(), "{path}");
    }
}

#[test]
fn descriptions_cost_little_and_change_nothing_else() {
    let catalog = Catalog::embedded();
    let (mut all, mut described) = (0, 0);
    for entry in catalog.standard() {
        let mut crd = catalog.kind(&entry.group, &entry.kind).unwrap().crd();
        all += crd.to_string().len();
        for version in crd["spec"]["versions"].as_array_mut().unwrap() {
            let schema = &mut version["schema"]["openAPIV3Schema"];
            described += take_away(schema);
            assert!(!schema.to_string().contains("\"description\":\""), "a description is left");
        }
    }
    let percent = 100.0 * f64::from(u32::try_from(described).unwrap()) / f64::from(u32::try_from(all).unwrap());
    println!("{described} of {all} bytes are descriptions: {percent:.1} %");
    assert!(percent < 3.0, "descriptions are {percent:.1} % of all CRDs");
}
