//! The catalog: every kind that Flotilla knows, loaded one at a time.
//!
//! Kept true here: knowing that a kind exists costs an index entry; its types are unpacked when somebody first asks for the kind, and shared after that.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock, RwLock};

use serde::{Deserialize, Serialize};

use crate::archive::{Archive, Error};
use crate::graph::{Graph, Node, NodeId};
use crate::kind::Kind;
use crate::manager::Manager;
use crate::pattern::Pattern;

static EMBEDDED: &[u8] = include_bytes!("../data/catalog.bin");

/// What the index says about a kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KindEntry {
    /// The Kubernetes group, as in `storage.azure.com`.
    pub group: String,
    /// The kind.
    pub kind: String,
    /// The plural, lower case.
    pub plural: String,
    /// The ARM type, as Azure spells it; empty for a kind that is none of ARM's.
    pub arm_type: String,
    /// What its objects are resources of.
    #[serde(default, skip_serializing_if = "Manager::is_arm")]
    pub manager: Manager,
    /// Served API versions, oldest first.
    pub versions: Vec<VersionEntry>,
    /// The API version whose `…storage` version objects are stored in.
    pub hub: String,
    /// What the operator can write to Secrets and config maps by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exports: Vec<Export>,
    /// How the PUT body treats collections that are not set.
    #[serde(default, skip_serializing_if = "Payload::is_plain")]
    pub payload: Payload,
    /// Bits of ARM scopes at which it can be written, as in the type data: 1 tenant, 2 management group, 4 subscription, 8 resource group, 16 extension.
    pub scopes: u32,
    /// The group and kind of its owner, where that is a kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<(String, String)>,
    /// The block with its types.
    pub block: u32,
}

/// A served version of a kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionEntry {
    /// The Kubernetes version, as in `v1api20230101`.
    pub name: String,
    /// The ARM api-version, as in `2023-01-01`; the version's own name where there is no ARM.
    pub api_version: String,
    /// The node of the body in the kind's block.
    pub root: NodeId,
}

/// Something the operator can write to a Secret or a config map, named in `operatorSpec`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Export {
    /// The field under `operatorSpec.secrets` or `operatorSpec.configMaps`.
    pub name: String,
    /// Whether it is a secret.
    pub secret: bool,
    /// Served versions that have it; empty means all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub versions: Vec<String>,
    /// Where the value comes from: `status:path` or `action:path`.
    pub source: String,
}

/// How collections that a spec does not set appear in the PUT body.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Payload {
    /// Every collection that is not set is sent as null, because the service's PUT keeps what is not mentioned.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub nulls: bool,
    /// Fields of the spec (dots, `[]` for items) whose empty or missing collection is sent as an empty one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub empty: Vec<String>,
}

impl Payload {
    fn is_plain(&self) -> bool {
        *self == Self::default()
    }
}

impl KindEntry {
    /// The version that objects are stored in.
    pub fn storage_version(&self) -> String {
        if self.manager.is_arm() { format!("{}storage", self.hub) } else { self.hub.clone() }
    }

    /// What its objects are resources of, for people: the ARM type, or what else keeps them.
    pub fn belongs_to(&self) -> &str {
        if self.manager.is_arm() { &self.arm_type } else { self.manager.noun() }
    }

    /// The CRD's name.
    pub fn crd_name(&self) -> String {
        format!("{}.{}", self.plural, self.group)
    }
}

/// Every known kind.
#[derive(Debug)]
pub struct Catalog {
    archive: Archive<'static>,
    by_kind: BTreeMap<(String, String), usize>,
    by_arm_type: HashMap<String, usize>,
    loaded: Vec<OnceLock<Arc<Kind>>>,
    /// Unpacked blocks are kept only while several kinds of one provider load in a row.
    last_block: RwLock<Option<(u32, Arc<str>)>>,
}

impl Catalog {
    /// The catalog in this binary.
    pub fn embedded() -> &'static Self {
        static CATALOG: OnceLock<Catalog> = OnceLock::new();
        CATALOG.get_or_init(|| match Self::from_bytes(EMBEDDED) {
            Ok(catalog) => catalog,
            // The bytes are part of the binary and a test opens them: a binary for which this fails was never tested.
            Err(error) => panic!("the embedded catalog is damaged: {error}"),
        })
    }

    /// How many bytes the catalog takes up in this binary.
    pub fn embedded_bytes() -> usize {
        EMBEDDED.len()
    }

    /// A catalog in the bytes of a catalog file.
    pub fn from_bytes(bytes: &'static [u8]) -> Result<Self, Error> {
        let archive = Archive::open(bytes)?;
        let key = |e: &KindEntry| (e.group.clone(), e.kind.clone());
        let by_kind = archive.kinds.iter().enumerate().map(|(i, e)| (key(e), i)).collect();
        let by_arm_type = archive.kinds.iter().enumerate();
        let by_arm_type =
            by_arm_type.filter(|(_, e)| e.manager.is_arm()).map(|(i, e)| (e.arm_type.to_ascii_lowercase(), i));
        let by_arm_type = by_arm_type.collect();
        let loaded = archive.kinds.iter().map(|_| OnceLock::new()).collect();
        Ok(Self { archive, by_kind, by_arm_type, loaded, last_block: RwLock::new(None) })
    }

    /// Every kind, by group and kind.
    pub fn kinds(&self) -> impl Iterator<Item = &KindEntry> + Clone {
        self.archive.kinds.iter()
    }

    /// The kinds that a pattern means.
    pub fn matching<'a>(&'a self, pattern: &'a Pattern) -> impl Iterator<Item = &'a KindEntry> {
        self.kinds().filter(|e| pattern.matches(&e.group, &e.kind))
    }

    /// What the index says about a kind.
    pub fn entry(&self, group: &str, kind: &str) -> Option<&KindEntry> {
        self.by_kind.get(&(group.to_owned(), kind.to_owned())).map(|&i| &self.archive.kinds[i])
    }

    /// What the index says about the kind for an ARM type, whose letter case does not matter.
    pub fn kind_of_arm_type(&self, arm_type: &str) -> Option<&KindEntry> {
        self.by_arm_type.get(&arm_type.to_ascii_lowercase()).map(|&i| &self.archive.kinds[i])
    }

    /// A kind with its types. None if there is no such kind.
    pub fn kind(&self, group: &str, kind: &str) -> Option<Arc<Kind>> {
        let &index = self.by_kind.get(&(group.to_owned(), kind.to_owned()))?;
        let kind = self.loaded[index].get_or_init(|| match self.load(index) {
            Ok(kind) => Arc::new(kind),
            // As for the index: a test loads every kind of the embedded catalog.
            Err(error) => panic!("the catalog entry of {group}/{kind} is damaged: {error}"),
        });
        Some(Arc::clone(kind))
    }

    /// Loads a kind without keeping it.
    pub fn try_load(&self, group: &str, kind: &str) -> Option<Result<Kind, Error>> {
        self.by_kind.get(&(group.to_owned(), kind.to_owned())).map(|&index| self.load(index))
    }

    fn load(&self, index: usize) -> Result<Kind, Error> {
        let entry = self.archive.kinds[index].clone();
        let text = self.block(entry.block)?;
        let (graph, roots) = read_graph(&text, &entry)?;
        Ok(Kind::new(entry, Arc::new(graph), &roots))
    }

    fn block(&self, block: u32) -> Result<Arc<str>, Error> {
        let last = self.last_block.read().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        if let Some((number, text)) = last
            && number == block
        {
            return Ok(text);
        }
        let text: Arc<str> = self.archive.block(block)?.into();
        *self.last_block.write().unwrap_or_else(std::sync::PoisonError::into_inner) = Some((block, Arc::clone(&text)));
        Ok(text)
    }
}

/// The nodes that the kind's versions reach, renumbered, and the new ids of the roots.
fn read_graph(text: &str, entry: &KindEntry) -> Result<(Graph, Vec<NodeId>), Error> {
    let lines: Vec<&str> = text.lines().collect();
    let mut ids: HashMap<NodeId, NodeId> = HashMap::new();
    let mut order: Vec<NodeId> = Vec::new();
    let mut intern = |old: NodeId, order: &mut Vec<NodeId>| {
        *ids.entry(old).or_insert_with(|| {
            order.push(old);
            NodeId::try_from(order.len() - 1).unwrap_or(NodeId::MAX)
        })
    };
    let roots: Vec<NodeId> = entry.versions.iter().map(|v| intern(v.root, &mut order)).collect();
    let mut nodes: Vec<Node> = Vec::new();
    while nodes.len() < order.len() {
        let old = order[nodes.len()];
        let fail = |reason: String| Error::Node { node: old, block: entry.block, reason };
        let line = lines.get(old as usize).ok_or_else(|| fail("there is no such line".to_owned()))?;
        let mut node = Node::from_line(line).map_err(|e| fail(e.to_string()))?;
        node.for_each_child(|child| *child = intern(*child, &mut order));
        nodes.push(node);
    }
    Ok((Graph::new(nodes), roots))
}
