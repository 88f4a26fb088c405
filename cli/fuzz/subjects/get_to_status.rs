//! Any answer of a GET, and any spec, for any version of any kind; and what must hold whatever they are.
//!
//! The first line names the version, as in `storage.azure.com/StorageAccount v1api20230101`; a line that names none is taken for a number. What
//! follows is a JSON value, or else chooses an example of the version and what is spoilt in it.

use std::sync::Arc;

use arbitrary::{Result, Unstructured};
use flotilla_crds::Extent;
use flotilla_crds::{ArmId, Catalog, Kind, NameContext, Resolved, SecretValue, Version};
use serde_json::{Map, Value, json};

/// What Secrets and config maps hold: fields that take an id have a least length.
const GIVEN: &str = "00000000-0000-0000-0000-000000000000";

/// Reads the bytes and converts what they stand for. Panics if something does not hold.
pub(crate) fn run(data: &[u8]) {
    let end = data.iter().position(|b| *b == b'\n').unwrap_or(data.len().min(3));
    let (head, rest) = data.split_at(end);
    let rest = rest.strip_prefix(b"\n").unwrap_or(rest);
    let Some((kind, index)) = version(head) else { return };
    let version = &kind.versions()[index];
    let mut bytes = Unstructured::new(rest);
    let (value, whole) = match serde_json::from_slice(rest) {
        Ok(value) => (value, false),
        Err(_) => match example(version, &mut bytes) {
            Ok(found) => found,
            Err(_) => return,
        },
    };
    let body = to_body(&kind, version, &value, whole).unwrap_or(value);
    answered(&kind, version, &body, bytes.ratio(1_u8, 4_u8).unwrap_or(true));
}

fn version(head: &[u8]) -> Option<(Arc<Kind>, usize)> {
    let catalog = Catalog::embedded();
    let named = std::str::from_utf8(head).ok().and_then(|head| {
        let (kind, version) = head.split_once(' ')?;
        let (group, kind) = kind.split_once('/')?;
        let kind = catalog.kind(group, kind)?;
        let index = kind.versions().iter().position(|v| v.name() == version.trim_end())?;
        Some((kind, index))
    });
    named.or_else(|| {
        let number = head.iter().fold(0_usize, |sum, byte| sum.wrapping_mul(257).wrapping_add(usize::from(*byte)));
        let standard = catalog.standard().count();
        let entry = catalog.standard().nth(number % standard)?;
        let kind = catalog.kind(&entry.group, &entry.kind)?;
        let index = (number / standard).checked_rem(kind.versions().len())?;
        Some((kind, index))
    })
}

/// A spec of the version, and whether it is whole; otherwise something in it is spoilt.
fn example(version: &Version, bytes: &mut Unstructured<'_>) -> Result<(Value, bool)> {
    let mut spec = version.specimen(Extent::Part(bytes.arbitrary()?));
    let spoilt = bytes.int_in_range(0..=3)?;
    for _ in 0..spoilt {
        spoil(&mut spec, bytes)?;
    }
    Ok((spec, spoilt == 0))
}

/// Changes something somewhere in a value.
fn spoil(value: &mut Value, bytes: &mut Unstructured<'_>) -> Result<()> {
    let deeper = bytes.ratio(4_u8, 5_u8)?;
    match value {
        Value::Object(members) if !members.is_empty() && deeper => {
            let at = bytes.choose_index(members.len())?;
            let Some(name) = members.keys().nth(at).cloned() else { return Ok(()) };
            match bytes.int_in_range(0..=9)? {
                0 => drop(members.remove(&name)),
                1 => {
                    let taken = members.remove(&name).unwrap_or_default();
                    members.insert(word(bytes)?, taken);
                }
                2 => drop(members.insert(word(bytes)?, anything(bytes, 2)?)),
                _ => return members.get_mut(&name).map_or(Ok(()), |member| spoil(member, bytes)),
            }
        }
        Value::Array(items) if !items.is_empty() && deeper => {
            let at = bytes.choose_index(items.len())?;
            match bytes.int_in_range(0..=5)? {
                0 => drop(items.remove(at)),
                1 => items.push(items[at].clone()),
                _ => return spoil(&mut items[at], bytes),
            }
        }
        _ => *value = anything(bytes, 3)?,
    }
    Ok(())
}

fn anything(bytes: &mut Unstructured<'_>, depth: usize) -> Result<Value> {
    Ok(match bytes.int_in_range(0..=if depth == 0 { 6 } else { 8 })? {
        0 => Value::Null,
        1 => json!(bytes.arbitrary::<bool>()?),
        2 => json!(bytes.arbitrary::<i64>()?),
        3 => json!(bytes.arbitrary::<u64>()?),
        4 => json!(bytes.arbitrary::<f64>()?),
        5 => json!(bytes.arbitrary::<&str>()?),
        6 => json!(word(bytes)?),
        7 => (0..bytes.int_in_range(0..=3)?).map(|_| anything(bytes, depth - 1)).collect::<Result<Vec<_>>>()?.into(),
        _ => (0..bytes.int_in_range(0..=3)?)
            .map(|_| Ok((word(bytes)?, anything(bytes, depth - 1)?)))
            .collect::<Result<Map<_, _>>>()?
            .into(),
    })
}

/// Names that mean something, and some that are none.
fn word(bytes: &mut Unstructured<'_>) -> Result<String> {
    const WORDS: [&str; 24] = [
        "id",
        "name",
        "type",
        "properties",
        "location",
        "tags",
        "identity",
        "userAssignedIdentities",
        "reference",
        "armId",
        "group",
        "kind",
        "key",
        "value",
        "owner",
        "azureName",
        "operatorSpec",
        "additionalProperties",
        "$propertyBag",
        "",
        "a.b",
        "a[0]",
        "West US 2",
        "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/virtualNetworks/n",
    ];
    if bytes.ratio(7_u8, 8_u8)? {
        Ok((*bytes.choose(&WORDS)?).to_owned())
    } else {
        Ok(bytes.arbitrary::<&str>()?.to_owned())
    }
}

/// The body for a spec, if it has one.
fn to_body(kind: &Kind, version: &Version, spec: &Value, whole: bool) -> Option<Value> {
    let inputs = version.inputs(spec);
    let mut resolved = Resolved::default();
    for reference in inputs.references {
        resolved.references.insert(reference.path, ArmId::resource_group("s", "g"));
    }
    for secret in inputs.secrets {
        if secret.key.is_some() {
            resolved.secrets.insert(secret.path, SecretValue::new(GIVEN));
        } else {
            resolved.secret_maps.insert(secret.path, [("key".to_owned(), SecretValue::new(GIVEN))].into());
        }
    }
    resolved.config.extend(inputs.config_maps.into_iter().map(|input| (input.path, GIVEN.to_owned())));
    let context = NameContext { namespace: "default", name: "example", uid: "0", from_config: None };
    let name = kind.arm_name(&context, spec).unwrap_or_else(|error| {
        assert!(!whole, "{error}");
        "parent/name".to_owned()
    });
    match version.put_body(spec, &name, &resolved) {
        Ok(body) => {
            if whole {
                assert_eq!(version.validate_body(&body), Ok(()), "{body}");
            }
            Some(body)
        }
        Err(error) => {
            assert!(!whole, "{error}: {spec}");
            assert!(
                error.path() == "spec" || error.path().starts_with("spec.") || error.path().starts_with("spec["),
                "{error}"
            );
            None
        }
    }
}

/// What must hold for an answer of a GET.
fn answered(kind: &Kind, version: &Version, body: &Value, with_schema: bool) {
    let status = version.status(body);
    if with_schema && let Some(schema) = kind.own_status_schema(version.name()) {
        fits(&schema, &status, "status");
    }
    // What the service returns is no drift from itself.
    assert_eq!(version.stated_differences(body, body), [], "{body}");
    for difference in
        version.stated_differences(body, &Value::Null).into_iter().chain(version.stated_differences(body, &status))
    {
        assert!(!difference.path.starts_with('.'), "{difference:?}");
    }
    if let Err(violations) = version.validate_body(body) {
        assert!(!violations.is_empty() && violations.iter().all(|v| !v.path.starts_with('.')), "{violations:?}");
    }
    let mut kept = json!({});
    version.keep_children(&mut kept, body);
    assert!(kept.is_object());
}

/// Whether the API server would take a status.
fn fits(schema: &Value, value: &Value, path: &str) {
    if schema["x-kubernetes-preserve-unknown-fields"] == true {
        return;
    }
    match (schema["type"].as_str().unwrap_or_default(), value) {
        ("object", Value::Object(members)) => {
            for (name, member) in members {
                let inner = schema["properties"].get(name).or_else(|| schema.get("additionalProperties"));
                let inner = inner.unwrap_or_else(|| panic!("{path}.{name} is not in the schema"));
                fits(inner, member, &format!("{path}.{name}"));
            }
        }
        ("array", Value::Array(items)) => {
            for item in items {
                fits(&schema["items"], item, &format!("{path}[]"));
            }
        }
        ("integer", Value::Number(number)) => assert!(number.is_i64(), "{path} is {number}"),
        ("string", Value::String(_)) | ("boolean", Value::Bool(_)) | ("number", Value::Number(_)) => {}
        (wanted, value) => panic!("{path} is {value} and not of type {wanted}"),
    }
}
