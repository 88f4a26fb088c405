//! What armsim wants to know of Azure's type data: which versions a type has and what a body must look like.

use std::sync::Arc;

use flotilla_crds::Problem;
use flotilla_crds::{Catalog, Kind, Version};
use serde_json::Value;

/// Azure's type data.
pub trait TypeData: Send + Sync {
    /// Whether a body can be sent to a type's api-version. A type or version that the data does not know takes any body.
    fn validate(&self, arm_type: &str, api_version: &str, body: &Value) -> Result<(), Vec<Violation>>;

    /// The api-versions of a type, or `None` if the data does not know the type.
    fn api_versions(&self, arm_type: &str) -> Option<Vec<String>>;
}

/// Something wrong in a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Where, as in `properties.template.containers[0].image`.
    pub path: String,
    /// What, as in `is required`.
    pub message: String,
}

/// The type data in the catalog: its types with the versions that they are served in. It is stricter than most services in
/// one point: a property that the type does not have is refused, because the operator can only have made it up.
#[derive(Debug, Clone, Copy)]
pub struct CatalogTypes(&'static Catalog);

impl CatalogTypes {
    /// The types of the embedded catalog.
    pub fn embedded() -> Self {
        Self(Catalog::embedded())
    }

    fn kind(self, arm_type: &str) -> Option<Arc<Kind>> {
        let entry = self.0.kind_of_arm_type(arm_type)?;
        self.0.kind(&entry.group, &entry.kind)
    }
}

impl TypeData for CatalogTypes {
    fn validate(&self, arm_type: &str, api_version: &str, body: &Value) -> Result<(), Vec<Violation>> {
        let Some(kind) = self.kind(arm_type) else { return Ok(()) };
        let Some(version) = kind.version_for_api(api_version) else { return Ok(()) };
        version.validate_body(body).map_err(|violations| {
            let say = |problem: &Problem| problem.to_string();
            violations.into_iter().map(|found| Violation { message: say(&found.problem), path: found.path }).collect()
        })
    }

    fn api_versions(&self, arm_type: &str) -> Option<Vec<String>> {
        let kind = self.kind(arm_type)?;
        let served = kind.versions().iter().map(Version::api_version);
        let mut versions: Vec<String> =
            served.chain(kind.other_versions().map(|(_, api)| api)).map(str::to_owned).collect();
        versions.sort();
        versions.dedup();
        Some(versions)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_catalog_knows_versions_and_what_a_body_needs() {
        let types = CatalogTypes::embedded();
        assert!(types.api_versions("microsoft.app/CONTAINERAPPS").unwrap().contains(&"2025-01-01".to_owned()));
        assert_eq!(types.api_versions("Microsoft.Nobody/knows"), None);
        let check = |body| types.validate("Microsoft.Storage/storageAccounts", "2025-06-01", &body);
        let good = json!({"name": "acct", "location": "westus2", "kind": "StorageV2", "sku": {"name": "Standard_LRS"}, "tags": null});
        assert_eq!(check(good), Ok(()));
        let violations =
            check(json!({"kind": "StorageV2", "sku": {"name": "Standard_LRS"}, "properties": {"accesTier": "Hot"}}))
                .unwrap_err();
        assert!(
            violations.contains(&Violation { path: "location".into(), message: "is required".into() }),
            "{violations:?}"
        );
        assert!(violations.iter().any(|violation| violation.path == "properties.accesTier"), "{violations:?}");
    }
}
