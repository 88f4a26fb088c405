//! Looks up what an object needs before it can be decided: its credential, its owner, what it refers to, the body to send.
//!
//! The first thing that is missing is the trouble that the object's condition tells of.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use flotilla_crds::{ArmId, Inputs, Kind, NameContext, Owner, Resolved, SecretValue, Target, Version};
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
    let owner = owner(ctx, subject, &identity).await?;
    let (owner_id, link) = match owner {
        Some((id, link)) => (Some(id), link),
        None => (None, None),
    };
    let resync = ctx.settings.resync;
    let spec = view::spec(subject.object);
    let uid = subject.object.uid().unwrap_or_default();
    let names = NameContext { namespace: &subject.id.namespace, name: &subject.id.name, uid: &uid };
    let name = subject.kind.arm_name(&names, spec).map_err(|error| wrong_spec(&format!("{error}."), resync))?;
    let owner_type = |link: &OwnerLink| Some(&*ctx.catalog.entry(&link.id.kind.group, &link.id.kind.kind)?.arm_type);
    let owner_type = link.as_ref().and_then(owner_type);
    let id = subject.kind.arm_id_below(owner_id.as_ref(), owner_type, &identity.subscription, &name);
    let id = id.map_err(|error| wrong_spec(&format!("{error}. Correct spec.owner."), resync))?;
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
    if subject.policy == Policy::Skip {
        return Ok(Resolution { desired, identity, body: Value::Null, owner: link, uses: Vec::new() });
    }
    let inputs = subject.version.inputs(spec);
    desired.secrets = !inputs.secrets.is_empty();
    let uses = uses(subject.id, &inputs);
    let resolved = look_up(ctx, subject, &inputs).await?;
    let body = subject
        .version
        .put_body(spec, &name, &resolved)
        .map_err(|error| wrong_spec(&format!("The spec gives no request: {error}. Correct that field."), resync))?;
    desired.intent = Intent::new(subject.generation(), subject.version.api_version(), &body);
    Ok(Resolution { desired, identity, body, owner: link, uses })
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

/// The owner's ARM id, and the link to it if it is an object that must be ready first.
async fn owner(
    ctx: &Context,
    subject: &Subject<'_>,
    identity: &Identity,
) -> Result<Option<(ArmId, Option<OwnerLink>)>, Trouble> {
    let expected = match subject.kind.owner() {
        Owner::None => return Ok(None),
        Owner::Kind { group, kind } => Some((group, kind)),
        Owner::Extension | Owner::Resource { .. } => None,
    };
    let resync = ctx.settings.resync;
    let stated = view::spec(subject.object).get("owner").unwrap_or(&Value::Null);
    if stated.is_null() {
        return Err(wrong_spec("spec.owner is missing. State which resource this one belongs to.", resync));
    }
    let pair = expected.as_ref().map(|(group, kind)| (group.as_str(), kind.as_str()));
    let (group, kind, name) = match Target::of_owner(stated, pair) {
        Target::ArmId(id) => {
            subject
                .kind
                .check_owner(&id)
                .map_err(|error| wrong_spec(&format!("{error}. Correct spec.owner.armId."), resync))?;
            return Ok(Some((id, None)));
        }
        Target::Object { group, kind, name } => (group, kind, name),
        Target::WellKnown(_) => return Err(wrong_spec("spec.owner can't be a well-known name.", resync)),
        Target::Malformed(why) => return Err(wrong_spec(&format!("spec.owner is unclear: {why}."), resync)),
    };
    let id = sibling(subject.id, group, kind, &name);
    let wait = |why: &str| {
        let message = format!("Waiting for the owner {} {}: {why}.", id.kind.kind, id.name);
        missing(Reason::WaitingForOwner, &message, vec![id.clone()])
    };
    let Some(standing) = standing(ctx, &id).await? else {
        return Err(wait(&format!("there is no such object in namespace {}", id.namespace)));
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
    Ok(Some((arm_id, Some(link))))
}

/// Everything that the spec names elsewhere.
async fn look_up(ctx: &Context, subject: &Subject<'_>, inputs: &Inputs) -> Result<Resolved, Trouble> {
    let resync = ctx.settings.resync;
    let mut resolved = Resolved::default();
    let mut absent = Vec::new();
    for reference in &inputs.references {
        let path = &reference.path;
        match &reference.target {
            Target::ArmId(id) => {
                resolved.references.insert(path.clone(), id.clone());
            }
            Target::Object { group, kind, name } => {
                let id = sibling(subject.id, group.clone(), kind.clone(), name);
                let standing = standing(ctx, &id).await?;
                let arm_id = standing.filter(|standing| standing.created).and_then(|standing| standing.arm_id);
                match arm_id.and_then(|id| ArmId::parse(&id).ok()) {
                    Some(arm_id) => {
                        resolved.references.insert(path.clone(), arm_id);
                    }
                    None => absent.push((path.clone(), id)),
                }
            }
            Target::WellKnown(name) => {
                return Err(wrong_spec(&format!("{path}: the well-known name {name:?} is not known."), resync));
            }
            Target::Malformed(why) => return Err(wrong_spec(&format!("{path} is unclear: {why}."), resync)),
        }
    }
    if !absent.is_empty() {
        let named: Vec<_> = absent.iter().map(|(path, id)| format!("{} {} ({path})", id.kind.kind, id.name)).collect();
        let message = format!("Waiting until Azure has {}.", named.join(", "));
        let waits_for = absent.into_iter().map(|(_, id)| id).collect();
        return Err(missing(Reason::ReferenceNotFound, &message, waits_for));
    }
    secrets(ctx, subject, inputs, &mut resolved).await?;
    config_maps(ctx, subject, inputs, &mut resolved).await?;
    Ok(resolved)
}

async fn secrets(
    ctx: &Context,
    subject: &Subject<'_>,
    inputs: &Inputs,
    resolved: &mut Resolved,
) -> Result<(), Trouble> {
    let mut read: HashMap<&str, BTreeMap<String, SecretValue>> = HashMap::new();
    for input in &inputs.secrets {
        let id = core("Secret", &subject.id.namespace, &input.name);
        if !read.contains_key(input.name.as_str()) {
            let secret = ctx.cluster.secret(&id).await.map_err(|error| unreadable(&id, &error))?;
            let Some(secret) = secret else {
                let message = format!("Secret {} ({}) does not exist. Create it.", input.name, input.path);
                return Err(missing(Reason::SecretNotFound, &message, vec![id]));
            };
            let data = secret.data.unwrap_or_default().into_iter();
            let text = data.filter_map(|(key, value)| Some((key, SecretValue::new(String::from_utf8(value.0).ok()?))));
            read.insert(&input.name, text.collect());
        }
        let values = &read[input.name.as_str()];
        match &input.key {
            None => {
                resolved.secret_maps.insert(input.path.clone(), values.clone());
            }
            Some(key) => {
                let Some(value) = values.get(key) else {
                    let message =
                        format!("Secret {} has no text under key {key} ({}). Add it.", input.name, input.path);
                    return Err(missing(Reason::SecretNotFound, &message, vec![id]));
                };
                resolved.secrets.insert(input.path.clone(), value.clone());
            }
        }
    }
    Ok(())
}

async fn config_maps(
    ctx: &Context,
    subject: &Subject<'_>,
    inputs: &Inputs,
    resolved: &mut Resolved,
) -> Result<(), Trouble> {
    let mut read: HashMap<&str, BTreeMap<String, String>> = HashMap::new();
    for input in &inputs.config_maps {
        let id = core("ConfigMap", &subject.id.namespace, &input.name);
        if !read.contains_key(input.name.as_str()) {
            let map = ctx.cluster.config_map(&id).await.map_err(|error| unreadable(&id, &error))?;
            let Some(map) = map else {
                let message = format!("ConfigMap {} ({}) does not exist. Create it.", input.name, input.path);
                return Err(missing(Reason::ConfigMapNotFound, &message, vec![id]));
            };
            read.insert(&input.name, map.data.unwrap_or_default());
        }
        let Some(key) = &input.key else { continue };
        let Some(value) = read[input.name.as_str()].get(key) else {
            let message = format!("ConfigMap {} has no key {key} ({}). Add it.", input.name, input.path);
            return Err(missing(Reason::ConfigMapNotFound, &message, vec![id]));
        };
        resolved.config.insert(input.path.clone(), value.clone());
    }
    Ok(())
}

/// How another object stands: from our own records if it is ours, else from the API server.
async fn standing(ctx: &Context, id: &Id) -> Result<Option<Standing>, Trouble> {
    if let Some(standing) = ctx.records().standing(id) {
        return Ok(Some(standing));
    }
    let object = match ctx.cluster.get(id).await {
        Ok(object) => object,
        Err(cluster::Error::UnknownKind(kind)) => {
            return Err(wrong_spec(&format!("{kind} is not a kind that Flotilla knows."), ctx.settings.resync));
        }
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

fn uses(id: &Id, inputs: &Inputs) -> Vec<Id> {
    let named = |kind: &'static str, list: &[flotilla_crds::body::KeyInput]| {
        let ids = list.iter().map(|input| core(kind, &id.namespace, &input.name));
        ids.collect::<std::collections::BTreeSet<_>>()
    };
    named("Secret", &inputs.secrets).into_iter().chain(named("ConfigMap", &inputs.config_maps)).collect()
}
