//! The schema of one version's spec and status, from its shapes.

use serde_json::{Value, json};

use super::schema::{Schema, Structure};
use crate::graph::Node;
use crate::kind::{self, NameRule, Owner, Version};
use crate::shape::{Object, Role, Shape};

/// What an ARM id looks like; the API server refuses others.
const ARM_ID: &str = "(?i)(^(/subscriptions/([^/]+)(/resourcegroups/([^/]+))?)?/providers/([^/]+)/([^/]+/[^/]+)(/([^/]+/[^/]+))*$|^/subscriptions/([^/]+)(/resourcegroups/([^/]+))?$)";

pub(super) fn spec(version: &Version) -> Schema {
    let mut schema = object(version.spec());
    let manager = version.entry().manager;
    if manager.is_arm() && !matches!(version.name_rule(), NameRule::Fixed(_)) {
        let mut name = Schema::string();
        if let Some(Node::String { pattern, min, max }) = version.name_node() {
            name = string_checks(name, pattern.as_deref(), *min, *max);
        }
        schema.property("azureName", name);
        if version.name_from_config() {
            schema.property("azureNameFromConfig", Schema::strings(&[], &["key", "name"]));
            if let Structure::Object { exclusive, .. } = &mut schema.structure {
                exclusive.push(("azureName".to_owned(), "azureNameFromConfig".to_owned()));
            }
        }
    }
    match kind::owner(version.entry()) {
        Owner::None => {}
        Owner::Kind { .. } if !manager.owner_by_id() => {
            schema.required("owner", Schema::strings(&[], &["name"]));
        }
        Owner::Kind { .. } => {
            let mut owner = Schema::strings(&["name"], &[]);
            owner.property("armId", arm_id());
            schema.required("owner", owner);
        }
        Owner::Resource { .. } => {
            let mut owner = Schema::object();
            owner.required("armId", arm_id());
            schema.required("owner", owner);
        }
        Owner::Extension => {
            let mut owner = Schema::strings(&["group", "kind", "name"], &[]);
            owner.property("armId", arm_id());
            schema.required("owner", owner);
        }
    }
    if manager.is_arm() {
        schema.property("operatorSpec", operator_spec(version));
    }
    schema
}

pub(super) fn status(version: &Version) -> Schema {
    let mut schema = object(version.status_shape());
    let mut condition = Schema::strings(&["message", "severity"], &["reason", "status", "type"]);
    condition.required("lastTransitionTime", Schema::of(Structure::String(Some("date-time"))));
    condition.property("observedGeneration", Schema::of(Structure::Integer(Some("int64"))));
    schema.property("conditions", Schema::list(condition));
    schema
}

fn operator_spec(version: &Version) -> Schema {
    let with_notes = |mut schema: Schema| {
        schema.property("annotations", Schema::map(Schema::string()));
        schema.property("labels", Schema::map(Schema::string()));
        schema
    };
    let mut operator = Schema::object();
    let expressions = || Schema::list(with_notes(Schema::strings(&["key"], &["name", "value"])));
    operator.property("configMapExpressions", expressions());
    operator.property("secretExpressions", expressions());
    if version.name_rule() == NameRule::Uuid && version.entry().group == "authorization.azure.com" {
        operator.property("namingConvention", Schema::string().check("enum", json!(["random", "stable"])));
    }
    for (target, secret) in [("configMaps", false), ("secrets", true)] {
        let mut names = Schema::object();
        for export in version.exports().filter(|e| e.secret == secret) {
            names.property(&export.name, with_notes(Schema::strings(&[], &["key", "name"])));
        }
        if names.properties().is_some_and(|p| !p.is_empty()) {
            operator.property(target, names);
        }
    }
    operator
}

fn object(shape: &Object) -> Schema {
    let mut schema = Schema::object();
    for field in &shape.fields {
        let of = of(&field.shape);
        if field.required {
            schema.required(&field.name, of);
        } else {
            schema.property(&field.name, of);
        }
        if let (Role::InsteadOf(plain), Structure::Object { exclusive, .. }) = (&field.role, &mut schema.structure) {
            exclusive.push((plain.to_string(), field.name.to_string()));
        }
    }
    schema
}

fn of(shape: &Shape) -> Schema {
    match shape {
        Shape::Object(members) => object(members),
        Shape::Map(values) => Schema::map(of(values)),
        Shape::AnyMap => Schema::map(Schema::of(Structure::Any)),
        Shape::List { item, min, max } => bounds(Schema::list(of(item)), "minItems", *min, "maxItems", *max),
        Shape::String { pattern, min, max } => string_checks(Schema::string(), pattern.as_deref(), *min, *max),
        Shape::Enum(values) => Schema::string().check("enum", json!(values)),
        Shape::Integers(values) => Schema::of(Structure::Integer(None)).check("enum", json!(values)),
        Shape::Numbers(values) => Schema::of(Structure::Number).check("enum", json!(values)),
        Shape::Integer { min, max } => bounds(Schema::of(Structure::Integer(None)), "minimum", *min, "maximum", *max),
        Shape::Number { min, max } => bounds(Schema::of(Structure::Number), "minimum", *min, "maximum", *max),
        Shape::Boolean => Schema::of(Structure::Boolean),
        Shape::Any => Schema::of(Structure::Any),
        Shape::Reference { well_known } => reference(*well_known),
        Shape::Identities => {
            let mut item = Schema::object();
            item.property("reference", reference(false));
            Schema::list(item)
        }
        Shape::SecretKey | Shape::ConfigKey => Schema::strings(&[], &["key", "name"]),
        Shape::SecretMap => Schema::strings(&[], &["name"]),
    }
}

fn arm_id() -> Schema {
    Schema::string().check("pattern", ARM_ID)
}

/// Exactly one form. Said without CEL, whose budget per CRD would not last for the references in lists of some kinds.
fn reference(well_known: bool) -> Schema {
    let mut schema = Schema::strings(&["group", "kind", "name"], &[]);
    schema.property("armId", arm_id());
    let mut forms = vec![json!({"required": ["armId"]}), json!({"required": ["group", "kind", "name"]})];
    if well_known {
        schema.property("wellKnownName", Schema::string());
        forms.push(json!({"required": ["wellKnownName"]}));
    }
    schema.check("oneOf", forms)
}

fn bounds<T: Into<Value>>(mut schema: Schema, least: &str, min: Option<T>, most: &str, max: Option<T>) -> Schema {
    if let Some(min) = min {
        schema = schema.check(least, min);
    }
    if let Some(max) = max {
        schema = schema.check(most, max);
    }
    schema
}

fn string_checks(mut schema: Schema, pattern: Option<&str>, min: Option<u64>, max: Option<u64>) -> Schema {
    if let Some(pattern) = pattern {
        schema = schema.check("pattern", pattern);
    }
    bounds(schema, "minLength", min.filter(|&min| min > 0), "maxLength", max)
}
