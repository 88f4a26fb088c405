//! What armsim wants to know of Azure's type data: which versions a type has and what a body must look like.

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
