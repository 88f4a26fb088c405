//! Looks up what an object needs before it can be decided: its credential, its owner, what it refers to, the body to send.
//!
//! The first thing that is missing is the trouble that the object's condition tells of.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use flotilla_crds::request::{self, Need, Needs, Wanted};
use flotilla_crds::{ArmId, KeyInput, Kind, Resolved, SecretValue, Version};
use flotilla_proto::GroupKind;
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::Value;

use super::condition::{Ready, Reason};
use super::context::Context;
use super::decide::Desired;
use super::names;
use super::object::{Id, Intent, Policy};
use super::patch::OwnerLink;
use super::standing::Standing;
use super::trouble::{Trouble, core, missing, wrong_spec};
use super::{cluster, trouble, view};
use crate::arm::Identity;
use crate::arm::error::Retry;

/// What an object needs, all of it found.
#[derive(Debug)]
pub(crate) struct Resolution {
    /// For the decision.
    pub desired: Desired,
    /// Who calls ARM.
    pub identity: Arc<Identity>,
    /// What a PUT sends; null where none is to be sent.
    pub body: Value,
    /// The Kubernetes owner.
    pub owner: Option<OwnerLink>,
    /// Secrets and ConfigMaps whose change asks for another look.
    pub uses: Vec<Id>,
}

/// An object with the parts of the catalog that it needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject<'a> {
    /// Which.
    pub id: &'a Id,
    /// The object.
    pub object: &'a DynamicObject,
    /// Its kind.
    pub kind: &'a Kind,
    /// The version that its spec is written in.
    pub version: &'a Version,
    /// What it may do.
    pub policy: Policy,
}

impl Subject<'_> {
    fn generation(&self) -> i64 {
        self.object.metadata.generation.unwrap_or(0)
    }
}

/// Looks up everything.
pub(crate) async fn resolve(ctx: &Context, subject: &Subject<'_>) -> Result<Resolution, Trouble> {
    let credential = view::annotation(subject.object, names::CREDENTIAL_FROM);
    if subject.object.metadata.deletion_timestamp.is_some() {
        return Ok(for_deletion(subject, ctx.identity_for_deletion(subject.id, credential).await?));
    }
    let identity = ctx.identity(subject.id, credential).await?;
    let refused = |error: request::Error| refused(&error, ctx.settings.resync);
    let uid = subject.object.uid().unwrap_or_default();
    let request = request::Subject {
        catalog: ctx.catalog,
        kind: subject.kind,
        version: subject.version,
        namespace: &subject.id.namespace,
        name: &subject.id.name,
        uid: Some(&uid),
        spec: view::spec(subject.object),
    };
    let needs = request.needs();
    let (owner_id, owner) = match &needs.owner {
        None => (None, None),
        Some(need) => match need.wanted.clone().map_err(refused)? {
            Wanted::Id(id) => (Some(id), None),
            Wanted::Object { group, kind, name } => {
                let (id, link) = owner(ctx, sibling(subject.id, group, kind, &name), &identity).await?;
                (Some(id), Some(link))
            }
        },
    };
    let mut answers = Answers::new(ctx, subject.id);
    let named = match &needs.name {
        Some(input) => Some(answers.config_map(input).await?),
        None => None,
    };
    let name = request.name(named.as_deref()).map_err(refused)?;
    let id = request.id(owner_id.as_ref(), &identity.subscription, &name).map_err(refused)?;
    let mut desired = Desired {
        id: id.to_string(),
        intent: Intent {
            generation: subject.generation(),
            api_version: subject.version.api_version().to_owned(),
            hash: String::new(),
        },
        secrets: false,
        deletable: true,
    };
    let uses = uses(subject, &needs);
    if subject.policy == Policy::Skip {
        return Ok(Resolution { desired, identity, body: Value::Null, owner, uses });
    }
    desired.secrets = !needs.secrets.is_empty();
    let resolved = answers.all(&needs).await?;
    let body = request.body(&id, &resolved).map_err(refused)?;
    desired.intent = Intent::new(subject.generation(), subject.version.api_version(), &body);
    Ok(Resolution { desired, identity, body, owner, uses })
}

/// A deletion needs no more than the credential: everything else may be gone already.
fn for_deletion(subject: &Subject<'_>, identity: Arc<Identity>) -> Resolution {
    let claimed = view::resource_id(subject.object).unwrap_or_default();
    let intent = Intent {
        generation: subject.generation(),
        api_version: subject.version.api_version().to_owned(),
        hash: String::new(),
    };
    let desired = Desired { id: claimed.to_owned(), intent, secrets: false, deletable: true };
    Resolution { desired, identity, body: Value::Null, owner: None, uses: Vec::new() }
}

/// The ARM id of an owner, and the link to it. The owner must be ready first.
async fn owner(ctx: &Context, id: Id, identity: &Identity) -> Result<(ArmId, OwnerLink), Trouble> {
    let wait = |why: &str| {
        let message = format!("Waiting for the owner {} {}: {why}.", id.kind.kind, id.name);
        missing(Reason::WaitingForOwner, &message, vec![id.clone()])
    };
    let Some(standing) = standing(ctx, &id).await? else {
        return Err(wait(&format!("the object does not exist in namespace {}", id.namespace)));
    };
    let Some(arm_id) = standing.arm_id.as_deref().filter(|_| standing.ready) else {
        return Err(wait("it is not ready yet"));
    };
    let arm_id = ArmId::parse(arm_id).map_err(|error| wait(&error.to_string()))?;
    if let Some(theirs) = arm_id.subscription_id()
        && !theirs.eq_ignore_ascii_case(&identity.subscription)
    {
        let message = format!(
            "The owner {} {} is in subscription {theirs} and the credential of this object belongs to subscription {}. \
             Use one credential for both, or name the owner by its armId.",
            id.kind.kind, id.name, identity.subscription
        );
        return Err(Trouble {
            ready: Ready::error(Reason::SubscriptionMismatch, message),
            category: None,
            retry: Retry::UntilSpecChanges,
            waits_for: Vec::new(),
        });
    }
    let version = ctx.catalog.entry(&id.kind.group, &id.kind.kind).map(|entry| entry.hub.clone()).unwrap_or_default();
    let link = OwnerLink { api_version: format!("{}/{version}", id.kind.group), uid: standing.uid, id };
    Ok((arm_id, link))
}

/// What a spec needs, as the cluster has it. Each Secret and ConfigMap is read once.
struct Answers<'a> {
    ctx: &'a Context,
    id: &'a Id,
    secrets: HashMap<String, BTreeMap<String, SecretValue>>,
    config_maps: HashMap<String, BTreeMap<String, String>>,
}

impl<'a> Answers<'a> {
    fn new(ctx: &'a Context, id: &'a Id) -> Self {
        Self { ctx, id, secrets: HashMap::new(), config_maps: HashMap::new() }
    }

    /// Everything that the body needs.
    async fn all(mut self, needs: &Needs) -> Result<Resolved, Trouble> {
        let mut resolved = Resolved { references: self.references(&needs.references).await?, ..Resolved::default() };
        for input in &needs.secrets {
            let values = self.secret(input).await?;
            let Some(key) = &input.key else {
                resolved.secret_maps.insert(input.path.clone(), values.clone());
                continue;
            };
            let Some(value) = values.get(key).cloned() else {
                let message =
                    format!("Secret {} has no text under key {key} ({}). Next: add it.", input.name, input.path);
                let id = core("Secret", &self.id.namespace, &input.name);
                return Err(missing(Reason::SecretNotFound, &message, vec![id]));
            };
            resolved.secrets.insert(input.path.clone(), value);
        }
        for input in &needs.config_maps {
            let value = self.config_map(input).await?;
            resolved.config.insert(input.path.clone(), value);
        }
        Ok(resolved)
    }

    async fn references(&self, needs: &[Need]) -> Result<HashMap<String, ArmId>, Trouble> {
        let (mut found, mut absent) = (HashMap::new(), Vec::new());
        for need in needs {
            let wanted = need.wanted.clone().map_err(|error| refused(&error, self.ctx.settings.resync))?;
            let (group, kind, name) = match wanted {
                Wanted::Id(id) => {
                    found.insert(need.path.clone(), id);
                    continue;
                }
                Wanted::Object { group, kind, name } => (group, kind, name),
            };
            let id = sibling(self.id, group, kind, &name);
            let standing = standing(self.ctx, &id).await?;
            let arm_id = standing.filter(|standing| standing.created).and_then(|standing| standing.arm_id);
            match arm_id.and_then(|id| ArmId::parse(&id).ok()) {
                Some(arm_id) => drop(found.insert(need.path.clone(), arm_id)),
                None => absent.push((&need.path, id)),
            }
        }
        if absent.is_empty() {
            return Ok(found);
        }
        let named: Vec<_> = absent.iter().map(|(path, id)| format!("{} {} ({path})", id.kind.kind, id.name)).collect();
        let message = format!("Waiting until Azure has {}.", named.join(", "));
        Err(missing(Reason::ReferenceNotFound, &message, absent.into_iter().map(|(_, id)| id).collect()))
    }

    async fn secret(&mut self, input: &KeyInput) -> Result<&BTreeMap<String, SecretValue>, Trouble> {
        if !self.secrets.contains_key(&input.name) {
            let id = core("Secret", &self.id.namespace, &input.name);
            let secret = self.ctx.cluster.secret(&id).await.map_err(|error| unreadable(&id, &error))?;
            let Some(secret) = secret else {
                let message = format!("Secret {} ({}) does not exist. Next: create it.", input.name, input.path);
                return Err(missing(Reason::SecretNotFound, &message, vec![id]));
            };
            let data = secret.data.unwrap_or_default().into_iter();
            let text = data.filter_map(|(key, value)| Some((key, SecretValue::new(String::from_utf8(value.0).ok()?))));
            self.secrets.insert(input.name.clone(), text.collect());
        }
        Ok(&self.secrets[&input.name])
    }

    async fn config_map(&mut self, input: &KeyInput) -> Result<String, Trouble> {
        let id = core("ConfigMap", &self.id.namespace, &input.name);
        if !self.config_maps.contains_key(&input.name) {
            let map = self.ctx.cluster.config_map(&id).await.map_err(|error| unreadable(&id, &error))?;
            let Some(map) = map else {
                let message = format!("ConfigMap {} ({}) does not exist. Next: create it.", input.name, input.path);
                return Err(missing(Reason::ConfigMapNotFound, &message, vec![id]));
            };
            self.config_maps.insert(input.name.clone(), map.data.unwrap_or_default());
        }
        let key = input.key.as_deref().unwrap_or_default();
        self.config_maps[&input.name].get(key).cloned().ok_or_else(|| {
            let message = format!("ConfigMap {} has no key {key} ({}). Next: add it.", input.name, input.path);
            missing(Reason::ConfigMapNotFound, &message, vec![id])
        })
    }
}

/// The spec gives no request.
fn refused(error: &request::Error, resync: Option<Duration>) -> Trouble {
    wrong_spec(&format!("The spec gives no request: {error}. Next: {}.", error.next()), resync)
}

/// How another object stands: from our own records if it is ours, else from the API server.
async fn standing(ctx: &Context, id: &Id) -> Result<Option<Standing>, Trouble> {
    if let Some(standing) = ctx.records().standing(id) {
        return Ok(Some(standing));
    }
    let object = match ctx.cluster.get(id).await {
        Ok(object) => object,
        Err(error) => return Err(unreadable(id, &error)),
    };
    Ok(object.map(|object| standing_of(&object)))
}

/// How an object stands for those who build on it.
pub(crate) fn standing_of(object: &DynamicObject) -> Standing {
    let facts = view::facts(object);
    let arm_id = view::annotation(object, names::CHILD_RESOURCE_ID_OVERRIDE).map(str::to_owned).or(facts.resource_id);
    Standing {
        uid: object.uid().unwrap_or_default(),
        ready: facts.ready.is_some_and(|ready| ready.is_true()),
        created: facts.created,
        arm_id,
    }
}

fn unreadable(id: &Id, error: &cluster::Error) -> Trouble {
    match error {
        cluster::Error::Api { source, .. } => trouble::api_server(&id.to_string(), source),
        error => missing(Reason::UnknownError, &format!("Failed to look up {id}: {error}."), Vec::new()),
    }
}

fn sibling(of: &Id, group: String, kind: String, name: &str) -> Id {
    Id { kind: Arc::new(GroupKind { group, kind }), namespace: Arc::clone(&of.namespace), name: name.into() }
}

/// Secrets and ConfigMaps that the spec names; a skipped object has no body, so only the one with its name counts.
fn uses(subject: &Subject<'_>, needs: &Needs) -> Vec<Id> {
    let has_body = subject.policy != Policy::Skip;
    let namespace = &subject.id.namespace;
    let secrets = needs.secrets.iter().filter(|_| has_body).map(|input| core("Secret", namespace, &input.name));
    let maps = needs.name.iter().chain(needs.config_maps.iter().filter(|_| has_body));
    let maps = maps.map(|input| core("ConfigMap", namespace, &input.name));
    secrets.chain(maps).collect::<BTreeSet<_>>().into_iter().collect()
}
