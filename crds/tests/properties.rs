//! Of every kind of ASO's set, in every version: a custom resource with every field set is what its schema accepts, its body is what the type accepts,
//! and the body's status is what the status's schema accepts and says what the spec said. So are one with no more than it must have, and random ones.

#![expect(clippy::unwrap_used, reason = "a test")]

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use flotilla_crds::{ArmId, Catalog, Kind, NameContext, Resolved, SecretValue, Target, Version};
use flotilla_crds::{Extent, SPECIMEN_ARM_ID, SPECIMEN_NAME};
use flotilla_crds::{Field, Object, Role, Shape};
use proptest::prelude::*;
use regex::Regex;
use serde_json::Value;

/// Variable with the number of random parts that are made of every version.
const SEEDS: &str = "FLOTILLA_TEST_SEEDS";

/// Types outside of ASO's set whose specimens the type data do not take, and why.
const REFUSED: [(&str, &str); 1] = [
    // The id that specimens have is too short; others are not.
    ("Microsoft.DeviceUpdate/accounts/instances", "resourceId: is out of bounds: 74 characters"),
];

/// Seeds that once found something.
const ONCE_FAILED: [u64; 2] = [91, 190];

fn resolve(version: &Version, spec: &Value) -> Resolved {
    let inputs = version.inputs(spec);
    let mut resolved = Resolved::default();
    for reference in inputs.references {
        assert!(!matches!(reference.target, Target::Malformed(_)), "{reference:?}");
        resolved.references.insert(reference.path, ArmId::parse(SPECIMEN_ARM_ID).unwrap());
    }
    for input in inputs.secrets {
        match input.key {
            Some(_) => {
                drop(resolved.secrets.insert(input.path, SecretValue::new("9a329043-7ad7-4b1c-812f-9c7a93d6392a")));
            }
            None => drop(
                resolved
                    .secret_maps
                    .insert(input.path, BTreeMap::from([("key".to_owned(), SecretValue::new("hidden"))])),
            ),
        }
    }
    resolved.config.extend(
        inputs.config_maps.into_iter().map(|input| (input.path, "9a329043-7ad7-4b1c-812f-9c7a93d6392a".to_owned())),
    );
    resolved
}

fn matches(pattern: &str, text: &str) -> bool {
    thread_local!(static MADE: RefCell<HashMap<String, Regex>> = RefCell::default());
    let made = |pattern: &str| Regex::new(pattern).unwrap();
    MADE.with_borrow_mut(|all| all.entry(pattern.to_owned()).or_insert_with(|| made(pattern)).is_match(text))
}

/// What of a value a schema refuses: all but what the CRD says with CEL.
fn refusals(schema: &Value, value: &Value, path: &str, found: &mut Vec<String>) {
    if schema["x-kubernetes-preserve-unknown-fields"] == true {
        return;
    }
    let fits = match schema["type"].as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("number") => value.is_number(),
        Some("boolean") => value.is_boolean(),
        _ => false,
    };
    if !fits {
        return found.push(format!("{path} is {value}, not {}", schema["type"]));
    }
    if schema["enum"].as_array().is_some_and(|allowed| !allowed.contains(value)) {
        found.push(format!("{path} is {value}"));
    }
    if value.as_i64().is_some_and(|n| {
        schema["minimum"].as_i64().is_some_and(|m| n < m) || schema["maximum"].as_i64().is_some_and(|m| n > m)
    }) {
        found.push(format!("{path} is {value}, out of bounds"));
    }
    if let Some(text) = value.as_str() {
        let length = text.chars().count() as u64;
        let pattern = schema["pattern"].as_str();
        if schema["minLength"].as_u64().is_some_and(|min| length < min)
            || schema["maxLength"].as_u64().is_some_and(|max| length > max)
            || pattern.is_some_and(|pattern| !matches(pattern, text))
        {
            found.push(format!("{path} is {text:?}, which breaks {schema}"));
        }
    }
    if let Some(items) = value.as_array().map(|items| items.len() as u64)
        && (schema["minItems"].as_u64().is_some_and(|min| items < min)
            || schema["maxItems"].as_u64().is_some_and(|max| items > max))
    {
        found.push(format!("{path} has {items} items"));
    }
    if let Some(forms) = schema["oneOf"].as_array() {
        let has = |form: &&Value| {
            form["required"].as_array().unwrap().iter().all(|name| value.get(name.as_str().unwrap()).is_some())
        };
        if forms.iter().filter(has).count() != 1 {
            found.push(format!("{path} is {value}, not one of the forms"));
        }
    }
    for name in
        schema["required"].as_array().into_iter().flatten().filter(|name| value.get(name.as_str().unwrap()).is_none())
    {
        found.push(format!("{path}.{name} is missing"));
    }
    for (name, inner) in value.as_object().into_iter().flatten() {
        let at = format!("{path}.{name}");
        match (schema["properties"].get(name), schema.get("additionalProperties")) {
            (Some(schema), _) | (None, Some(schema)) => refusals(schema, inner, &at, found),
            (None, None) => found.push(format!("{at} is unknown")),
        }
    }
    for (i, item) in value.as_array().into_iter().flatten().enumerate() {
        refusals(&schema["items"], item, &format!("{path}[{i}]"), found);
    }
}

/// Whether the status has what the spec has, as far as both have fields at the same ARM path.
fn check_same(
    spec_shape: &Object,
    spec: &Value,
    status_shape: &Object,
    status: &Value,
    path: &str,
    found: &mut Vec<String>,
) {
    for field in spec_shape.fields.iter().filter(|f| f.role == Role::Value) {
        let Some(stated) = spec.get(&*field.name) else { continue };
        // Of a string and a reference for the same place, the reference counts.
        let twice = |f: &Field| f.arm == field.arm && f.name > field.name && spec.get(&*f.name).is_some();
        if spec_shape.fields.iter().any(|f| f.role == Role::Value && twice(f)) {
            continue;
        }
        let Some(twin) = status_shape.fields.iter().find(|f| f.arm == field.arm && f.role == Role::Value) else {
            continue;
        };
        let seen = &status[&*twin.name];
        let at = format!("{path}.{}", field.name);
        match (&field.shape, &twin.shape) {
            (Shape::Object(a), Shape::Object(b)) => check_same(a, stated, b, seen, &at, found),
            (Shape::Reference { .. }, Shape::String { .. }) if *seen != SPECIMEN_ARM_ID => {
                found.push(format!("{at} is {seen}"));
            }
            (Shape::String { .. } | Shape::Enum(_), Shape::String { .. }) | (Shape::Boolean, Shape::Boolean)
                if seen != stated =>
            {
                found.push(format!("{at} is {seen}, not {stated}"));
            }
            _ => {}
        }
    }
}

fn check(kind: &Kind, version: &Version, extent: Extent) -> Vec<String> {
    let mut found = Vec::new();
    let spec = version.specimen(extent);
    let schema = kind.own_spec_schema(version.name()).unwrap();
    refusals(&schema, &spec, "spec", &mut found);
    let context = NameContext { namespace: "default", name: SPECIMEN_NAME, uid: "", from_config: None };
    let name = kind.arm_name(&context, &spec).unwrap();
    let resolved = resolve(version, &spec);
    match version.put_body(&spec, &name, &resolved) {
        _ if !kind.entry().manager.is_arm() => {}
        Err(error) => found.push(error.to_string()),
        Ok(body) => {
            found.extend(version.validate_body(&body).err().into_iter().flatten().map(|v| v.to_string()));
            found.extend(
                version.stated_differences(&body, &body).into_iter().map(|d| format!("differs from itself: {d:?}")),
            );
            let status = version.status(&body);
            refusals(&kind.own_status_schema(version.name()).unwrap(), &status, "status", &mut found);
            check_same(version.spec(), &spec, version.status_shape(), &status, "status", &mut found);
        }
    }
    found.into_iter().map(|line| format!("{}/{} {}: {line}", kind.group(), kind.name(), version.name())).collect()
}

/// How many specimens it takes to have each alternative; two have each form of a reference.
fn most_alternatives(object: &Object) -> usize {
    fn of(shape: &Shape) -> usize {
        match shape {
            Shape::Object(members) => most_alternatives(members),
            Shape::Map(item) | Shape::List { item, .. } => of(item),
            Shape::Reference { .. } => 2,
            _ => 1,
        }
    }
    let own = object.fields.iter().filter(|f| matches!(f.role, Role::Alternative(_))).count();
    object.fields.iter().map(|f| of(&f.shape)).max().unwrap_or(1).max(own)
}

#[test]
fn everything_set_makes_a_valid_body_and_status_in_every_version() {
    let catalog = Catalog::embedded();
    let (mut found, mut checked) = (BTreeSet::new(), 0);
    for entry in catalog.standard() {
        let kind = catalog.kind(&entry.group, &entry.kind).unwrap();
        for version in kind.versions() {
            found.extend(check(&kind, version, Extent::Required));
            for n in 0..most_alternatives(version.spec()) {
                checked += 1;
                found.extend(check(&kind, version, Extent::Whole(n)));
            }
        }
    }
    assert!(checked > 900, "only {checked} resources were made");
    assert!(found.is_empty(), "{} problems:\n{}", found.len(), found.into_iter().collect::<Vec<_>>().join("\n"));
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test's own switch")]
fn any_part_makes_a_valid_body_and_status_in_every_version() {
    let count = std::env::var(SEEDS).map_or(8, |count| count.parse().unwrap());
    let seeds = || (0..count).chain(ONCE_FAILED);
    let catalog = Catalog::embedded();
    let mut found = BTreeSet::new();
    for entry in catalog.standard() {
        let kind = catalog.kind(&entry.group, &entry.kind).unwrap();
        for version in kind.versions() {
            for seed in seeds() {
                found.extend(
                    check(&kind, version, Extent::Part(seed)).into_iter().map(|e| format!("{e} (seed {seed})")),
                );
            }
        }
    }
    assert!(found.is_empty(), "{} problems:\n{}", found.len(), found.into_iter().collect::<Vec<_>>().join("\n"));
}

/// What a kind outside of ASO's set is tried with, and versions that no pattern has named.
const FEW: [Extent; 3] = [Extent::Required, Extent::Whole(0), Extent::Part(1)];

/// One in so many of the versions that are not served by default is tried; `FLOTILLA_TEST_SEEDS` tries all.
const SAMPLE: usize = 40;

#[test]
#[expect(clippy::disallowed_methods, reason = "a test's own switch")]
fn other_versions_make_valid_bodies_and_statuses() {
    let catalog = Catalog::embedded();
    let step = if std::env::var(SEEDS).is_ok() { 1 } else { SAMPLE };
    let (mut found, mut checked, mut seen) = (BTreeSet::new(), 0, 0);
    for entry in catalog.kinds() {
        let kind = catalog.try_load(&entry.group, &entry.kind).unwrap().unwrap();
        let names: Vec<String> = kind.other_versions().map(|(name, _)| name.to_owned()).collect();
        for name in names {
            seen += 1;
            if seen % step == 0 {
                checked += 1;
                let version = kind.version(&name).unwrap();
                found.extend(FEW.into_iter().flat_map(|extent| check(&kind, version, extent)));
            }
        }
    }
    assert!(seen > 20_000 && checked >= seen / step, "{checked} of {seen} versions");
    assert!(found.is_empty(), "{} problems:\n{}", found.len(), found.into_iter().collect::<Vec<_>>().join("\n"));
}

#[test]
fn types_outside_of_asos_set_make_valid_bodies_and_statuses() {
    let catalog = Catalog::embedded();
    let (mut found, mut checked, mut refused) = (BTreeSet::new(), 0, BTreeSet::new());
    for entry in catalog.kinds().filter(|entry| entry.further) {
        let kind = catalog.kind(&entry.group, &entry.kind).unwrap();
        let version = kind.hub().unwrap();
        let known = REFUSED.iter().find(|(arm_type, _)| *arm_type == entry.arm_type);
        checked += 1;
        for extent in [Extent::Required, Extent::Whole(0), Extent::Part(1), Extent::Part(2)] {
            for problem in check(&kind, version, extent) {
                match known {
                    Some((arm_type, why)) if problem.ends_with(why) => drop(refused.insert(*arm_type)),
                    _ => drop(found.insert(problem)),
                }
            }
        }
    }
    assert!(checked > 1700, "only {checked} types were tried");
    assert_eq!(refused.len(), REFUSED.len(), "only these are refused still: {refused:?}");
    assert!(found.is_empty(), "{} problems:\n{}", found.len(), found.into_iter().collect::<Vec<_>>().join("\n"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_value_makes_a_body_or_status_panic(kind in any::<prop::sample::Index>(), value in json_value()) {
        let catalog = Catalog::embedded();
        let entries: Vec<_> = catalog.kinds().collect();
        let entry = kind.get(&entries);
        let kind = catalog.kind(&entry.group, &entry.kind).unwrap();
        let version = kind.hub().unwrap();
        let _ = version.put_body(&value, "thing", &Resolved::default());
        let _ = version.inputs(&value);
        let _ = version.validate_body(&value);
        let _ = version.status(&value);
        let _ = version.stated_differences(&value, &value);
    }

    #[test]
    fn no_text_makes_an_arm_id_panic(text in "(/(subscriptions|resourceGroups|providers|[a-z.é]{0,4})){0,9}") {
        if let Ok(id) = ArmId::parse(&text) {
            prop_assert_eq!(ArmId::parse(id.as_str()), Ok(id.clone()));
            let _ = (id.parent(), id.resource_type(), id.name().to_owned(), id.subscription_id().is_some());
        }
    }
}

/// JSON with the names that occur in specs, so that walks go deep.
fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z/]{0,6}".prop_map(Value::from)
    ];
    leaf.prop_recursive(5, 60, 6, |inner| {
        let name = prop_oneof![
            "properties",
            "tags",
            "identity",
            "sku",
            "location",
            "reference",
            "name",
            "userAssignedIdentities",
            "[a-z]{1,5}"
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(name, inner, 0..5).prop_map(|m| Value::Object(m.into_iter().collect())),
        ]
    })
}
