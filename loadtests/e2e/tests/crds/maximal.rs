//! Objects with every field that a schema has.
//!
//! A value depends on its path and the variant, never on its neighbours: the same field has the same value in all
//! versions that allow it. Between variants about half of the values differ, and always one of the
//! operatorSpec's; names and owners never do.

use regex::Regex;
use serde_json::{Map, Value, json};

/// The biggest spec of a version, by the schema that the version alone would have.
pub(crate) fn spec(schema: &Value, variant: u64) -> Value {
    value(schema, "spec", variant)
}

/// The biggest status of a version; with an ARM id, as of something that exists.
pub(crate) fn status(schema: &Value) -> Value {
    let mut status = value(schema, "status", 0);
    status["conditions"][0]["type"] = json!("Ready");
    status
}

fn value(schema: &Value, path: &str, variant: u64) -> Value {
    let number = seed(path, variant);
    if let Some(values) = schema["enum"].as_array() {
        return values[index(number, values.len())].clone();
    }
    match schema["type"].as_str() {
        Some("object") if schema["properties"].is_object() => Value::Object(members(schema, path, variant)),
        Some("object") => json!({ "key": value(&schema["additionalProperties"], &format!("{path}{{}}"), variant) }),
        Some("array") => {
            let least = schema["minItems"].as_u64().unwrap_or(1).max(1);
            (0..least).map(|i| value(&schema["items"], &format!("{path}[{i}]"), variant)).collect()
        }
        Some("string") => Value::String(text(schema, path, number)),
        Some("boolean") => json!(number.is_multiple_of(2)),
        // A fraction that binary numbers hold exactly: no reader may round it.
        Some("number") if schema["maximum"].is_null() && schema["minimum"].is_null() => {
            json!(f64::from(u32::try_from(number % 1000).unwrap()) + 0.5)
        }
        Some("integer" | "number") => json!(integer(schema, number)),
        _ => json!({ "anything": [path, number % 1000], "else": { "deep": true } }),
    }
}

fn members(schema: &Value, path: &str, variant: u64) -> Map<String, Value> {
    let properties = schema["properties"].as_object().unwrap();
    let excluded = excluded(schema, path);
    let wanted = properties.iter().filter(|(name, _)| {
        let plain = name.strip_suffix("FromConfig").is_some_and(|plain| properties.contains_key(plain));
        !plain && !excluded.contains(name)
    });
    wanted.map(|(name, schema)| (name.clone(), value(schema, &format!("{path}.{name}"), variant))).collect()
}

/// The members of the forms that are not chosen, where an object has one of several forms.
fn excluded(schema: &Value, path: &str) -> Vec<String> {
    if path == "spec.owner" {
        return vec!["armId".to_owned()];
    }
    let Some(forms) = schema["oneOf"].as_array() else { return Vec::new() };
    let names = |form: &Value| -> Vec<String> { serde_json::from_value(form["required"].clone()).unwrap() };
    let chosen = names(&forms[index(seed(path, 0), forms.len())]);
    forms.iter().flat_map(names).filter(|name| !chosen.contains(name)).collect()
}

fn integer(schema: &Value, number: u64) -> i64 {
    let least = schema["minimum"].as_i64().unwrap_or(1);
    let most = schema["maximum"].as_i64().unwrap_or(least + 1000);
    least + i64::try_from(number).unwrap().rem_euclid(most - least + 1)
}

fn text(schema: &Value, path: &str, number: u64) -> String {
    if schema["format"] == "date-time" {
        return "2026-01-02T03:04:05Z".to_owned();
    }
    let least = usize::try_from(schema["minLength"].as_u64().unwrap_or(0)).unwrap();
    let most = usize::try_from(schema["maxLength"].as_u64().unwrap_or(200)).unwrap();
    let pattern = schema["pattern"].as_str().map(|pattern| Regex::new(pattern).unwrap());
    let id = number % 65_536;
    let mut candidates = vec![
        format!("v{id:04x}"),
        format!("/subscriptions/{id:04x}/resourceGroups/rg/providers/Microsoft.Things/things/t{id:04x}"),
        format!("https://v{id:04x}.example.com/"),
        format!("V{id:04x}==="),
        format!("AA{id:04x}=="),
        id.to_string(),
    ];
    for candidate in &mut candidates {
        while candidate.len() < least {
            candidate.push('0');
        }
        candidate.truncate(most);
    }
    let fits = |text: &String| pattern.as_ref().is_none_or(|pattern| pattern.is_match(text));
    candidates.into_iter().find(fits).unwrap_or_else(|| panic!("no example for {path}: {schema}"))
}

/// FNV-1a of the path, and of the variant where the value is to differ between variants.
fn seed(path: &str, variant: u64) -> u64 {
    let hash = |text: &str| {
        text.bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
    };
    let last = path.rsplit('.').next().unwrap_or(path);
    let fixed = path == "spec.azureName" || path.starts_with("spec.owner") || last == "name";
    let always = path.starts_with("spec.operatorSpec") && last == "value";
    let own = hash(path) >> 16;
    if fixed || (own.is_multiple_of(2) && !always) { own } else { hash(&format!("{path}#{variant}")) >> 16 }
}

fn index(number: u64, len: usize) -> usize {
    usize::try_from(number % u64::try_from(len).unwrap()).unwrap()
}
