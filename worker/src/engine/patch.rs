//! What is written to objects, as JSON merge patches. Nothing here touches a spec.

use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::{Map, Value, json};

use super::condition::Condition;
use super::names;
use super::object::{Id, Intent};

/// The owner as Kubernetes' garbage collection wants it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnerLink {
    /// The owner.
    pub id: Id,
    /// A served apiVersion of its kind.
    pub api_version: String,
    /// Its UID.
    pub uid: String,
}

/// All that an object must say before anything is sent to Azure for it.
#[derive(Clone, Debug)]
pub(crate) struct ClaimFacts<'a> {
    /// Our installation.
    pub installation: &'a str,
    /// The ARM id.
    pub resource_id: &'a str,
    /// What will be sent; none under policy `skip`.
    pub intent: Option<&'a Intent>,
    /// The Kubernetes owner, unless the owner is named by ARM id or there is none.
    pub owner: Option<&'a OwnerLink>,
}

/// The claim, in one patch. It names the version of the object it was made from, because it replaces lists.
pub(crate) fn claim(object: &DynamicObject, facts: &ClaimFacts<'_>) -> Value {
    let mut annotations = json!({
        names::OPERATOR_NAMESPACE: facts.installation,
        names::RESOURCE_ID: facts.resource_id,
        names::CLAIMED_BY: names::claim_mark(&object.uid().unwrap_or_default(), facts.resource_id),
    });
    if let Some(intent) = facts.intent {
        annotations[names::APPLIED] = intent.to_string().into();
    }
    if object.annotations().contains_key(names::OPERATION) {
        annotations[names::OPERATION] = Value::Null;
    }
    let mut metadata = json!({ "resourceVersion": object.resource_version(), "annotations": annotations });
    if !object.finalizers().iter().any(|finalizer| finalizer == names::FINALIZER) {
        let finalizers = object.finalizers().iter().map(String::as_str).chain([names::FINALIZER]);
        metadata["finalizers"] = finalizers.collect::<Vec<_>>().into();
    }
    if let Some(owner) = facts.owner {
        let group_kind = format!("{}.{}", owner.id.kind.kind, owner.id.kind.group);
        metadata["labels"] = json!({
            names::OWNER_NAME: names::label_value(&owner.id.name),
            names::OWNER_GROUP_KIND: names::label_value(&group_kind),
            names::OWNER_UID: owner.uid,
        });
        let known = object.owner_references();
        if !known.iter().any(|reference| reference.uid == owner.uid) {
            let mut references = json!(known);
            if let Some(references) = references.as_array_mut() {
                references.push(json!({
                    "apiVersion": owner.api_version,
                    "kind": owner.id.kind.kind,
                    "name": &*owner.id.name,
                    "uid": owner.uid,
                }));
            }
            metadata["ownerReferences"] = references;
        }
    }
    json!({ "metadata": metadata })
}

/// Sets or removes the handle of the operation in flight.
pub(crate) fn operation(handle: Option<&str>) -> Value {
    json!({ "metadata": { "annotations": { names::OPERATION: handle } } })
}

/// Lets the object go, and leaves others' finalizers alone.
pub(crate) fn release(object: &DynamicObject) -> Value {
    let others: Vec<_> = object.finalizers().iter().filter(|finalizer| *finalizer != names::FINALIZER).collect();
    json!({ "metadata": { "resourceVersion": object.resource_version(), "finalizers": others } })
}

/// The whole status: what Azure shows and the Ready condition, beside conditions of others.
pub(crate) fn status(present: &Value, shown: Value, ready: &Condition) -> Value {
    let mut status = match shown {
        Value::Object(status) => status,
        _ => Map::new(),
    };
    let theirs = present.get("conditions").and_then(Value::as_array).into_iter().flatten();
    let mut conditions: Vec<Value> = theirs.filter(|condition| condition["type"] != ready.kind).cloned().collect();
    conditions.push(json!(ready));
    status.insert("conditions".into(), Value::Array(conditions));
    Value::Object(status)
}

/// The status with another Ready condition.
pub(crate) fn status_ready(present: &Value, ready: &Condition) -> Value {
    let mut shown = present.clone();
    if let Some(shown) = shown.as_object_mut() {
        shown.remove("conditions");
    }
    status(present, shown, ready)
}

/// The merge patch that turns `from` into `to`; none if they are equal but for values that change by themselves.
pub(crate) fn difference(from: &Value, to: &Value) -> Option<Value> {
    let mut news = false;
    let patch = merge(from, to, &mut news);
    patch.filter(|_| news)
}

/// Values that differ from read to read without anybody having changed anything.
fn volatile(name: &str) -> bool {
    ["etag", "lastmodifiedat", "lastmodifiedtime", "changedtime"].iter().any(|word| name.eq_ignore_ascii_case(word))
}

fn merge(from: &Value, to: &Value, news: &mut bool) -> Option<Value> {
    let (Value::Object(from), Value::Object(to)) = (from, to) else {
        *news |= from != to;
        return (from != to).then(|| to.clone());
    };
    let mut patch = Map::new();
    for (name, after) in to {
        let mut changed = false;
        let part = if let Some(before) = from.get(name) {
            merge(before, after, &mut changed)
        } else {
            changed = true;
            Some(after.clone())
        };
        *news |= changed && !volatile(name);
        patch.extend(part.map(|part| (name.clone(), part)));
    }
    for name in from.keys().filter(|name| !to.contains_key(*name)) {
        *news |= !volatile(name);
        patch.insert(name.clone(), Value::Null);
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use flotilla_proto::GroupKind;
    use proptest::prelude::*;

    use super::*;
    use crate::engine::condition::{self, Ready};

    fn object() -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "x/v1", "kind": "X",
            "metadata": {
                "name": "a", "resourceVersion": "7", "finalizers": ["theirs"],
                "annotations": { "flotilla.dev/operation": "{}" },
                "ownerReferences": [{ "apiVersion": "v1", "kind": "K", "name": "k", "uid": "u0" }],
            },
        }))
        .unwrap()
    }

    fn owner() -> OwnerLink {
        let kind = Arc::new(GroupKind::new("resources.azure.com", "ResourceGroup"));
        let id = Id { kind, namespace: "n".into(), name: "rg".into() };
        OwnerLink { id, api_version: "resources.azure.com/v1api20200601".into(), uid: "u1".into() }
    }

    #[test]
    fn a_claim_keeps_what_others_wrote_and_never_speaks_of_the_spec() {
        let intent = Intent { generation: 1, api_version: "2020-06-01".into(), hash: "00".into() };
        let owner = owner();
        let facts = ClaimFacts { installation: "sys", resource_id: "/x", intent: Some(&intent), owner: Some(&owner) };
        let patch = claim(&object(), &facts);
        assert_eq!(patch.as_object().unwrap().keys().collect::<Vec<_>>(), ["metadata"]);
        let metadata = &patch["metadata"];
        assert_eq!(metadata["resourceVersion"], "7");
        assert_eq!(metadata["finalizers"], json!(["theirs", names::FINALIZER]));
        assert_eq!(metadata["ownerReferences"][0]["uid"], "u0");
        assert_eq!(metadata["ownerReferences"][1]["uid"], "u1");
        assert_eq!(metadata["annotations"][names::APPLIED], "1:2020-06-01:00");
        assert_eq!(metadata["annotations"][names::OPERATION], Value::Null);
        assert_eq!(metadata["labels"][names::OWNER_GROUP_KIND], "ResourceGroup.resources.azure.com");
    }

    #[test]
    fn letting_go_leaves_finalizers_of_others() {
        assert_eq!(release(&object())["metadata"]["finalizers"], json!(["theirs"]));
    }

    #[test]
    fn conditions_of_others_stay() {
        let ready = condition::replace(None, &Ready::succeeded(), 1, jiff::Timestamp::UNIX_EPOCH).unwrap();
        let present = json!({ "old": 1, "conditions": [{ "type": "Theirs" }, { "type": "Ready", "status": "False" }] });
        let next = status(&present, json!({ "id": "/x" }), &ready);
        assert_eq!(next["conditions"][0]["type"], "Theirs");
        assert_eq!(next["conditions"][1]["status"], "True");
        assert_eq!(difference(&present, &next).unwrap()["old"], Value::Null);
    }

    #[test]
    fn values_that_change_by_themselves_are_no_reason_to_write() {
        let before = json!({ "etag": "1", "systemData": { "lastModifiedAt": "a" }, "sku": "B1" });
        let after = json!({ "etag": "2", "systemData": { "lastModifiedAt": "b" }, "sku": "B1" });
        assert_eq!(difference(&before, &after), None);
        let after = json!({ "etag": "2", "systemData": { "lastModifiedAt": "b" }, "sku": "B2" });
        assert_eq!(
            difference(&before, &after),
            Some(json!({ "etag": "2", "systemData": { "lastModifiedAt": "b" }, "sku": "B2" }))
        );
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![any::<bool>().prop_map(Value::from), (0..3_i64).prop_map(Value::from)];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map("[a-c]", inner, 0..4).prop_map(|map| json!(map)),
            ]
        })
    }

    proptest! {
        /// Applying the difference gives the wanted value, as the API server applies it.
        #[test]
        fn the_difference_leads_to_the_wanted_status(from in any_json(), to in any_json()) {
            let mut result = from.clone();
            if let Some(patch) = difference(&from, &to) {
                json_patch::merge(&mut result, &patch);
            } else {
                prop_assert_eq!(&from, &to);
            }
            prop_assert_eq!(result, to);
        }
    }
}
