//! From manifests to requests.
//!
//! *Flow*: [`Planner::order`] says in which order; [`Planner::request`], called in that order, makes each request from what is known by then;
//! whoever can ask Azure tells the answer with [`Planner::observe`], and later requests know more. No I/O.
//!
//! Kept true here: what can't be known yet is [`UNKNOWN`] and nothing is made up; a request is the one that a worker would send.

use std::collections::{BTreeMap, HashMap};

use flotilla_crds::request::{self, Cause, Need, Needs, Subject, Wanted};
use flotilla_crds::{ArmId, Catalog, KeyInput, NameError, Owner, Resolved, SecretValue, Version};
use serde_json::Value;

use super::exports::Exports;
use super::manifest::{Manifests, Name, Resource};
use super::order::{self, Edge, Order};
use super::problem::Problem;
use crate::suggest::nearest;

/// Stands for what can't be known before the manifests are applied.
pub(crate) const UNKNOWN: &str = "<known after apply>";
/// Stands for the values of Secrets where people look.
pub(crate) const HIDDEN: &str = "<secret>";

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
        let order = |planner: &Self| order::order(&resources.iter().map(|r| planner.edges(r)).collect::<Vec<_>>());
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
        let (Some(version), Some(subject)) = (resource.version(), subject(resource)) else {
            return (None, problems);
        };
        let mut bodies = [Value::Null, Value::Null];
        if !resource.is_skipped() {
            let mut resolved = self.resolve(resource, subject.needs(), &mut problems);
            let body = subject.body(&id, &resolved);
            hide(&mut resolved);
            match (body, subject.body(&id, &resolved)) {
                (Ok(body), Ok(shown)) => bodies = [body, shown].map(|body| with_live_choices(resource, body)),
                (Err(error), _) | (_, Err(error)) => {
                    problems.push(refused(resource, &error));
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
        let edges = self.edges(resource);
        let is_owner = |edge: &Edge| edge.field == "spec.owner";
        let request = Request {
            resource: index,
            object: resource.label(),
            method: if resource.is_skipped() { "GET" } else { "PUT" },
            id,
            api_version: version.api_version().to_owned(),
            body,
            shown,
            owner: edges.iter().find(|e| is_owner(e)).map(|e| e.to),
            after: edges.into_iter().filter(|e| !is_owner(e)).collect(),
        };
        (Some(request), problems)
    }

    /// Resources that must exist before this one.
    fn edges(&self, resource: &Resource) -> Vec<Edge> {
        let Some(needs) = subject(resource).map(|subject| subject.needs()) else { return Vec::new() };
        let mut edges = Vec::new();
        let mut edge = |to: Option<usize>, field: &str| {
            edges.extend(to.map(|to| Edge { to, field: field.to_owned() }));
        };
        let object = |need: &Need| match need.wanted.as_ref().ok()? {
            Wanted::Object { group, kind, name } => self.manifests.find(group, kind, &resource.namespace, name),
            Wanted::Id(id) => self.by_id.get(&id.as_str().to_lowercase()).copied(),
        };
        let writer = |source: &Source<'_>, input: &KeyInput| {
            let key = input.key.as_deref();
            let given = source.values(resource, input);
            let has = given.is_some_and(|values| key.is_none_or(|key| values.contains_key(key)));
            let writer = self.exports.writer(source.secret, &resource.namespace, &input.name, key);
            writer.filter(|_| !has).map(|writer| writer.resource)
        };
        if let Some(owner) = &needs.owner {
            edge(object(owner), &owner.path);
        }
        let config_maps = self.config_maps();
        if let Some(input) = &needs.name {
            edge(writer(&config_maps, input), &input.path);
        }
        if resource.is_skipped() {
            return edges;
        }
        for reference in &needs.references {
            edge(object(reference), &reference.path);
        }
        for input in &needs.secrets {
            edge(writer(&self.secrets(), input), &input.path);
        }
        for input in &needs.config_maps {
            edge(writer(&config_maps, input), &input.path);
        }
        edges
    }

    fn id(&self, resource: &Resource, problems: &mut Vec<Problem>) -> Result<ArmId, Box<Problem>> {
        let kind = &resource.kind;
        if !kind.entry().manager.is_arm() {
            return Err(Box::new(resource.error("kind", format!("{} objects have no ARM id", kind.name()))));
        }
        let Some(subject) = subject(resource) else {
            return Err(Box::new(resource.error("apiVersion", format!("{} has no such version", kind.name()))));
        };
        let needs = subject.needs();
        let owner = match &needs.owner {
            None => None,
            Some(need) => Some(self.found(resource, need, problems)?),
        };
        let named = needs.name.as_ref().map(|input| {
            problems.extend(self.absent(&self.config_maps(), resource, input));
            self.value(&self.config_maps(), resource, input).unwrap_or_else(|| UNKNOWN.to_owned())
        });
        let name = match subject.name(named.as_deref()) {
            Err(request::Error { cause: Cause::Name(NameError::ByUid), .. }) => Ok(UNKNOWN.to_owned()),
            name => name,
        };
        let id = name.and_then(|name| subject.id(owner.as_ref(), &self.subscription, &name));
        id.map_err(|error| Box::new(refused(resource, &error)))
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

    /// The id of another resource, as far as it is known.
    fn found(&self, resource: &Resource, need: &Need, problems: &mut Vec<Problem>) -> Result<ArmId, Box<Problem>> {
        match &need.wanted {
            Ok(Wanted::Id(id)) => Ok(id.clone()),
            Ok(Wanted::Object { group, kind, name }) => {
                let index = self.manifests.find(group, kind, &resource.namespace, name);
                if index.is_none() {
                    problems.push(self.missing(resource, &need.path, group, kind, name));
                }
                let id = index.and_then(|index| self.ids[index].clone());
                Ok(id.unwrap_or_else(|| self.unknown(group, kind, 0)))
            }
            Err(error) => Err(Box::new(refused(resource, error))),
        }
    }

    /// A warning about an object that is not among the manifests.
    fn missing(&self, resource: &Resource, field: &str, group: &str, kind: &str, name: &str) -> Problem {
        let same = |r: &&Resource| r.kind.group() == group && r.kind.name() == kind;
        let others = || self.manifests.resources.iter().filter(same);
        let near = nearest(name, others().filter(|r| r.namespace == resource.namespace).map(|r| r.name.as_str()));
        let elsewhere = others().find(|r| r.name == name).map(|r| r.namespace.as_str());
        let message =
            format!("{kind}/{}/{name} is not among the manifests, so its id is not known", resource.namespace);
        let problem = resource.error(field, message).warning();
        match (near, elsewhere) {
            (_, Some(namespace)) => {
                problem.help(format!("references stay in their namespace, but it is in {namespace}"))
            }
            (near, None) => problem.meant(near),
        }
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
    fn resolve(&self, resource: &Resource, needs: Needs, problems: &mut Vec<Problem>) -> Resolved {
        let mut resolved = Resolved::default();
        for need in needs.references {
            match self.found(resource, &need, problems) {
                // Half an id says little in a body; but lists of identities take nothing else.
                Ok(id) if id.as_str().contains(UNKNOWN) && !need.path.ends_with("].reference") => {
                    resolved.well_known.insert(need.path, UNKNOWN.to_owned());
                }
                Ok(id) => drop(resolved.references.insert(need.path, id)),
                Err(problem) => problems.push(*problem),
            }
        }
        let (secrets, config_maps) = (self.secrets(), self.config_maps());
        for input in needs.secrets {
            problems.extend(self.absent(&secrets, resource, &input));
            if input.key.is_some() {
                let found = self.value(&secrets, resource, &input).unwrap_or_else(|| UNKNOWN.to_owned());
                resolved.secrets.insert(input.path, SecretValue::new(found));
                continue;
            }
            let given = secrets.values(resource, &input).cloned();
            let all = given.unwrap_or_else(|| BTreeMap::from([(UNKNOWN.to_owned(), UNKNOWN.to_owned())]));
            resolved.secret_maps.insert(input.path, all.into_iter().map(|(k, v)| (k, SecretValue::new(v))).collect());
        }
        for input in needs.config_maps {
            problems.extend(self.absent(&config_maps, resource, &input));
            let found = self.value(&config_maps, resource, &input);
            resolved.config.insert(input.path, found.unwrap_or_else(|| UNKNOWN.to_owned()));
        }
        resolved
    }

    fn secrets(&self) -> Source<'_> {
        Source { noun: "Secret", secret: true, given: &self.manifests.secrets }
    }

    fn config_maps(&self) -> Source<'_> {
        Source { noun: "ConfigMap", secret: false, given: &self.manifests.config_maps }
    }

    /// A key of a Secret or ConfigMap: of the manifests, or what a resource will write.
    fn value(&self, source: &Source<'_>, resource: &Resource, input: &KeyInput) -> Option<String> {
        let key = input.key.as_deref()?;
        if let Some(value) = source.values(resource, input).and_then(|values| values.get(key)) {
            return Some(value.clone());
        }
        let writer = self.exports.writer(source.secret, &resource.namespace, &input.name, Some(key))?;
        let by = &self.manifests.resources[writer.resource];
        writer.value(by, self.ids[writer.resource].as_ref(), self.live.get(&writer.resource))
    }

    /// What to say about a key that nothing in the manifests has or writes.
    fn absent(&self, source: &Source<'_>, resource: &Resource, input: &KeyInput) -> Option<Problem> {
        let (noun, key) = (source.noun, input.key.as_deref());
        if self.exports.writer(source.secret, &resource.namespace, &input.name, key).is_some() {
            return None;
        }
        let problem = match (source.values(resource, input), key) {
            (None, _) => {
                let here = source.given.keys().filter(|(namespace, _)| *namespace == resource.namespace);
                let message = format!("{noun} {} is not among the manifests, so its values are not known", input.name);
                let near = nearest(&input.name, here.map(|(_, name)| name.as_str()));
                resource.error(&input.path, message).meant(near)
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

/// The resource as its request depends on it; None if its version is unknown.
fn subject(resource: &Resource) -> Option<Subject<'_>> {
    Some(Subject {
        catalog: Catalog::embedded(),
        kind: &resource.kind,
        version: resource.version()?,
        namespace: &resource.namespace,
        name: &resource.name,
        uid: None,
        spec: &resource.spec,
    })
}

/// The Secrets or the ConfigMaps among the manifests.
struct Source<'a> {
    noun: &'static str,
    secret: bool,
    given: &'a HashMap<Name, BTreeMap<String, String>>,
}

impl Source<'_> {
    /// The values of the one that an input of a resource names.
    fn values(&self, resource: &Resource, input: &KeyInput) -> Option<&BTreeMap<String, String>> {
        self.given.get(&(resource.namespace.clone(), input.name.clone()))
    }
}

/// Why a spec gives no request, at its line and column.
fn refused(resource: &Resource, error: &request::Error) -> Problem {
    let problem = resource.error(&error.path, error.cause.to_string());
    let Cause::UnknownKind { group, kind } = &error.cause else { return problem };
    let mut kinds = Catalog::embedded().kinds();
    let in_group: Vec<&str> = kinds.clone().filter(|e| e.group == *group).map(|e| e.kind.as_str()).collect();
    let near = nearest(kind, in_group.iter().copied()).map(str::to_owned);
    let other = kinds.find(|e| e.kind == *kind).map(|e| e.group.clone());
    problem.meant(near.or(other).as_deref())
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
