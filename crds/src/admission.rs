//! What ASO checks in webhooks and a CRD's own rules can't see, as a `ValidatingAdmissionPolicy`, which runs inside the API server.
//!
//! One policy serves all kinds. It looks only at creations and at updates that change `spec`, and never at an object that is being deleted: labels,
//! annotations, finalizers and deletion always pass.

use flotilla_names::{APP, APP_LABEL, RESOURCE_ID};
use serde_json::{Value, json};

use crate::entry::KindEntry;

/// The name of the policy and of its binding.
pub const POLICY: &str = "flotilla.dev";

/// The policy and its binding for these kinds. Nothing for no kind.
pub fn policies<'a>(kinds: impl IntoIterator<Item = &'a KindEntry>) -> Vec<Value> {
    let kinds: Vec<&KindEntry> = kinds.into_iter().collect();
    if kinds.is_empty() {
        return Vec::new();
    }
    let labels = json!({APP_LABEL: APP});
    let mut groups: std::collections::BTreeMap<&str, Vec<&str>> = std::collections::BTreeMap::new();
    for kind in kinds {
        groups.entry(&kind.group).or_default().push(&kind.plural);
    }
    let rules: Vec<Value> = groups
        .into_iter()
        .map(|(group, mut resources)| {
            resources.sort_unstable();
            json!({"apiGroups": [group], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"], "resources": resources})
        })
        .collect();
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": POLICY, "labels": labels},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"matchPolicy": "Equivalent", "resourceRules": rules},
            "matchConditions": [
                {"name": "not-being-deleted", "expression": "!has(object.metadata.deletionTimestamp)"},
                {"name": "spec-is-new", "expression": "has(object.spec) && (oldObject == null || !has(oldObject.spec) || object.spec != oldObject.spec)"},
            ],
            "variables": variables(),
            "validations": validations(),
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": POLICY, "labels": labels},
        "spec": {"policyName": POLICY, "validationActions": ["Deny"]},
    });
    vec![policy, binding]
}

fn variables() -> Value {
    let of = |name: &str, expression: String| json!({"name": name, "expression": expression});
    // `name/key` of each output to Secrets or config maps; expressions without a key write keys that are not known yet.
    let destinations = |named: &str, expressions: &str| {
        format!(
            "object.spec.?operatorSpec.?{named}.orValue({{}}).map(k, object.spec.operatorSpec.{named}[k].name + '/' + object.spec.operatorSpec.{named}[k].key) \
             + object.spec.?operatorSpec.?{expressions}.orValue([]).filter(e, has(e.key)).map(e, e.name + '/' + e.key)"
        )
    };
    json!([
        of("owner", "object.spec.?owner.orValue({})".to_owned()),
        of("oldOwner", "oldObject == null ? {} : oldObject.?spec.?owner.orValue({})".to_owned()),
        // The ARM id of what was created; empty before.
        of(
            "id",
            format!(
                "oldObject == null ? '' : oldObject.?status.?id.orValue(oldObject.metadata.?annotations['{RESOURCE_ID}'].orValue(''))"
            ),
        ),
        // The annotation comes before the first PUT. As long as the status knows no id and the last word is a failure, nothing may have come of it:
        // then a wrong name or owner can be corrected, and the worker makes sure that Azure has nothing by the old name.
        of(
            "created",
            "variables.id != '' && (oldObject.?status.?id.orValue('') != '' || !oldObject.?status.?conditions.orValue([]).exists(c, \
                c.type == 'Ready' && c.?severity.orValue('') in ['Warning', 'Error']))"
                .to_owned(),
        ),
        of("name", "object.spec.?azureName.orValue('')".to_owned()),
        of("oldName", "oldObject == null ? '' : oldObject.?spec.?azureName.orValue('')".to_owned()),
        // The name in Azure before this change: as stated, or the last part of the id.
        of("nameInAzure", "variables.oldName != '' ? variables.oldName : variables.id.split('/')[variables.id.split('/').size() - 1]".to_owned()),
        of("secrets", destinations("secrets", "secretExpressions")),
        of("configMaps", destinations("configMaps", "configMapExpressions")),
    ])
}

fn validations() -> Value {
    let unique = |list: &str| format!("variables.{list}.all(d, variables.{list}.filter(e, e == d).size() == 1)");
    let twice = |list: &str, what: &str| {
        format!(
            "'two outputs are written to the same {what} key: ' + variables.{list}.filter(d, variables.{list}.filter(e, e == d).size() > 1)[0]"
        )
    };
    json!([
        {
            // Without azureName the resource is called as the object is, so leaving it out may be a change, too.
            "expression": "!variables.created || (variables.name == '' \
                ? variables.oldName == '' || variables.oldName == object.metadata.name \
                : variables.name == variables.nameInAzure || variables.oldName == '' && variables.name.lowerAscii() == variables.nameInAzure.lowerAscii())",
            "messageExpression": "'spec.azureName cannot change once the resource exists: it is ' + variables.nameInAzure + ' in Azure. \
                To rename it, create a second object with the new name'",
            "reason": "Invalid",
        },
        {
            "expression": "!variables.created || has(object.spec.owner) == has(oldObject.spec.owner) \
                && variables.owner.?name.orValue('') == variables.oldOwner.?name.orValue('') \
                && variables.owner.?armId.orValue('') == variables.oldOwner.?armId.orValue('')",
            "messageExpression": "'spec.owner cannot change once the resource exists: it was ' \
                + (variables.oldOwner.?armId.orValue('') != '' ? variables.oldOwner.armId : variables.oldOwner.?name.orValue('none')) + '. Create a second object instead'",
            "reason": "Invalid",
        },
        {
            "expression": "!has(object.spec.owner) || (has(variables.owner.armId) ? !has(variables.owner.name) && !has(variables.owner.kind) && !has(variables.owner.group) : has(variables.owner.name))",
            "message": "spec.owner needs either a name (for extension resources: group, kind and name) or an armId, and not both",
            "reason": "Invalid",
        },
        {"expression": unique("secrets"), "messageExpression": twice("secrets", "Secret"), "reason": "Invalid"},
        {"expression": unique("configMaps"), "messageExpression": twice("configMaps", "config map"), "reason": "Invalid"},
    ])
}
