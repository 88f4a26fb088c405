//! The objects that manifests hold: resources of Azure, and the Secrets, ConfigMaps and Namespaces that they use.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use flotilla_crds::{Catalog, Kind, Version};
use flotilla_proto::names::RECONCILE_POLICY;
use k8s_openapi::ByteString;
use serde_json::Value;

use super::input::Source;
use super::metadata;
use super::problem::{Place, Problem};
use super::yaml::{self, Content, Node};
use crate::suggest::{LISTED, listed, nearest};

const TOP_LEVEL: [&str; 5] = ["apiVersion", "kind", "metadata", "spec", "status"];
/// An object that is a resource of Azure.
#[derive(Clone, Debug)]
pub struct Resource {
    /// The file it is from.
    pub file: Arc<str>,
    /// The whole object, with places.
    pub node: Node,
    /// Its kind.
    pub kind: Arc<Kind>,
    /// Name of the version it is written in.
    pub version: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its spec.
    pub spec: Value,
    /// What its annotation, or that of its Namespace, says about reconciling.
    pub policy: Option<String>,
}

/// Namespace and name of a Secret or ConfigMap.
pub(crate) type Name = (String, String);

/// Everything that some manifests hold.
#[derive(Debug, Default)]
pub struct Manifests {
    /// Azure's resources, in the order of the input.
    pub resources: Vec<Resource>,
    /// Texts in Secrets.
    pub secrets: HashMap<Name, BTreeMap<String, String>>,
    /// Texts in ConfigMaps.
    pub config_maps: HashMap<Name, BTreeMap<String, String>>,
    /// The first resource with a group, kind, namespace and name.
    index: HashMap<[String; 4], usize>,
    policies: HashMap<String, String>,
    namespaces: usize,
    skipped: BTreeMap<(String, String), (usize, Place)>,
}

impl Resource {
    /// The version it is written in.
    pub fn version(&self) -> Option<&Version> {
        self.kind.version(&self.version)
    }

    /// `Kind/namespace/name`.
    pub fn label(&self) -> String {
        format!("{}/{}/{}", self.kind.name(), self.namespace, self.name)
    }

    /// The place of one of its fields.
    pub fn place(&self, path: &str) -> Place {
        let (line, column) = self.node.locate(path);
        Place { file: Arc::clone(&self.file), line, column }
    }

    /// An error in one of its fields.
    pub fn error(&self, path: &str, message: impl Into<String>) -> Problem {
        let message: String = message.into();
        // Some errors begin with the field, which is printed before them.
        let message = message.strip_prefix(path).map_or(message.as_str(), str::trim_start);
        Problem::error(self.place(path), message).of(self.label()).at(path)
    }

    /// Whether the operator only reads and never writes.
    pub fn is_skipped(&self) -> bool {
        self.policy.as_deref() == Some("skip")
    }
}

impl Manifests {
    /// Reads texts. Objects without a namespace are in `namespace`.
    pub fn read(sources: &[Source], namespace: &str, problems: &mut Vec<Problem>) -> Self {
        let mut manifests = Self::default();
        for source in sources {
            let (documents, unreadable) = yaml::parse(&source.file, &source.text);
            problems.extend(unreadable);
            for document in documents {
                manifests.document(&source.file, document, namespace, problems);
            }
        }
        for resource in &mut manifests.resources {
            let own = resource.node.get("metadata").and_then(|m| m.get("annotations")?.get(RECONCILE_POLICY)?.as_str());
            resource.policy = own.map(str::to_owned).or_else(|| manifests.policies.get(&resource.namespace).cloned());
        }
        for (i, r) in manifests.resources.iter().enumerate() {
            let key = [r.kind.group(), r.kind.name(), &r.namespace, &r.name].map(str::to_owned);
            manifests.index.entry(key).or_insert(i);
        }
        for ((api_version, kind), (count, place)) in std::mem::take(&mut manifests.skipped) {
            let what = if count == 1 { kind } else { format!("{count} objects of kind {kind}") };
            problems
                .push(Problem::error(place, format!("skipped {what} ({api_version}): not a resource of ARM")).note());
        }
        problems.extend(manifests.repeated());
        manifests
    }

    /// Whether there is no object at all.
    pub fn is_empty(&self) -> bool {
        self.resources.is_empty() && self.secrets.is_empty() && self.config_maps.is_empty() && self.namespaces == 0
    }

    /// The resource with this name.
    pub fn find(&self, group: &str, kind: &str, namespace: &str, name: &str) -> Option<usize> {
        self.index.get(&[group, kind, namespace, name].map(str::to_owned)).copied()
    }

    fn repeated(&self) -> Vec<Problem> {
        let mut seen: HashMap<(&str, String), &Resource> = HashMap::new();
        let mut problems = Vec::new();
        for resource in &self.resources {
            if let Some(first) = seen.insert((resource.kind.group(), resource.label()), resource) {
                let message = format!("the object is also in {}", first.place(""));
                problems.push(Problem::error(resource.place(""), message).of(resource.label()).warning());
            }
        }
        problems
    }

    /// An object, or a list of objects.
    fn document(&mut self, file: &Arc<str>, node: Node, namespace: &str, problems: &mut Vec<Problem>) {
        if is_list(&node)
            && let Content::Map(entries) = node.content
        {
            match entries.into_iter().find(|e| e.key == "items").map(|e| e.value.content) {
                Some(Content::List(items)) => {
                    for item in items {
                        self.document(file, item, namespace, problems);
                    }
                }
                Some(Content::Scalar(Value::Null)) => {}
                _ => problems.push(
                    Problem::error(
                        Place { file: Arc::clone(file), line: node.line, column: node.column },
                        "a List must have a list of items",
                    )
                    .at("items"),
                ),
            }
            return;
        }
        if !node.is_null()
            && let Err(problem) = self.object(file, node, namespace, problems)
        {
            problems.push(problem);
        }
    }

    fn object(
        &mut self,
        file: &Arc<str>,
        node: Node,
        namespace: &str,
        problems: &mut Vec<Problem>,
    ) -> Result<(), Problem> {
        let place = |path: &str| {
            let (line, column) = node.locate(path);
            Place { file: Arc::clone(file), line, column }
        };
        if !matches!(node.content, Content::Map(_)) {
            return Err(Problem::error(place(""), "a manifest must be a map with apiVersion, kind and metadata"));
        }
        let top = |field: &str| {
            let value = node.get(field).filter(|value| !value.is_null());
            match value.map(|value| (value, value.as_str())) {
                Some((_, Some(text))) if !text.is_empty() => Ok(text.to_owned()),
                Some((value, None)) => {
                    let message = format!("must be a string, not {}", metadata::found(value));
                    Err(Problem::error(place(field), message).at(field))
                }
                _ => {
                    let near = entry_names(&node).find(|key| nearest(key, [field]).is_some() && *key != field);
                    Err(Problem::error(place(field), format!("{field} is missing")).meant(near.map(|_| field)))
                }
            }
        };
        let (api_version, kind) = (top("apiVersion")?, top("kind")?);
        for field in ["name", "namespace"] {
            let value = node.get("metadata").and_then(|m| m.get(field));
            if let Some(value) = value.filter(|value| value.as_str().is_none() && !value.is_null()) {
                let path = format!("metadata.{field}");
                let problem = Problem::error(place(&path), format!("must be a string, not {}", metadata::found(value)));
                let is_scalar = matches!(value.content, Content::Scalar(_));
                let problem = if is_scalar { problem.help("write it in quotes") } else { problem };
                return Err(problem.of(&kind).at(path));
            }
        }
        let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
        if group.is_empty() && version.contains('.') {
            let message = format!("{api_version:?} has no version; expected group/version");
            return Err(Problem::error(place("apiVersion"), message).of(&kind).at("apiVersion"));
        }
        let metadata = node.get("metadata");
        let text = |field: &str| metadata.and_then(|m| m.get(field)?.as_str()).filter(|text| !text.is_empty());
        let name = text("name").unwrap_or_default().to_owned();
        let own_namespace = text("namespace").unwrap_or(namespace).to_owned();
        match (group, kind.as_str()) {
            ("", "Secret") => drop(self.secrets.insert((own_namespace, name), secret(&node, &place, problems))),
            ("", "ConfigMap") => drop(self.config_maps.insert((own_namespace, name), texts(node.get("data")))),
            ("", "Namespace") => {
                self.namespaces += 1;
                if let Some(policy) = metadata.and_then(|m| m.get("annotations")?.get(RECONCILE_POLICY)?.as_str()) {
                    self.policies.insert(name, policy.to_owned());
                }
            }
            _ if !is_azure(group) => {
                self.skip(api_version.clone(), kind, place(""));
            }
            _ => {
                let label = format!("{kind}/{own_namespace}/{name}");
                let Some(known) = known(group, &kind, &label, &place)? else {
                    self.skip(api_version.clone(), kind, place(""));
                    return Ok(());
                };
                if known.version(version).is_none() {
                    return Err(unknown_version(&known, version, &label, place("apiVersion")));
                }
                let wrong = metadata.map(|metadata| metadata::check(file, metadata, &label)).unwrap_or_default();
                let is_map = metadata.is_none_or(|metadata| matches!(metadata.content, Content::Map(_)));
                problems.extend(wrong);
                if name.is_empty() && is_map {
                    return Err(Problem::error(place("metadata"), "metadata.name is missing").of(label));
                }
                if name.is_empty() {
                    return Ok(());
                }
                problems.extend(unknown_fields(&node, &TOP_LEVEL, &label, file));
                let spec = node.get("spec").filter(|spec| !spec.is_null());
                let spec = spec.map_or_else(|| Value::Object(serde_json::Map::new()), Node::to_value);
                let (kind, version, file) = (known, version.to_owned(), Arc::clone(file));
                let resource =
                    Resource { file, node, kind, version, namespace: own_namespace, name, spec, policy: None };
                self.resources.push(resource);
            }
        }
        Ok(())
    }

    fn skip(&mut self, api_version: String, kind: String, place: Place) {
        self.skipped.entry((api_version, kind)).or_insert((0, place)).0 += 1;
    }
}

/// Whether an object is one of kubectl's lists. A kind may be called List too, as a list of addresses.
fn is_list(node: &Node) -> bool {
    let text = |field: &str| node.get(field).and_then(Node::as_str).unwrap_or_default();
    let has_items = || node.get("items").is_some_and(|items| matches!(items.content, Content::List(_)));
    match (text("apiVersion"), text("kind")) {
        ("v1", "List") => true,
        (_, kind) => kind.ends_with("List") && node.get("spec").is_none() && has_items(),
    }
}

/// Whether a group is one of Azure's, or was probably meant to be.
fn is_azure(group: &str) -> bool {
    let lower = group.to_ascii_lowercase();
    let mut labels = lower.rsplitn(3, '.');
    let (last, domain) = (labels.next().unwrap_or_default(), labels.next().unwrap_or_default());
    // Two wrong letters, and not more: acme.com is three away.
    labels.next().is_some()
        && last.len() + domain.len() < 12
        && strsim::damerau_levenshtein(&format!("{domain}.{last}"), "azure.com") <= 2
}

fn entry_names(node: &Node) -> impl Iterator<Item = &str> {
    let entries = match &node.content {
        Content::Map(entries) => entries.as_slice(),
        _ => &[],
    };
    entries.iter().map(|e| e.key.as_str())
}

fn unknown_fields(node: &Node, known: &[&str], label: &str, file: &Arc<str>) -> Vec<Problem> {
    let Content::Map(entries) = &node.content else { return Vec::new() };
    let unknown = entries.iter().filter(|e| !known.contains(&e.key.as_str()));
    let problem = |e: &yaml::Entry| {
        let place = Place { file: Arc::clone(file), line: e.line, column: e.column };
        Problem::error(place, "no such field")
            .of(label)
            .at(e.key.as_str())
            .meant(nearest(&e.key, known.iter().copied()))
    };
    unknown.map(problem).collect()
}

/// The kind; None if the group does not belong to Azure.
fn known(group: &str, kind: &str, label: &str, place: &impl Fn(&str) -> Place) -> Result<Option<Arc<Kind>>, Problem> {
    let catalog = Catalog::embedded();
    if let Some(known) = catalog.kind(group, kind) {
        return Ok(Some(known));
    }
    let in_group: Vec<&str> = catalog.kinds().filter(|e| e.group == group).map(|e| e.kind.as_str()).collect();
    if !in_group.is_empty() {
        let elsewhere = catalog.kinds().find(|e| e.kind == kind);
        let problem = Problem::error(place("kind"), format!("{group} has no kind {kind}")).of(label);
        return Err(match (nearest(kind, in_group.iter().copied()), elsewhere) {
            (None, Some(other)) => problem.help(format!("{kind} is in {}", other.group)),
            (Some(near), _) => problem.meant(Some(near)),
            (None, None) if in_group.len() <= LISTED => problem.help(format!("it has {}", listed(&in_group, "and"))),
            (None, None) => problem.help(format!("`flotilla crds list {group}` shows its kinds")),
        });
    }
    let groups: BTreeSet<&str> = catalog.kinds().map(|e| e.group.as_str()).collect();
    match nearest(group, groups) {
        None => Ok(None),
        near => Err(Problem::error(place("apiVersion"), format!("no API group {group}")).of(label).meant(near)),
    }
}

fn unknown_version(kind: &Kind, version: &str, label: &str, place: Place) -> Problem {
    let versions: Vec<&str> = kind.versions().iter().map(Version::name).collect();
    let others = kind.other_versions().map(|(name, _)| name);
    let near = nearest(version, versions.iter().copied().chain(others));
    let message = format!("{} has no version {version}", kind.name());
    let help = format!("it has {}", listed(&versions, "and"));
    let help = near.map_or(help.clone(), |near| format!("did you mean {near:?}? {help}"));
    Problem::error(place, message).of(label).at("apiVersion").help(help)
}

/// Values that are texts.
fn texts(data: Option<&Node>) -> BTreeMap<String, String> {
    let Some(Content::Map(entries)) = data.map(|d| &d.content) else { return BTreeMap::new() };
    entries.iter().filter_map(|e| Some((e.key.clone(), e.value.as_str()?.to_owned()))).collect()
}

/// The texts of a Secret: `stringData` as it is and before `data`, which is base64.
fn secret(node: &Node, place: &impl Fn(&str) -> Place, problems: &mut Vec<Problem>) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for (key, encoded) in texts(node.get("data")) {
        let decoded = serde_json::from_value::<ByteString>(Value::String(encoded)).ok();
        match decoded.map(|bytes| String::from_utf8(bytes.0)) {
            Some(Ok(text)) => drop(all.insert(key, text)),
            Some(Err(_)) => {}
            None => {
                let path = format!("data.{key}");
                problems
                    .push(Problem::error(place(&path), "not base64").at(path).help("plain text goes into stringData"));
            }
        }
    }
    all.extend(texts(node.get("stringData")));
    all
}
