//! Of every kind and version: a custom resource with every field set is what its schema accepts, its body is what the type accepts, and the body's
//! status is what the status's schema accepts and says what the spec said. Random parts of such resources, too.

#![expect(clippy::unwrap_used, reason = "a test")]

use std::collections::{BTreeMap, BTreeSet};

use flotilla_crds::shape::{Field, Object, Role, Shape};
use flotilla_crds::{ArmId, Catalog, Kind, NameRule, Resolved, SecretValue, Target, Version};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

const ID: &str =
    "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/rg/providers/Microsoft.Example/things/thing";

/// Variable with the number of random parts that are made of every version.
const SEEDS: &str = "FLOTILLA_TEST_SEEDS";

/// Seeds that once found something.
const ONCE_FAILED: [u64; 2] = [131, 40_910_443_223_333_492];

/// Decides what a generated resource has. `Whole` takes every field and the nth alternative; `Part` some of them.
enum Choice {
    Whole(usize),
    Part(u64),
}

impl Choice {
    /// A number below `bound` that depends on the place.
    fn pick(&mut self, bound: usize) -> usize {
        match self {
            Self::Whole(n) => *n % bound,
            Self::Part(seed) => {
                // SplitMix64: good enough to pick with, and the same everywhere.
                *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
                let mut z = *seed;
                z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
                usize::try_from((z ^ (z >> 31)) % bound as u64).unwrap()
            }
        }
    }

    fn takes(&mut self, field: &Field, of: &Object) -> bool {
        // Some objects are nothing but a reference, and the service requires the id where the spec does not.
        let only = of.fields.len() == 1 && matches!(field.shape, Shape::Reference { .. });
        field.required || only || matches!(self, Self::Whole(_)) || self.pick(3) == 0
    }
}

fn object(shape: &Object, choice: &mut Choice) -> Value {
    let mut value = Map::new();
    let alternatives: Vec<&Field> = shape.fields.iter().filter(|f| matches!(f.role, Role::Alternative(_))).collect();
    if !alternatives.is_empty() {
        let field = alternatives[choice.pick(alternatives.len())];
        value.insert(field.name.to_string(), one(&field.shape, choice));
    }
    for field in shape.fields.iter().filter(|f| !matches!(f.role, Role::Alternative(_))) {
        let other = matches!(&field.role, Role::InsteadOf(plain) if value.contains_key(&**plain));
        let taken = shape
            .fields
            .iter()
            .any(|f| matches!(&f.role, Role::InsteadOf(p) if **p == *field.name) && value.contains_key(&*f.name));
        if !other && !taken && choice.takes(field, shape) {
            value.insert(field.name.to_string(), one(&field.shape, choice));
        }
    }
    // An object that the type requires and the spec does not have, because its members stand in its place, is in the body if one of them is set.
    for wrapper in &shape.wrappers {
        let (_, above) = wrapper.split_last().unwrap();
        let is_set = |value: &Map<String, Value>, arm: &[Box<str>]| {
            shape.fields.iter().any(|f| f.arm.starts_with(arm) && value.contains_key(&*f.name))
        };
        if (above.is_empty() || is_set(&value, above)) && !is_set(&value, wrapper) {
            let members: Vec<&Field> = shape.fields.iter().filter(|f| f.arm.starts_with(wrapper)).collect();
            let field = members[choice.pick(members.len())];
            value.insert(field.name.to_string(), one(&field.shape, choice));
        }
    }
    // What the service requires and the spec does not (a value that may come from a config map) is there in one form or the other.
    for field in &shape.fields {
        if let Role::InsteadOf(plain) = &field.role
            && !value.contains_key(&**plain)
        {
            value.insert(field.name.to_string(), one(&field.shape, choice));
        }
    }
    Value::Object(value)
}

fn one(shape: &Shape, choice: &mut Choice) -> Value {
    match shape {
        Shape::Object(members) => object(members, choice),
        Shape::Map(item) => json!({"key": one(item, choice)}),
        Shape::List { item, min, .. } => (0..min.unwrap_or(1).max(1)).map(|_| one(item, choice)).collect(),
        Shape::String { min, max, .. } => {
            json!("abcd".repeat(100)[..usize::try_from(min.unwrap_or(3).max(3).min(max.unwrap_or(400))).unwrap()])
        }
        Shape::Enum(values) => json!(values[choice.pick(values.len())]),
        Shape::Integer { min, max } | Shape::Number { min, max } => {
            json!(7.max(min.unwrap_or(i64::MIN)).min(max.unwrap_or(i64::MAX)))
        }
        Shape::Integers(values) | Shape::Numbers(values) => json!(values[choice.pick(values.len())]),
        Shape::Boolean => json!(true),
        Shape::Any => json!({"any": ["thing"]}),
        Shape::AnyMap => json!({"key": {"any": "thing"}}),
        Shape::Reference { .. } => json!({"armId": ID}),
        Shape::Identities => json!([{"reference": {"armId": ID}}]),
        Shape::SecretKey | Shape::ConfigKey => json!({"name": "source", "key": "key"}),
        Shape::SecretMap => json!({"name": "source"}),
    }
}

fn resolve(version: &Version, spec: &Value) -> Resolved {
    let inputs = version.inputs(spec);
    let mut resolved = Resolved::default();
    for reference in inputs.references {
        let Target::ArmId(id) = reference.target else { panic!("{reference:?}") };
        resolved.references.insert(reference.path, id);
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

/// What of a value a schema refuses: structure, `required`, `enum`, bounds. Patterns are left to the API server.
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
            (Shape::Reference { .. }, Shape::String { .. }) if *seen != ID => found.push(format!("{at} is {seen}")),
            (Shape::String { .. } | Shape::Enum(_), Shape::String { .. }) | (Shape::Boolean, Shape::Boolean)
                if seen != stated =>
            {
                found.push(format!("{at} is {seen}, not {stated}"));
            }
            _ => {}
        }
    }
}

fn check(kind: &Kind, version: &Version, choice: &mut Choice) -> Vec<String> {
    let mut found = Vec::new();
    let mut spec = object(version.spec(), choice);
    if let Some(Shape::String { .. }) = version.spec().field("type").map(|f| &f.shape) {
        spec["type"] = json!(kind.arm_type());
    }
    let name = match kind.name_rule() {
        NameRule::Fixed(name) => name,
        NameRule::AzureName | NameRule::Uuid => "something".to_owned(),
    };
    let mut schema = kind.own_spec_schema(version.name()).unwrap();
    if let Some(required) = schema["required"].as_array_mut() {
        required.retain(|name| name != "owner");
    }
    refusals(&schema, &spec, "spec", &mut found);
    let resolved = resolve(version, &spec);
    match version.put_body(&spec, &name, &resolved) {
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

fn most_alternatives(object: &Object) -> usize {
    fn of(shape: &Shape) -> usize {
        match shape {
            Shape::Object(members) => most_alternatives(members),
            Shape::Map(item) | Shape::List { item, .. } => of(item),
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
    for entry in catalog.kinds().filter(|entry| entry.manager.is_arm()) {
        let kind = catalog.kind(&entry.group, &entry.kind).unwrap();
        for version in kind.versions() {
            for n in 0..most_alternatives(version.spec()) {
                checked += 1;
                found.extend(check(&kind, version, &mut Choice::Whole(n)));
            }
        }
    }
    assert!(checked > 900, "only {checked} resources were made");
    assert!(found.is_empty(), "{} problems:\n{}", found.len(), found.into_iter().collect::<Vec<_>>().join("\n"));
}

#[test]
fn any_part_makes_a_valid_body_and_status_in_every_version() {
    let count = std::env::var(SEEDS).map_or(8, |count| count.parse().unwrap());
    let seeds = || (0..count).chain(ONCE_FAILED);
    let catalog = Catalog::embedded();
    let mut found = BTreeSet::new();
    for entry in catalog.kinds().filter(|entry| entry.manager.is_arm()) {
        let kind = catalog.kind(&entry.group, &entry.kind).unwrap();
        for version in kind.versions() {
            for seed in seeds() {
                found.extend(
                    check(&kind, version, &mut Choice::Part(seed)).into_iter().map(|e| format!("{e} (seed {seed})")),
                );
            }
        }
    }
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
