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
pub(crate) fn annotation<'a>(object: &'a DynamicObject, key: &str) -> Option<&'a str> {
    object.metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

/// The value of a key that a claim writes; none if it is empty, or if the claim is another object's or was tampered with.
///
/// A claim without a mark is of an operator before us, and believed.
pub(crate) fn claimed<'a>(object: &'a DynamicObject, key: &str) -> Option<&'a str> {
    let whole = annotation(object, names::CLAIMED_BY).is_none_or(|mark| {
        let uid = object.metadata.uid.as_deref().unwrap_or_default();
        annotation(object, names::RESOURCE_ID).is_some_and(|id| names::claim_mark(uid, id) == mark)
    });
    annotation(object, key).filter(|value| whole && !value.is_empty())
}

/// ARM id of the resource that the object stands for: the one claimed, or else the one that Azure has shown for it.
pub(crate) fn resource_id(object: &DynamicObject) -> Option<&str> {
    let shown = || status(object).get("id").and_then(Value::as_str).filter(|id| !id.is_empty());
    claimed(object, names::RESOURCE_ID).or_else(shown)
}

/// The spec; null if there is none.
pub(crate) fn spec(object: &DynamicObject) -> &Value {
    object.data.get("spec").unwrap_or(&Value::Null)
}

/// The status; null if there is none.
pub(crate) fn status(object: &DynamicObject) -> &Value {
    object.data.get("status").unwrap_or(&Value::Null)
}

/// The parts that decisions are made from.
pub(crate) fn facts(object: &DynamicObject) -> Object {
    Object {
        generation: object.metadata.generation.unwrap_or(0),
        deleting: object.metadata.deletion_timestamp.is_some(),
        finalizer: object.finalizers().iter().any(|finalizer| finalizer == names::FINALIZER),
        installation: claimed(object, names::OPERATOR_NAMESPACE).map(str::to_owned),
        resource_id: claimed(object, names::RESOURCE_ID).map(str::to_owned),
        intent: claimed(object, names::APPLIED).and_then(|text| text.parse().ok()),
        ready: Condition::ready_in(status(object)),
        created: status(object).get("id").and_then(Value::as_str).is_some_and(|id| !id.is_empty()),
    }
}

/// The operation in flight, if its handle can be read and is about the object's own resource. Any other is as good as none:
/// Azure is read instead.
pub(crate) fn operation(object: &DynamicObject) -> Option<Handle> {
    let text = claimed(object, names::OPERATION)?;
    match serde_json::from_str::<Handle>(text) {
        Ok(handle) => {
            let ours = resource_id(object).is_some_and(|id| id.eq_ignore_ascii_case(&handle.resource_id));
            if !ours {
                tracing::warn!(name = %object.name_any(), "Dropped an operation on a resource that is not the object's");
            }
            ours.then_some(handle)
        }
        Err(error) => {
            tracing::warn!(name = %object.name_any(), %error, "Dropped an operation whose handle can't be read");
            None
        }
    }
}

/// The policy that the object itself states. An unknown one is as good as none.
pub(crate) fn policy(text: Option<&str>) -> Option<Policy> {
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

    fn claimed_by(uid: &str, operation: &Value) -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "storage.azure.com/v1api20230101storage",
            "kind": "StorageAccount",
            "metadata": {
                "name": "a",
                "uid": "u1",
                "annotations": {
                    names::CLAIMED_BY: names::claim_mark(uid, "/subscriptions/s/x"),
                    names::RESOURCE_ID: "/subscriptions/s/x",
                    names::APPLIED: "1:v:00",
                    names::OPERATOR_NAMESPACE: "sys",
                    names::OPERATION: operation.to_string(),
                },
            },
        }))
        .unwrap()
    }

    fn handle(id: &str) -> Value {
        json!({ "verb": "DELETE", "id": id, "api": "v", "form": "resource", "gen": 1, "started": 1, "next": 1 })
    }

    #[test]
    fn a_claim_that_was_copied_from_another_object_is_none() {
        let ours = claimed_by("u1", &handle("/subscriptions/S/x"));
        assert!(facts(&ours).resource_id.is_some() && facts(&ours).intent.is_some() && operation(&ours).is_some());
        let theirs = claimed_by("u2", &handle("/subscriptions/s/x"));
        assert_eq!(facts(&theirs), Object::default());
        assert_eq!(operation(&theirs), None);
    }

    #[test]
    fn a_claim_of_which_somebody_changed_the_resource_is_none() {
        let mut object = claimed_by("u1", &handle("/subscriptions/s/y"));
        object.annotations_mut().insert(names::RESOURCE_ID.to_owned(), "/subscriptions/s/y".to_owned());
        object.data["status"] = json!({ "id": "/subscriptions/s/x" });
        assert_eq!((facts(&object).resource_id, operation(&object)), (None, None));
        assert_eq!(resource_id(&object), Some("/subscriptions/s/x"));
    }

    #[test]
    fn a_claim_without_a_mark_is_believed() {
        let mut object = claimed_by("u1", &Value::Null);
        object.annotations_mut().remove(names::CLAIMED_BY);
        assert_eq!(resource_id(&object), Some("/subscriptions/s/x"));
    }

    #[test]
    fn an_operation_on_another_resource_is_none() {
        assert_eq!(operation(&claimed_by("u1", &handle("/subscriptions/s/y"))), None);
    }

    #[test]
    fn without_its_annotation_the_resource_is_the_one_that_azure_has_shown() {
        let mut object = claimed_by("u1", &Value::Null);
        object.data["status"] = json!({ "id": "/subscriptions/s/z" });
        assert_eq!(resource_id(&object), Some("/subscriptions/s/x"));
        object.annotations_mut().remove(names::RESOURCE_ID);
        assert_eq!(resource_id(&object), Some("/subscriptions/s/z"));
    }

    #[test]
    fn where_nobody_owns_the_spec_the_original_version_counts() {
        let entries = json!([entry("manager", "v1api20230101storage", 9, &json!({ "f:spec": {} }))]);
        let stored = object(&entries, &json!({ "originalVersion": "v1api20220901" }));
        assert_eq!(spec_version(&stored).as_deref(), Some("v1api20220901"));
        assert_eq!(spec_version(&object(&json!([]), &json!({}))), None);
    }
}
