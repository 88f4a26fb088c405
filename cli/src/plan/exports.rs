//! Which resources write Secrets and ConfigMaps, and what can be told of the values before they do.

use std::collections::HashMap;

use flotilla_crds::ArmId;
use serde_json::Value;

use super::manifest::{Manifests, Resource};

/// Who writes the keys of Secrets and ConfigMaps.
#[derive(Debug, Default)]
pub(super) struct Exports {
    /// By whether it is a Secret, namespace and name.
    writers: HashMap<(bool, String, String), Vec<Writer>>,
}

/// A resource that writes a key, or, with an expression that gives a map, keys that only it knows.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) resource: usize,
    key: Option<String>,
    source: Source,
}

#[derive(Debug)]
enum Source {
    /// A path in the status.
    Status(String),
    /// The subscription in the id.
    Subscription,
    /// A CEL expression.
    Expression(String),
    /// Something that only Azure says.
    Action,
}

impl Exports {
    pub(super) fn of(manifests: &Manifests) -> Self {
        let mut exports = Self::default();
        for (index, resource) in manifests.resources.iter().enumerate() {
            let operator = &resource.spec["operatorSpec"];
            for (secret, field, expressions) in
                [(true, "secrets", "secretExpressions"), (false, "configMaps", "configMapExpressions")]
            {
                // Entra's kinds spell it their own way.
                let field = if operator[field].is_null() && !secret { "configmaps" } else { field };
                for (export, to) in operator[field].as_object().into_iter().flatten() {
                    let known = resource.kind.entry().exports.iter().find(|e| e.secret == secret && e.name == *export);
                    let source = match known.and_then(|e| e.source.split_once(':')) {
                        Some(("status", path)) => Source::Status(path.to_owned()),
                        Some(("computed", "subscription of the id")) => Source::Subscription,
                        _ => Source::Action,
                    };
                    exports.add(resource, secret, to, Writer { resource: index, key: text(to, "key"), source });
                }
                for to in operator[expressions].as_array().into_iter().flatten() {
                    let source = Source::Expression(text(to, "value").unwrap_or_default());
                    exports.add(resource, secret, to, Writer { resource: index, key: text(to, "key"), source });
                }
            }
        }
        exports
    }

    fn add(&mut self, resource: &Resource, secret: bool, to: &Value, writer: Writer) {
        if let Some(name) = text(to, "name") {
            self.writers.entry((secret, resource.namespace.clone(), name)).or_default().push(writer);
        }
    }

    /// Who writes this key; without a key, any of them.
    pub(super) fn writer(&self, secret: bool, namespace: &str, name: &str, key: Option<&str>) -> Option<&Writer> {
        let writers = self.writers.get(&(secret, namespace.to_owned(), name.to_owned()))?;
        writers.iter().find(|w| key.is_none() || w.key.is_none() || w.key.as_deref() == key)
    }
}

impl Writer {
    /// The value, if it can be told: from the spec, from the id, or from what Azure answered.
    pub(super) fn value(&self, resource: &Resource, id: Option<&ArmId>, live: Option<&Value>) -> Option<String> {
        let status = || live.and_then(|body| Some(resource.version()?.status(body)));
        let at = |value: &Value, path: &str| match value.pointer(&format!("/{}", path.replace('.', "/"))) {
            Some(Value::String(text)) => Some(text.clone()),
            Some(Value::Number(number)) => Some(number.to_string()),
            _ => None,
        };
        match &self.source {
            Source::Status(path) => at(&status()?, path),
            Source::Subscription => id?.subscription_id().map(str::to_owned),
            Source::Action => None,
            // Only plain paths: there is no CEL here.
            Source::Expression(expression) => match expression.trim().strip_prefix("self.")?.split_once('.')? {
                (_, path) if path.contains(|c: char| !c.is_ascii_alphanumeric() && c != '.') => None,
                ("spec", "azureName") => id.map(|id| id.name().to_owned()),
                ("spec", path) => at(&resource.spec, path),
                ("metadata", "name") => Some(resource.name.clone()),
                ("metadata", "namespace") => Some(resource.namespace.clone()),
                ("status", path) => at(&status()?, path),
                _ => None,
            },
        }
    }
}

fn text(value: &Value, field: &str) -> Option<String> {
    value[field].as_str().map(str::to_owned)
}
