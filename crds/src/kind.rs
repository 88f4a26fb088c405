//! A kind with its types: what it is owned by, how its resources are named in ARM, and its versions.

mod name;
mod others;

use std::sync::{Arc, OnceLock};

use serde_json::Value;

use crate::arm_id::ArmId;
use crate::entry::{Export, KindEntry, VersionEntry};
use crate::graph::{Flags, Graph, Node, NodeId, Prop};
use crate::shape::{self, Object};

pub use name::{NameContext, NameError, NameRule};
pub(crate) use others::Others;

/// What a resource of a kind belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// Nothing: a resource of the subscription or the tenant.
    None,
    /// A resource of this kind; the owner's field has a name or an ARM id.
    Kind {
        /// The owner's group.
        group: String,
        /// The owner's kind.
        kind: String,
    },
    /// A resource that is of no kind; the owner's field has its ARM id.
    Resource {
        /// The owner's ARM type.
        arm_type: String,
    },
    /// Any resource, which it extends; the owner's field also has a group and a kind.
    Extension,
}

/// Where in ARM a kind without an owner lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// In the tenant.
    Tenant,
    /// In a subscription.
    Subscription,
    /// In a resource group, or below a resource.
    Owner,
    /// On any resource.
    Extension,
}

/// Why an ARM id can't be the owner's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OwnerError {
    /// It is of another type.
    #[error("owner {id} is of type {found}, but {kind} belongs to a resource of type {expected}")]
    Type {
        /// The id.
        id: ArmId,
        /// Its type.
        found: String,
        /// The type it must have.
        expected: String,
        /// The kind that is owned.
        kind: String,
    },
    /// The kind has no owner, so there is nothing to place it under.
    #[error("{kind} needs an owner, but spec.owner is not set")]
    Missing {
        /// The kind.
        kind: String,
    },
    /// Types between the owner's and the kind's own have names that the spec does not give.
    #[error("the ARM type {arm_type} is not directly below {owner}")]
    Gap {
        /// The kind's type.
        arm_type: String,
        /// The owner.
        owner: ArmId,
    },
}

/// A kind with its types.
#[derive(Debug)]
pub struct Kind {
    entry: KindEntry,
    graph: Arc<Graph>,
    versions: Vec<Version>,
    others: Others,
}

/// A served version of a kind. Its shapes are made when they are first used.
#[derive(Debug)]
pub struct Version {
    name: String,
    /// The ARM api-version.
    api: String,
    root: NodeId,
    graph: Arc<Graph>,
    /// What bodies need of the kind: payload rules, exports and the place of the owner.
    entry: KindEntry,
    spec: OnceLock<Object>,
    status: OnceLock<Object>,
}

impl Kind {
    pub(crate) fn new(entry: KindEntry, graph: Arc<Graph>, roots: &[NodeId], others: Others) -> Self {
        let light = KindEntry { versions: Vec::new(), ..entry.clone() };
        let version = |(v, &root): (&VersionEntry, &NodeId)| Version::new(v, root, Arc::clone(&graph), light.clone());
        let versions = entry.versions.iter().zip(roots).map(version).collect();
        Self { entry, graph, versions, others }
    }

    /// What the index says about it.
    pub fn entry(&self) -> &KindEntry {
        &self.entry
    }

    /// The Kubernetes group.
    pub fn group(&self) -> &str {
        &self.entry.group
    }

    /// The kind's name.
    pub fn name(&self) -> &str {
        &self.entry.kind
    }

    /// The ARM type.
    pub fn arm_type(&self) -> &str {
        &self.entry.arm_type
    }

    /// The served API versions, oldest first.
    pub fn versions(&self) -> &[Version] {
        &self.versions
    }

    /// The version with this name; the storage version is its hub's. Api-versions that are not served by default are found, too.
    pub fn version(&self, name: &str) -> Option<&Version> {
        let find = |name: &str| self.versions.iter().find(|v| v.name == name);
        find(name).or_else(|| find(name.strip_suffix("storage")?)).or_else(|| self.others.version(name))
    }

    /// The names and api-versions of the versions that are not served by default, oldest first.
    pub fn other_versions(&self) -> impl Iterator<Item = (&str, &str)> {
        self.others.names()
    }

    /// The version with this ARM api-version, whether it is served by default or not.
    pub fn version_for_api(&self, api_version: &str) -> Option<&Version> {
        let own = self.versions.iter().find(|v| v.api.eq_ignore_ascii_case(api_version));
        let is_it = |(_, api): &(&str, &str)| api.eq_ignore_ascii_case(api_version);
        own.or_else(|| self.others.version(self.other_versions().find(is_it)?.0))
    }

    /// The version whose storage version objects are stored in.
    pub fn hub(&self) -> Option<&Version> {
        self.version(&self.entry.hub)
    }

    /// What a resource of this kind belongs to.
    pub fn owner(&self) -> Owner {
        owner(&self.entry)
    }

    /// Where resources of this kind live.
    pub fn scope(&self) -> Scope {
        match self.owner() {
            Owner::Kind { .. } | Owner::Resource { .. } => Scope::Owner,
            Owner::Extension => Scope::Extension,
            Owner::None if self.entry.scopes.resource_group() => Scope::Owner,
            Owner::None if self.entry.scopes.subscription() => Scope::Subscription,
            Owner::None => Scope::Tenant,
        }
    }

    /// Refuses an owner of the wrong type.
    pub fn check_owner(&self, owner: &ArmId) -> Result<(), OwnerError> {
        let expected = match self.owner() {
            Owner::None | Owner::Extension => return Ok(()),
            Owner::Kind { ref group, ref kind } if group == "resources.azure.com" && kind == "ResourceGroup" => {
                "Microsoft.Resources/resourceGroups".to_owned()
            }
            Owner::Kind { .. } => parent_type(&self.entry.arm_type).to_owned(),
            Owner::Resource { arm_type } => arm_type,
        };
        let found = owner.resource_type();
        if found.eq_ignore_ascii_case(&expected) {
            return Ok(());
        }
        Err(OwnerError::Type { id: owner.clone(), found, expected, kind: self.entry.kind.clone() })
    }

    /// The ARM id of a resource of this kind. Kinds without an owner need the subscription instead.
    pub fn arm_id(&self, owner: Option<&ArmId>, subscription: &str, name: &str) -> Result<ArmId, OwnerError> {
        let arm_type = &self.entry.arm_type;
        let Some(owner) = owner else {
            return match self.scope() {
                Scope::Tenant => Ok(ArmId::tenant_resource(arm_type, name)),
                Scope::Subscription if arm_type.eq_ignore_ascii_case("Microsoft.Resources/resourceGroups") => {
                    Ok(ArmId::resource_group(subscription, name))
                }
                Scope::Subscription => Ok(ArmId::subscription(subscription).extension(arm_type, name)),
                Scope::Owner | Scope::Extension => Err(OwnerError::Missing { kind: self.entry.kind.clone() }),
            };
        };
        self.check_owner(owner)?;
        if self.scope() == Scope::Extension {
            return Ok(owner.extension(arm_type, name));
        }
        let parent = owner.resource_type();
        match arm_type.rsplit_once('/') {
            Some((above, segment)) if above.eq_ignore_ascii_case(&parent) => Ok(owner.child(segment, name)),
            Some((above, _)) if !above.contains('/') => Ok(owner.extension(arm_type, name)),
            _ => Err(OwnerError::Gap { arm_type: arm_type.clone(), owner: owner.clone() }),
        }
    }

    /// The same, where the owner may be an object, of the ARM type `owner_type`: as ASO does, all of the id is spelled as this kind spells it,
    /// unless a user spelled a part.
    pub fn arm_id_below(
        &self,
        owner: Option<&ArmId>,
        owner_type: Option<&str>,
        subscription: &str,
        name: &str,
    ) -> Result<ArmId, OwnerError> {
        let id = self.arm_id(owner, subscription, name)?;
        let (Some(owner), Some(owner_type)) = (owner, owner_type) else { return Ok(id) };
        let made = owner.resource_type() == owner_type && self.scope() != Scope::Extension;
        Ok(if made { id.spelled_as(&self.entry.arm_type) } else { id })
    }

    /// How a resource of this kind gets its ARM name.
    pub fn name_rule(&self) -> NameRule {
        let version = self.hub().or(self.versions.last());
        version.map_or(NameRule::AzureName, Version::name_rule)
    }

    /// The ARM name of an object: its azureName, its own name, the type's fixed name or a UUID, as the kind has it.
    pub fn arm_name(&self, context: &NameContext<'_>, spec: &Value) -> Result<String, NameError> {
        name::arm_name(self, context, spec)
    }

    /// Whether the ARM name of an object depends on its UID.
    pub(crate) fn is_named_by_uid(&self, context: &NameContext<'_>, spec: &Value) -> bool {
        name::is_by_uid(self, context, spec)
    }

    /// How many nodes the kind's types have.
    pub fn node_count(&self) -> usize {
        self.graph.len()
    }
}

/// The ARM type that a type is directly below; the provider's name for one at the top.
fn parent_type(arm_type: &str) -> &str {
    arm_type.rsplit_once('/').map_or("", |(parent, _)| parent)
}

/// What a resource of the kind belongs to.
pub(crate) fn owner(entry: &KindEntry) -> Owner {
    let parent = parent_type(&entry.arm_type);
    match &entry.owner {
        Some((group, kind)) => Owner::Kind { group: group.clone(), kind: kind.clone() },
        None if entry.scopes.extension() && !parent.contains('/') => Owner::Extension,
        None if entry.further && parent.contains('/') => Owner::Resource { arm_type: parent.to_owned() },
        None if entry.scopes.only_management_group() => {
            Owner::Resource { arm_type: "Microsoft.Management/managementGroups".to_owned() }
        }
        None if entry.scopes.extension() => Owner::Extension,
        None => Owner::None,
    }
}

impl Version {
    fn new(version: &VersionEntry, root: NodeId, graph: Arc<Graph>, entry: KindEntry) -> Self {
        Self {
            name: version.name.clone(),
            api: version.api_version.clone(),
            root,
            graph,
            entry,
            spec: OnceLock::new(),
            status: OnceLock::new(),
        }
    }

    /// The Kubernetes version, as in `v1api20250101`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The ARM api-version, as in `2025-01-01`.
    pub fn api_version(&self) -> &str {
        &self.api
    }

    /// The fields of the spec, less azureName, owner and operatorSpec.
    pub fn spec(&self) -> &Object {
        self.spec.get_or_init(|| shape::spec(&self.graph, self.root, self.entry.manager.is_arm()))
    }

    /// The fields of the status, less the conditions.
    pub fn status_shape(&self) -> &Object {
        self.status.get_or_init(|| shape::status(&self.graph, self.root, self.entry.manager.is_arm()))
    }

    /// The type graph, and the node of the body in it.
    pub fn types(&self) -> (&Graph, NodeId) {
        (&self.graph, self.root)
    }

    /// What the index says about the kind; its list of versions is empty here.
    pub(crate) fn entry(&self) -> &KindEntry {
        &self.entry
    }

    /// What can be written to Secrets and config maps by name in this version.
    pub fn exports(&self) -> impl Iterator<Item = &Export> {
        self.entry.exports.iter().filter(|e| e.versions.is_empty() || e.versions.contains(&self.name))
    }

    /// Whether the name may come from a config map (`azureNameFromConfig`).
    pub fn name_from_config(&self) -> bool {
        self.name_prop().is_some_and(|p| p.flags.has(Flags::FROM_CONFIG))
    }

    /// The type of the body's `name`.
    pub(crate) fn name_node(&self) -> Option<&Node> {
        self.name_prop().map(|p| self.graph.node(p.node))
    }

    /// The body's `name`; of a union that has none of its own, the first alternative's.
    fn name_prop(&self) -> Option<&Prop> {
        fn named(props: &[Prop]) -> Option<&Prop> {
            props.iter().find(|p| &*p.name == "name")
        }
        match self.graph.node(self.root) {
            Node::Object { props, .. } => named(props),
            Node::Union { base, cases, .. } => named(base).or_else(|| {
                cases.iter().find_map(|case| match self.graph.node(case.node) {
                    Node::Object { props, .. } => named(props),
                    _ => None,
                })
            }),
            _ => None,
        }
    }

    /// Whether the alternative that a spec has decides the resource's name, as in `Microsoft.Web/sites/config`.
    pub(crate) fn is_named_by_alternative(&self) -> bool {
        self.spec().discriminator.as_deref() == Some("name")
    }

    /// How a resource gets its ARM name in this version.
    pub fn name_rule(&self) -> NameRule {
        name::rule(self)
    }
}
