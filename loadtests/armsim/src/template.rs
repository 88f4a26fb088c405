//! Templates: how a card's values are merged into a body.
//!
//! Kept true here: `fill` never changes what the request said (null says nothing); `force` always wins. The notation is
//! explained at the head of `data/arm-types.yaml`.

use serde_json::{Map, Value};

/// Turns the texts of a template into values.
pub(crate) trait Expand {
    /// The value of a text with `{…}` in it.
    fn expand(&self, text: &str) -> Value;
}

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Fill,
    Force,
}

/// Adds what the body lacks.
pub(crate) fn fill(body: &mut Value, template: &Value, texts: &dyn Expand) {
    if !template.is_null() {
        Merge { mode: Mode::Fill, root: &body.clone(), texts }.object(body, template);
    }
}

/// Sets what the template says.
pub(crate) fn force(body: &mut Value, template: &Value, texts: &dyn Expand) {
    if !template.is_null() {
        Merge { mode: Mode::Force, root: &body.clone(), texts }.object(body, template);
    }
}

/// A template on its own.
pub(crate) fn expand(template: &Value, texts: &dyn Expand) -> Value {
    match template {
        Value::String(text) if text.contains('{') => texts.expand(text),
        Value::Array(items) => items.iter().map(|item| expand(item, texts)).collect(),
        Value::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), expand(value, texts))).collect(),
        other => other.clone(),
    }
}

/// The value at `a.b.c`, unless it is missing or null.
pub(crate) fn at<'a>(body: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(body, |value, part| value.get(part)).filter(|value| !value.is_null())
}

/// Removes what is at `a.b[].c`.
pub(crate) fn remove(body: &mut Value, path: &str) {
    let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
    let Some(rest) = rest else {
        if let Some(fields) = body.as_object_mut() {
            fields.remove(first);
        }
        return;
    };
    if let Some(name) = first.strip_suffix("[]") {
        for item in body.get_mut(name).and_then(Value::as_array_mut).into_iter().flatten() {
            remove(item, rest);
        }
    } else if let Some(inner) = body.get_mut(first) {
        remove(inner, rest);
    }
}

struct Merge<'a> {
    mode: Mode,
    /// The whole body as it was, for conditions.
    root: &'a Value,
    texts: &'a dyn Expand,
}

impl Merge<'_> {
    fn object(&self, target: &mut Value, template: &Value) {
        let Some(template) = template.as_object() else { return };
        if !target.is_object() {
            *target = Value::Object(Map::new());
        }
        for (key, wanted) in template {
            if let Some(name) = key.strip_suffix("[]") {
                for item in target.get_mut(name).and_then(Value::as_array_mut).into_iter().flatten() {
                    self.object(item, wanted);
                }
            } else if let Some(name) = key.strip_suffix('+') {
                self.append(target, name, wanted);
            } else if let Some((name, condition)) = key.split_once('?') {
                let holds = if condition.is_empty() {
                    target.get(name).is_some_and(|value| !value.is_null())
                } else {
                    at(self.root, condition).is_some()
                };
                if holds {
                    self.value(target, name, wanted);
                }
            } else {
                self.value(target, key, wanted);
            }
        }
    }

    fn value(&self, target: &mut Value, name: &str, wanted: &Value) {
        let Some(fields) = target.as_object_mut() else { return };
        let there = fields.get(name).is_some_and(|value| !value.is_null());
        if wanted.is_object() && !wanted.as_object().is_some_and(Map::is_empty) {
            if !there || fields[name].is_object() || self.mode == Mode::Force {
                self.object(fields.entry(name).or_insert(Value::Null), wanted);
            }
        } else if !there || self.mode == Mode::Force {
            fields.insert(name.to_owned(), expand(wanted, self.texts));
        }
    }

    fn append(&self, target: &mut Value, name: &str, wanted: &Value) {
        let Some(fields) = target.as_object_mut() else { return };
        let list = fields.entry(name).or_insert(Value::Null);
        if list.is_null() {
            *list = Value::Array(Vec::new());
        }
        let Some(list) = list.as_array_mut() else { return };
        for item in wanted.as_array().into_iter().flatten() {
            let item = expand(item, self.texts);
            if !list.iter().any(|other| other["name"] == item["name"]) {
                list.push(item);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    struct Shout;
    impl Expand for Shout {
        fn expand(&self, text: &str) -> Value {
            Value::String(text.trim_matches(['{', '}']).to_uppercase())
        }
    }

    #[test]
    fn filling_keeps_what_is_said_and_replaces_null() {
        let mut body = json!({"a": 1, "b": null, "c": {"x": 1}, "list": [{"p": 1}, {}]});
        let template =
            json!({"a": 2, "b": 2, "c": {"x": 2, "y": "{v}"}, "d": {"z": []}, "list[]": {"p": 9}, "e": {}, "f": null});
        fill(&mut body, &template, &Shout);
        let want = json!({"a": 1, "b": 2, "c": {"x": 1, "y": "V"}, "d": {"z": []}, "list": [{"p": 1}, {"p": 9}], "e": {}, "f": null});
        assert_eq!(body, want);
    }

    #[test]
    fn forcing_always_wins() {
        let mut body = json!({"a": {"x": 1, "keep": true}, "b": "user"});
        force(&mut body, &json!({"a": {"x": 2}, "b": "{v}"}), &Shout);
        assert_eq!(body, json!({"a": {"x": 2, "keep": true}, "b": "V"}));
    }

    #[test]
    fn conditions_and_appending() {
        let mut body = json!({"on": {"x": 1}, "list": [{"name": "a"}]});
        let template = json!({"on?": {"y": 2}, "off?": {"y": 2}, "z?on.x": 3, "w?on.q": 3, "list+": [{"name": "a", "n": 1}, {"name": "b"}], "new+": [{"name": "c"}]});
        force(&mut body, &template, &Shout);
        assert_eq!(
            body,
            json!({"on": {"x": 1, "y": 2}, "z": 3, "list": [{"name": "a"}, {"name": "b"}], "new": [{"name": "c"}]})
        );
    }

    #[test]
    fn removing_goes_through_lists() {
        let mut body = json!({"a": {"list": [{"secret": 1, "n": 1}, {"secret": 2}]}, "b": 1});
        remove(&mut body, "a.list[].secret");
        remove(&mut body, "b");
        remove(&mut body, "missing.x");
        assert_eq!(body, json!({"a": {"list": [{"n": 1}, {}]}}));
    }
}
