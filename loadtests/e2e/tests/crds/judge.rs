//! What a version alone would refuse in a spec, by its own schema; the yardstick for what the API server refuses.

use regex::Regex;
use serde_json::Value;

/// Something that a version refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Objection {
    /// The field, from `spec` on.
    pub(crate) path: String,
    /// Why.
    pub(crate) why: Why,
}

/// Why a version refuses a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// It has no such field.
    Unknown,
    /// It demands the field.
    Missing,
    /// The value breaks a rule of it.
    Value,
}

impl Objection {
    /// Whether it is about a field right below `spec`.
    pub(crate) fn at_top(&self) -> bool {
        self.path.matches(['.', '[']).count() == 1
    }
}

/// All that the version with this schema refuses.
pub(crate) fn objections(schema: &Value, spec: &Value) -> Vec<Objection> {
    let mut found = Vec::new();
    look(schema, spec, "spec", &mut found);
    found
}

fn look(schema: &Value, value: &Value, path: &str, found: &mut Vec<Objection>) {
    let mut object = |path: String, why: Why| found.push(Objection { path, why });
    if !keeps(schema, value) {
        object(path.to_owned(), Why::Value);
    }
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if value.is_object() && value.get(name).is_none() {
            object(format!("{path}.{name}"), Why::Missing);
        }
    }
    match value {
        Value::Object(members) if schema["properties"].is_object() => {
            for (name, value) in members {
                let path = format!("{path}.{name}");
                match schema["properties"].get(name) {
                    Some(schema) => look(schema, value, &path, found),
                    None => found.push(Objection { path, why: Why::Unknown }),
                }
            }
        }
        Value::Object(entries) if schema["additionalProperties"].is_object() => {
            entries.iter().for_each(|(key, value)| {
                look(&schema["additionalProperties"], value, &format!("{path}.{key}"), found);
            });
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(i, item)| look(&schema["items"], item, &format!("{path}[{i}]"), found));
        }
        _ => {}
    }
}

/// Whether a value keeps the keywords that concern itself alone.
fn keeps(schema: &Value, value: &Value) -> bool {
    let bound = |keyword: &str| schema[keyword].as_f64();
    let within = |size: f64, least: &str, most: &str| {
        bound(least).is_none_or(|bound| size >= bound) && bound(most).is_none_or(|bound| size <= bound)
    };
    let length = |length: usize| f64::from(u32::try_from(length).unwrap());
    let of_enum = schema["enum"].as_array().is_none_or(|values| values.contains(value));
    let forms = schema["oneOf"].as_array().is_none_or(|forms| {
        let has = |form: &&Value| {
            form["required"].as_array().unwrap().iter().all(|name| value.get(name.as_str().unwrap()).is_some())
        };
        forms.iter().filter(has).count() == 1
    });
    of_enum
        && forms
        && match value {
            Value::String(text) => {
                let pattern = schema["pattern"].as_str().map(|pattern| Regex::new(pattern).unwrap());
                within(length(text.chars().count()), "minLength", "maxLength")
                    && pattern.is_none_or(|pattern| pattern.is_match(text))
            }
            Value::Array(items) => within(length(items.len()), "minItems", "maxItems"),
            Value::Number(number) => {
                (schema["type"] != "integer" || !number.is_f64())
                    && within(number.as_f64().unwrap(), "minimum", "maximum")
            }
            _ => true,
        }
}
