//! The `CustomResourceDefinition` of a kind: one structural schema for all its versions.
//!
//! The API server prunes by the schema of the version that a request uses, so a version that lacked a property would lose it. Every version therefore
//! has the union of all versions' properties; what one version refuses is said with value validation (`required`, `enum`, bounds) and one rule
//! per property that it does not have. `docs/decisions/003` has the reasons.
//!
//! Kept true here: the structural part (types, properties, items) of all API versions of a kind is the same, bit for bit. The storage version, through
//! which no client writes a spec, keeps whatever a spec has.

mod describe;
mod emit;
mod rules;
mod schema;
mod spec;

use flotilla_names::{APP, APP_LABEL};
use serde_json::{Value, json};

use crate::kind::{Kind, Version};
use crate::manager::Manager;
use schema::Schema;

impl Kind {
    /// The whole CRD: every served version, the storage version last.
    pub fn crd(&self) -> Value {
        let all: Vec<&str> = self.versions().iter().map(Version::name).collect();
        self.crd_with(&all)
    }

    /// The CRD with these versions only; they may be ones that are not served by default. The schema is the union over these and all default versions,
    /// so that nothing stored is lost.
    pub fn crd_with(&self, served: &[&str]) -> Value {
        let entry = self.entry();
        let is_default = |name: &str| self.versions().iter().any(|v| v.name() == name);
        let others = served.iter().filter(|name| !is_default(name)).filter_map(|name| self.version(name));
        let known: Vec<&Version> = self.versions().iter().chain(others).collect();
        let specs: Vec<Schema> = known.iter().map(|v| spec::spec(v)).collect();
        let statuses: Vec<Schema> = known.iter().map(|v| spec::status(v)).collect();
        let mut spec = schema::union(&specs);
        if entry.manager.is_arm() {
            add_storage_fields(&mut spec);
        }
        let status = schema::union(&statuses);
        if specs.len() > 1 {
            // Only where versions differ is there anything to forgive; and following costs the API server memory.
            spec = spec.followed();
        }
        let having: Vec<(&str, &Schema)> = known.iter().map(|v| v.name()).zip(&specs).collect();
        let mut versions = Vec::new();
        let stored = entry.storage_version();
        let wanted = |name: &str| served.contains(&name) || name == stored;
        let preferred = describe::preferred(served.iter().copied().chain([stored.as_str()]));
        for (i, version) in known.iter().enumerate().filter(|(_, v)| wanted(v.name())) {
            let advice = rules::Advice {
                version: version.name(),
                plural: &entry.plural,
                group: &entry.group,
                versions: &having,
            };
            let spec = emit::demanding(&spec, &specs[i], Some(&advice));
            // A status may have what another version's has, so nothing is refused in it.
            let status = emit::demanding(&status, &statuses[i], None);
            let mut object = version_object(version.name(), version.name() == stored, &spec, &status);
            let whole = &mut object["schema"]["openAPIV3Schema"];
            if version.is_named_by_alternative() {
                rules::keep_alternative(&mut whole["properties"]["spec"], version.spec());
            }
            let newer = known.iter().find(|v| {
                v.name().strip_prefix('v') == version.name().strip_prefix("v1api") && served.contains(&v.name())
            });
            describe::version(whole, version, newer.map(|v| v.name()));
            if preferred == Some(version.name()) {
                describe::fields(whole, version, &self.owner());
            }
            versions.push(object);
        }
        if !known.iter().any(|version| version.name() == stored) {
            versions.push(version_object(&stored, true, &keeps_everything(), &emit::plain(&status)));
        }
        // A category is a DNS label, so `network.frontdoor` loses its dot.
        let short = entry.group.strip_suffix(".azure.com").unwrap_or(&entry.group).replace('.', "");
        let mut categories = vec!["azure", &short];
        if entry.manager == Manager::Entra {
            categories.push("aad");
        }
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": entry.crd_name(), "labels": {APP_LABEL: APP}},
            "spec": {
                "group": entry.group,
                "names": {
                    "categories": categories,
                    "kind": entry.kind,
                    "listKind": format!("{}List", entry.kind),
                    "plural": entry.plural,
                    "singular": entry.kind.to_lowercase(),
                },
                "scope": "Namespaced",
                "conversion": {"strategy": "None"},
                "versions": versions,
            },
        })
    }

    /// The schema of a version's spec as that version alone would have it: what it accepts.
    pub fn own_spec_schema(&self, version: &str) -> Option<Value> {
        self.version(version).map(|v| emit::own(&spec::spec(v)))
    }

    /// The schema of a version's status as that version alone would have it: what it writes.
    pub fn own_status_schema(&self, version: &str) -> Option<Value> {
        self.version(version).map(|v| emit::own(&spec::status(v)))
    }
}

/// What ASO's storage versions hold beside the fields of the hub; kept so that objects it stored are read and written unchanged.
fn add_storage_fields(spec: &mut Schema) {
    spec.property("originalVersion", Schema::string());
    spec.property("$propertyBag", Schema::map(Schema::string()));
}

/// The spec in the storage version. Nothing is pruned from it, so it loses nothing, and it takes a tenth less of the API server's memory than the union.
fn keeps_everything() -> Value {
    json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

fn version_object(name: &str, storage: bool, spec: &Value, status: &Value) -> Value {
    let ready = |field: &str| format!(".status.conditions[?(@.type=='Ready')].{field}");
    let column = |name: &str, field: &str| json!({"name": name, "type": "string", "jsonPath": ready(field)});
    json!({
        "name": name,
        "served": true,
        "storage": storage,
        "schema": {"openAPIV3Schema": {
            "type": "object",
            "properties": {
                "apiVersion": {"type": "string"},
                "kind": {"type": "string"},
                "metadata": {"type": "object"},
                "spec": spec,
                "status": status,
            },
        }},
        "subresources": {"status": {}},
        "additionalPrinterColumns": [
            column("Ready", "status"),
            column("Severity", "severity"),
            column("Reason", "reason"),
            column("Message", "message"),
        ],
    })
}
