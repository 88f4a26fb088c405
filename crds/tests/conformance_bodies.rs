//! The first PUT of every object in the recorded cases against the body, URL and api-version that the catalog gives for its manifest.

#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a test that reports")]

mod shared;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use flotilla_crds::{ArmId, Catalog, Kind, NameContext, Owner, Resolved, SecretValue, Target, names};
use serde_json::Value;

/// Bodies that need to know what is in Azure, and so are not made from the spec alone: the vault's `createMode` depends on deleted vaults.
const NEED_LIVE_STATE: [&str; 1] = ["Vault"];
const SUBSCRIPTION: &str = "00000000-0000-0000-0000-000000000000";

/// A case: its objects, and its traffic.
struct Case {
    objects: Vec<Value>,
    interactions: Vec<Value>,
}

impl Case {
    fn read(folder: &Path) -> Self {
        let yaml = std::fs::read_to_string(folder.join("manifest.yaml")).unwrap();
        let arm: Value = serde_json::from_slice(&std::fs::read(folder.join("arm.json")).unwrap()).unwrap();
        let objects = serde_saphyr::from_multiple(&yaml).unwrap();
        Self { objects, interactions: arm["interactions"].as_array().unwrap().clone() }
    }

    fn object(&self, group: &str, kind: &str, name: &str) -> Option<&Value> {
        self.objects.iter().find(|o| group_of(o) == group && o["kind"] == kind && o["metadata"]["name"] == name)
    }

    /// The id of an object, from its owners on up.
    fn arm_id(&self, object: &Value) -> Option<ArmId> {
        let kind = kind_of(object)?;
        let spec = &object["spec"];
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
        let context = NameContext { namespace: text("namespace"), name: text("name"), uid: "" };
        let name = kind.arm_name(&context, spec).ok()?;
        let owner = match kind.owner() {
            Owner::None => None,
            Owner::Kind { group, kind } => Some(Target::of_owner(&spec["owner"], Some((&group, &kind)))),
            Owner::Extension => Some(Target::of_owner(&spec["owner"], None)),
        };
        let owner = match owner {
            None => None,
            Some(target) => Some(self.resolve(&target)?),
        };
        kind.arm_id(owner.as_ref(), SUBSCRIPTION, &name).ok()
    }

    fn resolve(&self, target: &Target) -> Option<ArmId> {
        match target {
            Target::ArmId(id) => Some(id.clone()),
            Target::Object { group, kind, name } => self.arm_id(self.object(group, kind, name)?),
            Target::WellKnown(_) | Target::Malformed(_) => None,
        }
    }

    /// A key of a Secret or ConfigMap: of the manifest, or written by another object from its status.
    fn value(&self, kind: &str, name: &str, key: &str) -> Option<String> {
        let map = self.objects.iter().find(|o| o["kind"] == kind && o["metadata"]["name"] == name);
        let of = |field: &str| map.and_then(|m| m[field][key].as_str()).map(str::to_owned);
        of("stringData")
            .or_else(|| if kind == "ConfigMap" { of("data") } else { of("data").map(|d| base64(&d)) })
            .or_else(|| self.exported(name, key))
    }

    fn exported(&self, name: &str, key: &str) -> Option<String> {
        self.objects.iter().find_map(|object| {
            let kind = kind_of(object)?;
            let operator = &object["spec"]["operatorSpec"];
            let has = |to: &Value| to["name"] == name && to["key"] == key;
            // Recordings have this text in place of every key.
            if operator["secrets"].as_object().is_some_and(|s| s.values().any(has)) {
                return Some("{KEY}".to_owned());
            }
            if let Some(expression) =
                operator["configMapExpressions"].as_array().and_then(|e| e.iter().find(|e| has(e)))
            {
                assert_eq!(expression["value"], "self.spec.azureName", "the test knows no other expression");
                return self.arm_id(object).map(|id| id.name().to_owned());
            }
            let exports = object["spec"]["operatorSpec"]["configMaps"].as_object()?;
            let (export, _) = exports.iter().find(|(_, to)| to["name"] == name && to["key"] == key)?;
            let source = &kind.entry().exports.iter().find(|e| !e.secret && e.name == *export)?.source;
            let id = self.arm_id(object)?;
            let of_id = |i: &&Value| {
                is_url_of(i["url"].as_str().unwrap(), &id)
                    && i["response_body"].is_object()
                    && i["status"].as_u64() < Some(300)
            };
            let body = &self.interactions.iter().rfind(of_id)?["response_body"];
            let status = kind.version(version_of(object))?.status(body);
            let path = format!("/{}", source.strip_prefix("status:")?.replace('.', "/"));
            status.pointer(&path)?.as_str().map(str::to_owned)
        })
    }
}

fn base64(text: &str) -> String {
    let value = |c: u8| match c {
        b'A'..=b'Z' => c - b'A',
        b'a'..=b'z' => c - b'a' + 26,
        b'0'..=b'9' => c - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let bits: Vec<u8> =
        text.bytes().filter(|c| *c != b'=').flat_map(|c| (0..6).rev().map(move |i| value(c) >> i & 1)).collect();
    String::from_utf8(bits.chunks_exact(8).map(|b| b.iter().fold(0, |n, bit| n << 1 | bit)).collect()).unwrap()
}

fn group_of(object: &Value) -> &str {
    object["apiVersion"].as_str().unwrap().split_once('/').map_or("", |(group, _)| group)
}

fn version_of(object: &Value) -> &str {
    object["apiVersion"].as_str().unwrap().rsplit('/').next().unwrap()
}

fn kind_of(object: &Value) -> Option<std::sync::Arc<Kind>> {
    Catalog::embedded().kind(group_of(object), object["kind"].as_str()?)
}

fn is_url_of(url: &str, id: &ArmId) -> bool {
    url.split('?').next().is_some_and(|path| path.eq_ignore_ascii_case(id.as_str()))
}

/// The body for an object and the answers to what it refers to.
fn body(case: &Case, object: &Value, id: &ArmId) -> Result<Value, String> {
    let kind = kind_of(object).unwrap();
    let version = kind.version(version_of(object)).ok_or("no such version")?;
    let spec = object.get("spec").cloned().unwrap_or_else(|| Value::Object(serde_json::Map::new()));
    let inputs = version.inputs(&spec);
    let mut resolved = Resolved::default();
    for reference in inputs.references {
        match &reference.target {
            Target::WellKnown(name) => drop(resolved.well_known.insert(reference.path, name.clone())),
            target => {
                let id =
                    case.resolve(target).ok_or_else(|| format!("{}: nothing to resolve {target:?}", reference.path))?;
                resolved.references.insert(reference.path, id);
            }
        }
    }
    for input in inputs.secrets {
        match &input.key {
            Some(key) => {
                let value =
                    case.value("Secret", &input.name, key).ok_or_else(|| format!("{}: no secret", input.path))?;
                resolved.secrets.insert(input.path, SecretValue::new(value));
            }
            None => drop(resolved.secret_maps.insert(input.path, BTreeMap::new())),
        }
    }
    for input in inputs.config_maps {
        let value = case.value("ConfigMap", &input.name, input.key.as_deref().unwrap_or_default());
        resolved.config.insert(input.path.clone(), value.ok_or_else(|| format!("{}: no config map", input.path))?);
    }
    let body = version.put_body(&spec, id.name(), &resolved).map_err(|e| e.to_string())?;
    version.validate_body(&body).map_err(|v| format!("does not validate: {v:?}"))?;
    Ok(body)
}

#[test]
fn first_put_bodies_are_those_recorded() {
    let Some(shared) = shared::folder() else { return };
    let wanted = std::env::var("FLOTILLA_PARITY_GROUPS").unwrap_or_else(|_| "*".to_owned());
    let wanted: BTreeSet<&str> = wanted.split(',').collect();
    let (mut equal, mut live, mut wrong) = (0, 0, Vec::new());
    let mut folders: Vec<_> =
        std::fs::read_dir(shared.join("parity/conformance/cases")).unwrap().map(|f| f.unwrap().path()).collect();
    folders.sort();
    for folder in folders {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let case = Case::read(&folder);
        let mut seen: Vec<ArmId> = Vec::new();
        for object in
            case.objects.iter().filter(|o| wanted.contains("*") && kind_of(o).is_some() || wanted.contains(group_of(o)))
        {
            let about =
                format!("{name} {}/{}", object["kind"].as_str().unwrap(), object["metadata"]["name"].as_str().unwrap());
            // Some cases have an object that the operator refuses; then there is no PUT either.
            let Some(id) = case.arm_id(object) else { continue };
            let first =
                case.interactions.iter().find(|i| i["method"] == "PUT" && is_url_of(i["url"].as_str().unwrap(), &id));
            let Some(first) = first else { continue };
            if seen.contains(&id) {
                continue;
            }
            let api_version = names::api_version(version_of(object)).unwrap();
            if !first["url"].as_str().unwrap().ends_with(&format!("api-version={api_version}")) {
                wrong.push(format!("{about}: api-version {api_version}, but {}", first["url"]));
            }
            match body(&case, object, &id) {
                Ok(body) if body == first["request_body"] => equal += 1,
                Ok(_) if NEED_LIVE_STATE.contains(&object["kind"].as_str().unwrap()) => live += 1,
                Ok(body) => wrong.push(format!("{about}\n  ours     {body}\n  recorded {}", first["request_body"])),
                Err(error) => wrong.push(format!("{about}: {error}")),
            }
            seen.push(id);
        }
    }
    println!("{equal} bodies are equal, {live} need live state, {} are not equal", wrong.len());
    for line in &wrong {
        println!("{line}");
    }
    assert!(equal > 0, "nothing was compared");
    assert!(wrong.is_empty(), "{} bodies differ", wrong.len());
}
