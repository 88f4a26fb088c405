//! From manifests to requests.
//!
//! *Flow*: [`Planner::order`] says in which order; [`Planner::request`], called in that order, makes each request from what is known by then;
//! whoever can ask Azure tells the answer with [`Planner::observe`], and later requests know more. No I/O.
//!
//! Kept true here: what can't be known yet is [`UNKNOWN`] and nothing is made up; a request is the one that a worker would send.

use std::collections::{BTreeMap, HashMap};

use flotilla_crds::body::KeyInput;
use flotilla_crds::{ArmId, Catalog, NameContext, Owner, Resolved, SecretValue, Target, Version};
use serde_json::Value;

use super::exports::Exports;
use super::manifest::{Manifests, Resource};
use super::order::{self, Edge, Order};
use super::problem::Problem;
use crate::suggest::nearest;

/// Stands for what can't be known before the manifests are applied.
pub const UNKNOWN: &str = "<known after apply>";
/// Stands for the values of Secrets where people look.
pub const HIDDEN: &str = "<secret>";

/// A request to ARM.
#[derive(Clone, Debug)]
pub struct Request {
    /// Index of the resource.
    pub resource: usize,
    /// `Kind/namespace/name`.
    pub object: String,
    /// The method: PUT, or GET where the operator may not write.
    pub method: &'static str,
    /// What it is about.
    pub id: ArmId,
    /// The version of ARM's API.
    pub api_version: String,
    /// The body; null for a GET.
    pub body: Value,
    /// The body for people: values of Secrets are hidden.
    pub shown: Value,
    /// Index of the owner among the resources.
    pub owner: Option<usize>,
    /// Resources that must be there first, less the owner, and the fields that say so.
    pub after: Vec<Edge>,
}

/// Makes requests.
#[derive(Debug)]
pub struct Planner<'a> {
    manifests: &'a Manifests,
    subscription: String,
    exports: Exports,
    /// Ids of the resources asked about so far.
    ids: Vec<Option<ArmId>>,
    /// Resources by id in lower case, for what names them by id.
    by_id: HashMap<String, usize>,
    /// The first resource that asked for an id, in lower case.
    first: HashMap<String, usize>,
    live: HashMap<usize, Value>,
}

impl Request {
    /// Path and query.
    pub fn url(&self) -> String {
        format!("{}?api-version={}", self.id, self.api_version)
    }

    /// Takes over what the operator reads before it writes: lists of children, which a PUT without them would delete.
    pub fn keep_children(&mut self, version: &Version, live: &Value) {
        if self.method == "PUT" {
            version.keep_children(&mut self.body, live);
            version.keep_children(&mut self.shown, live);
        }
    }

    /// Whether its path has parts that are not known yet.
    pub fn is_unknown(&self) -> bool {
        self.id.as_str().contains(UNKNOWN)
    }
}

impl<'a> Planner<'a> {
    /// A planner for manifests whose resources go to `subscription`.
    pub fn new(manifests: &'a Manifests, subscription: &str) -> Self {
        let ids = manifests.resources.iter().map(|_| None).collect();
        let exports = Exports::of(manifests);
        Self {
            manifests,
            subscription: subscription.to_owned(),
            exports,
            ids,
            by_id: HashMap::new(),
            first: HashMap::new(),
            live: HashMap::new(),
        }
    }

    /// The order in which resources can be made.
    ///
    /// A resource that is named by its id and is among the manifests comes first too. Nobody waits for such a resource, so where that would make a
    /// ring it is not asked for.
    pub fn order(&mut self) -> Order {
        let resources = &self.manifests.resources;
        let order = |planner: &Self| order::order(&resources.iter().map(|r| planner.needs(r)).collect::<Vec<_>>());
        let by_name = order(self);
        for &index in &by_name.sequence {
            self.ids[index] = self.id(&resources[index], &mut Vec::new()).ok();
        }
        for (index, id) in self.ids.iter().enumerate() {
            if let Some(id) = id.as_ref().filter(|id| !id.as_str().contains(UNKNOWN)) {
                self.by_id.entry(id.as_str().to_lowercase()).or_insert(index);
            }
        }
        let by_both = order(self);
        if by_both.sequence.len() == by_name.sequence.len() {
            return by_both;
        }
        self.by_id.clear();
        by_name
    }

    /// Tells what Azure answered about a resource.
    pub fn observe(&mut self, resource: usize, body: Value) {
        self.live.insert(resource, body);
    }

    /// The request for a resource, and what is to be said about it. There is none if there is an error.
    pub fn request(&mut self, index: usize) -> (Option<Request>, Vec<Problem>) {
        let manifests = self.manifests;
        let resource = &manifests.resources[index];
        let mut problems = Vec::new();
        let entry = resource.kind.entry();
        if !entry.manager.is_arm() {
            let message =
                format!("{} objects belong to {} and make no request to ARM", entry.kind, entry.manager.noun());
            problems.push(Problem::error(resource.place("kind"), message).of(resource.label()).note());
            return (None, problems);
        }
        let id = match self.id(resource, &mut problems) {
            Ok(id) => id,
            Err(problem) => {
                problems.push(*problem);
                return (None, problems);
            }
        };
        self.ids[index] = Some(id.clone());
        problems.extend(self.same_id(index, &id));
        let Some(version) = resource.version() else { return (None, problems) };
        let mut bodies = [Value::Null, Value::Null];
        if !resource.is_skipped() {
            let spec = &resource.spec;
            let mut resolved = self.resolve(resource, &mut problems);
            let body = version.put_body(spec, id.name(), &resolved);
            hide(&mut resolved);
            match (body, version.put_body(spec, id.name(), &resolved)) {
                (Ok(body), Ok(shown)) => bodies = [body, shown].map(|body| with_live_choices(resource, body)),
                (Err(error), _) | (_, Err(error)) => {
                    problems.push(resource.error(error.path(), error.to_string()));
                    return (None, problems);
                }
            }
            let open = bodies[0].to_string().contains(UNKNOWN);
            if let Some(violations) = version.validate_body(&bodies[0]).err().filter(|_| !open) {
                let told = violations.into_iter().map(|v| {
                    let message = format!("Azure may refuse the request: {} {}", v.path, v.problem);
                    Problem::error(resource.place("spec"), message).of(resource.label()).warning()
                });
                problems.extend(told);
            }
        }
        if problems.iter().any(|p| p.severity == super::problem::Severity::Error) {
            return (None, problems);
        }
        let [body, shown] = bodies;
        let needs = self.needs(resource);
        let is_owner = |edge: &Edge| edge.field == "spec.owner";
        let request = Request {
            resource: index,
            object: resource.label(),
            method: if resource.is_skipped() { "GET" } else { "PUT" },
            id,
            api_version: version.api_version().to_owned(),
            body,
            shown,
            owner: needs.iter().find(|e| is_owner(e)).map(|e| e.to),
            after: needs.into_iter().filter(|e| !is_owner(e)).collect(),
        };
        (Some(request), problems)
    }

    /// What must be there before a resource.
    fn needs(&self, resource: &Resource) -> Vec<Edge> {
        let mut needs = Vec::new();
        let mut need = |to: Option<usize>, field: &str| {
            needs.extend(to.map(|to| Edge { to, field: field.to_owned() }));
        };
        let object = |target: &Target| match target {
            Target::Object { group, kind, name } => self.manifests.find(group, kind, &resource.namespace, name),
            Target::ArmId(id) => self.by_id.get(&id.as_str().to_lowercase()).copied(),
            Target::WellKnown(_) | Target::Malformed(_) => None,
        };
        need(owner(resource).as_ref().and_then(object), "spec.owner");
        let Some(version) = resource.version().filter(|_| !resource.is_skipped()) else { return needs };
        let inputs = version.inputs(&resource.spec);
        for reference in &inputs.references {
            need(object(&reference.target), &reference.path);
        }
        for (secret, given, inputs) in [
            (true, &self.manifests.secrets, &inputs.secrets),
            (false, &self.manifests.config_maps, &inputs.config_maps),
        ] {
            for input in inputs {
                let at = (resource.namespace.clone(), input.name.clone());
                let has = |values: &BTreeMap<_, _>| input.key.as_ref().is_none_or(|key| values.contains_key(key));
                if given.get(&at).is_none_or(|values| !has(values)) {
                    let key = input.key.as_deref();
                    let writer = self.exports.writer(secret, &resource.namespace, &input.name, key);
                    need(writer.map(|w| w.resource), &input.path);
                }
            }
        }
        needs
    }

    fn id(&self, resource: &Resource, problems: &mut Vec<Problem>) -> Result<ArmId, Box<Problem>> {
        let kind = &resource.kind;
        let refuse = |field: &str, message: String| Box::new(resource.error(field, message));
        if !kind.entry().manager.is_arm() {
            return Err(refuse("kind", format!("{} objects have no ARM id", kind.name())));
        }
        let mut owner_type = None;
        let owner = match owner(resource) {
            None => None,
            Some(Target::ArmId(id)) => {
                kind.check_owner(&id).map_err(|error| refuse("spec.owner.armId", error.to_string()))?;
                Some(id)
            }
            Some(target @ (Target::WellKnown(_) | Target::Malformed(_))) => {
                let why = match target {
                    Target::Malformed(why) => why,
                    _ => "a well-known name can't own anything".to_owned(),
                };
                return Err(refuse("spec.owner", why));
            }
            Some(Target::Object { group, kind, .. }) if !keeps_arm_resources(&group, &kind) => {
                return Err(refuse("spec.owner", format!("{kind} objects have no ARM id, so they can't own anything")));
            }
            Some(Target::Object { group, kind, name }) => {
                owner_type = Catalog::embedded().entry(&group, &kind).map(|entry| entry.arm_type.as_str());
                Some(self.object(resource, "spec.owner", &group, &kind, &name, problems)?)
            }
        };
        let name = self.name(resource)?;
        let id = kind.arm_id_below(owner.as_ref(), owner_type, &self.subscription, &name);
        id.map_err(|e| refuse("spec.owner", e.to_string()))
    }

    /// Tells of another object that is the same resource: both would write it in turn.
    fn same_id(&mut self, index: usize, id: &ArmId) -> Option<Problem> {
        let resource = &self.manifests.resources[index];
        if resource.is_skipped() || id.as_str().contains(UNKNOWN) {
            return None;
        }
        let first = *self.first.entry(id.as_str().to_lowercase()).or_insert(index);
        let other = self.manifests.resources[first].label();
        let message = format!("it is the same resource in Azure as {other}: {id}");
        let problem = resource.error("spec", message).help("give one of them another azureName or owner").warning();
        (other != resource.label()).then_some(problem)
    }

    fn name(&self, resource: &Resource) -> Result<String, Box<Problem>> {
        let mut spec = resource.spec.clone();
        let random = spec.pointer("/operatorSpec/namingConvention").and_then(Value::as_str) == Some("random");
        let stated = spec["azureName"].as_str().is_some_and(|name| !name.is_empty());
        if random && !stated {
            return Ok(UNKNOWN.to_owned());
        }
        let from = &spec["azureNameFromConfig"];
        if let (false, Some(name), Some(key)) = (stated, from["name"].as_str(), from["key"].as_str()) {
            let input = KeyInput { path: String::new(), name: name.to_owned(), key: Some(key.to_owned()) };
            let value = self.value(resource, false, &input).unwrap_or_else(|| UNKNOWN.to_owned());
            spec["azureName"] = value.into();
        }
        let context = NameContext { namespace: &resource.namespace, name: &resource.name, uid: "" };
        let name = resource.kind.arm_name(&context, &spec);
        name.map_err(|error| Box::new(resource.error("spec.azureName", error.to_string())))
    }

    /// The id of another object, as far as it is known.
    fn object(
        &self,
        resource: &Resource,
        field: &str,
        group: &str,
        kind: &str,
        name: &str,
        problems: &mut Vec<Problem>,
    ) -> Result<ArmId, Box<Problem>> {
        let index = self.manifests.find(group, kind, &resource.namespace, name);
        if let Some(id) = index.and_then(|index| self.ids[index].clone()) {
            return Ok(id);
        }
        if Catalog::embedded().entry(group, kind).is_none() {
            let mut kinds = Catalog::embedded().kinds();
            let in_group: Vec<&str> = kinds.clone().filter(|e| e.group == group).map(|e| e.kind.as_str()).collect();
            let near = nearest(kind, in_group.iter().copied()).map(str::to_owned);
            let other = kinds.find(|e| e.kind == kind).map(|e| e.group.clone());
            let problem = resource.error(field, format!("no kind {kind} in {group:?}"));
            return Err(Box::new(problem.meant(near.or(other).as_deref())));
        }
        if index.is_none() {
            let same = |r: &&Resource| r.kind.group() == group && r.kind.name() == kind;
            let others = || self.manifests.resources.iter().filter(same);
            let near = nearest(name, others().filter(|r| r.namespace == resource.namespace).map(|r| r.name.as_str()));
            let elsewhere = others().find(|r| r.name == name).map(|r| r.namespace.as_str());
            let message =
                format!("{kind}/{}/{name} is not among the manifests, so its id is not known", resource.namespace);
            let problem = resource.error(field, message).warning();
            problems.push(match (near, elsewhere) {
                (_, Some(namespace)) => {
                    problem.help(format!("references stay in their namespace, but it is in {namespace}"))
                }
                (near, None) => problem.meant(near),
            });
        }
        Ok(self.unknown(group, kind, 0))
    }

    /// The id of an object of which nothing but the kind is known.
    fn unknown(&self, group: &str, kind: &str, depth: usize) -> ArmId {
        let nowhere = || ArmId::subscription(UNKNOWN);
        let Some(kind) =
            Catalog::embedded().kind(group, kind).filter(|kind| depth < 8 && kind.entry().manager.is_arm())
        else {
            return nowhere();
        };
        let owner = match kind.owner() {
            Owner::None => None,
            Owner::Kind { group, kind } => Some(self.unknown(&group, &kind, depth + 1)),
            Owner::Extension | Owner::Resource { .. } => Some(nowhere()),
        };
        kind.arm_id(owner.as_ref(), &self.subscription, UNKNOWN).unwrap_or_else(|_| nowhere())
    }

    /// Looks up everything that a spec names elsewhere.
    fn resolve(&self, resource: &Resource, problems: &mut Vec<Problem>) -> Resolved {
        let mut resolved = Resolved::default();
        let Some(version) = resource.version() else { return resolved };
        let inputs = version.inputs(&resource.spec);
        for reference in inputs.references {
            let path = reference.path;
            let found = match reference.target {
                Target::ArmId(id) => Ok(id),
                Target::Object { group, kind, name } => self.object(resource, &path, &group, &kind, &name, problems),
                Target::WellKnown(name) => {
                    let message = format!("the id of the well-known {name:?} is not known here");
                    problems.push(resource.error(&path, message).warning().help("armId names it"));
                    resolved.well_known.insert(path, UNKNOWN.to_owned());
                    continue;
                }
                Target::Malformed(why) => Err(Box::new(resource.error(&path, why))),
            };
            match found {
                // Half an id says little in a body; but lists of identities take nothing else.
                Ok(id) if id.as_str().contains(UNKNOWN) && !path.ends_with("].reference") => {
                    resolved.well_known.insert(path, UNKNOWN.to_owned());
                }
                Ok(id) => drop(resolved.references.insert(path, id)),
                Err(problem) => problems.push(*problem),
            }
        }
        for input in inputs.secrets {
            let value = |value| SecretValue::new(value);
            if input.key.is_some() {
                let found = self.value(resource, true, &input);
                problems.extend(self.absent(resource, true, &input));
                resolved.secrets.insert(input.path, value(found.unwrap_or_else(|| UNKNOWN.to_owned())));
                continue;
            }
            let at = (resource.namespace.clone(), input.name.clone());
            let given = self.manifests.secrets.get(&at).cloned();
            let all = given.unwrap_or_else(|| BTreeMap::from([(UNKNOWN.to_owned(), UNKNOWN.to_owned())]));
            problems.extend(self.absent(resource, true, &input));
            resolved.secret_maps.insert(input.path, all.into_iter().map(|(k, v)| (k, value(v))).collect());
        }
        for input in inputs.config_maps {
            let found = self.value(resource, false, &input);
            problems.extend(self.absent(resource, false, &input));
            resolved.config.insert(input.path, found.unwrap_or_else(|| UNKNOWN.to_owned()));
        }
        resolved
    }

    /// A key of a Secret or ConfigMap: of the manifests, or what a resource will write.
    fn value(&self, resource: &Resource, secret: bool, input: &KeyInput) -> Option<String> {
        let given = if secret { &self.manifests.secrets } else { &self.manifests.config_maps };
        let at = (resource.namespace.clone(), input.name.clone());
        let key = input.key.as_deref()?;
        if let Some(value) = given.get(&at).and_then(|values| values.get(key)) {
            return Some(value.clone());
        }
        let writer = self.exports.writer(secret, &resource.namespace, &input.name, Some(key))?;
        let by = &self.manifests.resources[writer.resource];
        writer.value(by, self.ids[writer.resource].as_ref(), self.live.get(&writer.resource))
    }

    /// What to say about a key that nothing in the manifests has or writes.
    fn absent(&self, resource: &Resource, secret: bool, input: &KeyInput) -> Option<Problem> {
        let (noun, given) =
            if secret { ("Secret", &self.manifests.secrets) } else { ("ConfigMap", &self.manifests.config_maps) };
        let at = (resource.namespace.clone(), input.name.clone());
        let key = input.key.as_deref();
        if self.exports.writer(secret, &resource.namespace, &input.name, key).is_some() {
            return None;
        }
        let values = given.get(&at);
        let problem = match (values, key) {
            (None, _) => {
                let names = given.keys().filter(|(namespace, _)| *namespace == at.0).map(|(_, name)| name.as_str());
                let message = format!("{noun} {} is not among the manifests, so its values are not known", input.name);
                resource.error(&input.path, message).meant(nearest(&input.name, names))
            }
            (Some(values), Some(key)) if !values.contains_key(key) => {
                let message =
                    format!("{noun} {} has no text under key {key}, so the object will wait for it", input.name);
                resource.error(&input.path, message).meant(nearest(key, values.keys().map(String::as_str)))
            }
            _ => return None,
        };
        Some(problem.warning())
    }
}

/// What the owner of a resource is said to be; None if the kind has none.
fn owner(resource: &Resource) -> Option<Target> {
    let stated = &resource.spec["owner"];
    match resource.kind.owner() {
        Owner::None => None,
        Owner::Kind { group, kind } => Some(Target::of_owner(stated, Some((&group, &kind)))),
        Owner::Extension | Owner::Resource { .. } => Some(Target::of_owner(stated, None)),
    }
}

/// Puts [`UNKNOWN`] where the operator chooses a value by what is in Azure: whether a deleted vault of the name is there to be recovered.
fn with_live_choices(resource: &Resource, mut body: Value) -> Value {
    if (resource.kind.group(), resource.kind.name()) == ("keyvault.azure.com", "Vault")
        && let Some(mode) = body.pointer_mut("/properties/createMode")
        && ["createOrRecover", "purgeThenCreate"].contains(&mode.as_str().unwrap_or_default())
    {
        *mode = UNKNOWN.into();
    }
    body
}

fn hide(resolved: &mut Resolved) {
    let hide = |value: &mut SecretValue| {
        if value.expose() != UNKNOWN {
            *value = SecretValue::new(HIDDEN);
        }
    };
    resolved.secrets.values_mut().for_each(hide);
    resolved.secret_maps.values_mut().flat_map(BTreeMap::values_mut).for_each(hide);
}

/// Whether objects of a kind have ARM ids; of an unknown kind that is told elsewhere.
fn keeps_arm_resources(group: &str, kind: &str) -> bool {
    Catalog::embedded().entry(group, kind).is_none_or(|entry| entry.manager.is_arm())
}
