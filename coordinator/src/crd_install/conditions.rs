//! Why a CRD is not served, by the conditions in its status.

use serde_json::Value;

/// The conditions that keep a CRD from being served, as people read them; None if there are none.
///
/// Pure. `Established` and `NamesAccepted` must be true; of the others, only those whose name tells of a fault are bad if true.
pub(super) fn failing(crd: &Value) -> Option<String> {
    let conditions = crd["status"]["conditions"].as_array().into_iter().flatten();
    let mut failing: Vec<(bool, String)> = conditions
        .filter_map(|condition| {
            let text = |name: &str| condition[name].as_str().unwrap_or_default();
            let (name, status) = (text("type"), text("status"));
            let good = match name {
                "NonStructuralSchema" | "Terminating" => "False",
                _ => "True",
            };
            let words = format!("{name}={status} {}: {}", text("reason"), text("message"));
            (status != good).then_some((name == "Established", words))
        })
        .collect();
    // That it is not established follows from the others.
    failing.sort_by_key(|(follows, _)| *follows);
    let failing: Vec<String> = failing.into_iter().map(|(_, words)| words).collect();
    (!failing.is_empty()).then(|| failing.join("; "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn conflict_of_names_is_told_before_what_follows_from_it() {
        let condition = |name: &str, status: &str, reason: &str, message: &str| json!({ "type": name, "status": status, "reason": reason, "message": message });
        let crd = |conditions: Value| json!({ "status": { "conditions": conditions } });
        let established = condition("Established", "False", "NotAccepted", "not all names are accepted");
        let conflict = condition("NamesAccepted", "False", "KindConflict", "\"X\" is already in use");
        assert_eq!(
            failing(&crd(json!([established, conflict]))).as_deref(),
            Some(
                "NamesAccepted=False KindConflict: \"X\" is already in use; \
                 Established=False NotAccepted: not all names are accepted"
            )
        );
        let well = [condition("Established", "True", "", ""), condition("NamesAccepted", "True", "", "")];
        assert_eq!(failing(&crd(json!(well))), None);
        let schema = condition("NonStructuralSchema", "True", "Violations", "no type");
        assert_eq!(failing(&crd(json!([schema]))).as_deref(), Some("NonStructuralSchema=True Violations: no type"));
        assert_eq!(failing(&json!({})), None);
    }
}
