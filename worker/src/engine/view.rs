//! Reads what the engine needs from an object as the API server gives it.

use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::Value;

use super::condition::Condition;
use super::names;
use super::object::{Object, Policy};
use crate::arm::operation::Handle;

/// The `metadata.annotations` value of a key.
pub fn annotation<'a>(object: &'a DynamicObject, key: &str) -> Option<&'a str> {
    object.metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

/// The spec; null if there is none.
pub fn spec(object: &DynamicObject) -> &Value {
    object.data.get("spec").unwrap_or(&Value::Null)
}

/// The status; null if there is none.
pub fn status(object: &DynamicObject) -> &Value {
    object.data.get("status").unwrap_or(&Value::Null)
}

/// The parts that decisions are made from.
pub fn facts(object: &DynamicObject) -> Object {
    Object {
        generation: object.metadata.generation.unwrap_or(0),
        deleting: object.metadata.deletion_timestamp.is_some(),
        finalizer: object.finalizers().iter().any(|finalizer| finalizer == names::FINALIZER),
        installation: annotation(object, names::OPERATOR_NAMESPACE).map(str::to_owned),
        resource_id: annotation(object, names::RESOURCE_ID).filter(|id| !id.is_empty()).map(str::to_owned),
        intent: annotation(object, names::APPLIED).and_then(|text| text.parse().ok()),
        ready: Condition::ready_in(status(object)),
        created: status(object).get("id").and_then(Value::as_str).is_some_and(|id| !id.is_empty()),
    }
}

/// The operation in flight, if its handle can be read. One that can't is as good as none: Azure is read instead.
pub fn operation(object: &DynamicObject) -> Option<Handle> {
    let text = annotation(object, names::OPERATION)?;
    match serde_json::from_str(text) {
        Ok(handle) => Some(handle),
        Err(error) => {
            tracing::warn!(name = %object.name_any(), %error, "Dropped an operation whose handle can't be read");
            None
        }
    }
}

/// The policy that the object itself states. An unknown one is as good as none.
pub fn policy(text: Option<&str>) -> Option<Policy> {
    let text = text?;
    text.parse().inspect_err(|error| tracing::warn!(%error, "Ignored a reconcile policy")).ok()
}

/// Where an entry of `managedFields` owns the annotation with the last applied manifest.
const LAST_APPLIED: &str = "/f:metadata/f:annotations/f:kubectl.kubernetes.io~1last-applied-configuration";

/// The version of the kind that the user's spec was last written through.
///
/// That is the newest entry in `managedFields` that owns something under `spec`, or what `kubectl apply` noted as applied
/// last: a manifest of which only the apiVersion is new changes that note alone. Entries of storage versions are of
/// programs that convert, and say nothing; where nobody else owns the spec, `spec.originalVersion` does.
pub fn spec_version(object: &DynamicObject) -> Option<String> {
    let entries = object.metadata.managed_fields.as_deref().unwrap_or_default();
    let owns_spec = |fields: &Value| fields.get("f:spec").is_some() || fields.pointer(LAST_APPLIED).is_some();
    let newest = entries
        .iter()
        .filter(|entry| entry.manager.as_deref() != Some(names::FIELD_MANAGER))
        .filter(|entry| entry.fields_v1.as_ref().is_some_and(|fields| owns_spec(&fields.0)))
        .filter_map(|entry| {
            let version = entry.api_version.as_deref()?.rsplit('/').next()?;
            let time = entry.time.as_ref().map_or(Timestamp::MIN, |time| time.0);
            (!version.ends_with("storage")).then_some((time, version))
        })
        // Times are whole seconds; of two in the same second the one through the newer version counts.
        .max_by(|one, two| one.0.cmp(&two.0).then_with(|| digits(one.1).cmp(&digits(two.1))));
    let original = || spec(object).get("originalVersion").and_then(Value::as_str).map(str::to_owned);
    newest.map(|(_, version)| version.to_owned()).or_else(original)
}

/// The date in a version's name, by which `v1api20240101` and `v20250601` compare.
fn digits(version: &str) -> String {
    let date = version.strip_prefix("v1api").unwrap_or(version);
    date.chars().filter(char::is_ascii_digit).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(managed_fields: &Value, spec: &Value) -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "storage.azure.com/v1api20230101storage",
            "kind": "StorageAccount",
            "metadata": { "name": "a", "generation": 3, "managedFields": managed_fields },
            "spec": spec,
        }))
        .unwrap()
    }

    fn entry(manager: &str, version: &str, second: u32, fields: &Value) -> Value {
        json!({
            "manager": manager, "operation": "Apply", "apiVersion": format!("storage.azure.com/{version}"),
            "time": format!("2026-11-30T10:00:{second:02}Z"), "fieldsType": "FieldsV1", "fieldsV1": fields,
        })
    }

    #[test]
    fn the_version_is_that_of_the_newest_entry_that_owns_some_of_the_spec() {
        let spec = json!({ "f:spec": { "f:location": {} } });
        let metadata = json!({ "f:metadata": { "f:labels": {} } });
        let entries = json!([
            entry("argocd", "v1api20230101", 1, &spec),
            entry("kubectl", "v20250601", 5, &spec),
            entry("kubectl-label", "v1api20210401", 9, &metadata),
            entry("manager", "v1api20230101storage", 9, &spec),
        ]);
        assert_eq!(spec_version(&object(&entries, &json!({}))).as_deref(), Some("v20250601"));
    }

    #[test]
    fn a_manifest_whose_api_version_alone_is_new_counts() {
        let note = json!({ "f:annotations": { "f:kubectl.kubernetes.io/last-applied-configuration": {} } });
        let entries = json!([
            entry("kubectl-client-side-apply", "v1api20230101", 1, &json!({ "f:spec": {}, "f:metadata": note })),
            entry("kubectl-client-side-apply", "v20250601", 5, &json!({ "f:metadata": note })),
            entry("kubectl-annotate", "v1api20210401", 9, &json!({ "f:metadata": { "f:annotations": { "f:a": {} } } })),
        ]);
        assert_eq!(spec_version(&object(&entries, &json!({}))).as_deref(), Some("v20250601"));
    }

    #[test]
    fn within_a_second_the_newer_version_counts() {
        let spec = json!({ "f:spec": { "f:location": {} } });
        let entries = json!([entry("b", "v20250601", 1, &spec), entry("a", "v1api20230101", 1, &spec)]);
        assert_eq!(spec_version(&object(&entries, &json!({}))).as_deref(), Some("v20250601"));
    }

    #[test]
    fn where_nobody_owns_the_spec_the_original_version_counts() {
        let entries = json!([entry("manager", "v1api20230101storage", 9, &json!({ "f:spec": {} }))]);
        let stored = object(&entries, &json!({ "originalVersion": "v1api20220901" }));
        assert_eq!(spec_version(&stored).as_deref(), Some("v1api20220901"));
        assert_eq!(spec_version(&object(&json!([]), &json!({}))), None);
    }
}
