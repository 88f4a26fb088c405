//! The catalog: every kind that Flotilla knows, loaded one at a time.
//!
//! Kept true here: knowing that a kind exists costs an index entry; its types are unpacked when somebody first asks for the kind, and shared after that.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use serde::{Deserialize, Serialize};

use crate::archive::{Archive, Error};
use crate::graph::{Graph, Node, NodeId};
use crate::kind::{Kind, Others};
use crate::manager::Manager;
use crate::pattern::Pattern;

static EMBEDDED: &[u8] = include_bytes!("../data/catalog.bin");
static EXCEPTIONS: &str = include_str!("../data/further.tsv");

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
    /// Whether it is outside ASO's set, and so named by rule and guessed at where facts are missing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub further: bool,
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
    archive: Arc<Archive<'static>>,
    /// The kinds of ASO's set.
    standard: Section,
    /// The others, whose index is read when somebody first asks beyond that set.
    further: OnceLock<Section>,
    /// Unpacked blocks are kept only while several kinds of one provider load in a row.
    last_block: RwLock<Option<Unpacked>>,
}

/// The first tiers of a block.
#[derive(Clone, Debug)]
struct Unpacked {
    block: u32,
    tiers: usize,
    text: Arc<str>,
}

/// Some kinds, with what finds them.
#[derive(Debug)]
struct Section {
    entries: Vec<KindEntry>,
    by_kind: BTreeMap<(String, String), usize>,
    by_arm_type: HashMap<String, usize>,
    by_crd_name: HashMap<String, usize>,
    loaded: Vec<OnceLock<Arc<Kind>>>,
}

impl Section {
    fn new(entries: Vec<KindEntry>) -> Self {
        let key = |e: &KindEntry| (e.group.clone(), e.kind.clone());
        Self {
            by_kind: entries.iter().enumerate().map(|(i, e)| (key(e), i)).collect(),
            by_arm_type: entries
                .iter()
                .enumerate()
                .filter(|(_, e)| e.manager.is_arm())
                .map(|(i, e)| (e.arm_type.to_ascii_lowercase(), i))
                .collect(),
            by_crd_name: entries.iter().enumerate().map(|(i, e)| (e.crd_name(), i)).collect(),
            loaded: entries.iter().map(|_| OnceLock::new()).collect(),
            entries,
        }
    }
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
        let mut archive = Archive::open(bytes)?;
        let standard = Section::new(std::mem::take(&mut archive.kinds));
        Ok(Self { archive: Arc::new(archive), standard, further: OnceLock::new(), last_block: RwLock::new(None) })
    }

    /// The types that the rules for kinds outside of ASO's set leave out, as patterns, each with the reason.
    pub fn left_out() -> impl Iterator<Item = (&'static str, &'static str)> {
        let rows =
            EXCEPTIONS.lines().filter(|line| !line.starts_with('#')).map(|line| line.split('\t').collect::<Vec<_>>());
        rows.filter_map(|cells| match cells[..] {
            [types, "leave-out", _, reason] => Some((types, reason)),
            _ => None,
        })
    }

    /// The kinds of ASO's set, by group and kind.
    pub fn standard(&self) -> impl Iterator<Item = &KindEntry> + Clone {
        self.standard.entries.iter()
    }

    /// Every kind: those of ASO's set, then the others, each by group and kind.
    pub fn kinds(&self) -> impl Iterator<Item = &KindEntry> + Clone {
        self.standard().chain(&self.further().entries)
    }

    /// The kinds that a pattern means.
    pub fn matching<'a>(&'a self, pattern: &'a Pattern) -> impl Iterator<Item = &'a KindEntry> {
        self.kinds().filter(|entry| pattern.matches(entry))
    }

    /// What the index says about a kind.
    pub fn entry(&self, group: &str, kind: &str) -> Option<&KindEntry> {
        self.find(group, kind).map(|(section, index)| &section.entries[index])
    }

    /// What the index says about the kind for an ARM type, whose letter case does not matter.
    pub fn kind_of_arm_type(&self, arm_type: &str) -> Option<&KindEntry> {
        let arm_type = arm_type.to_ascii_lowercase();
        let of = |section: &'_ Section| section.by_arm_type.get(&arm_type).copied();
        match of(&self.standard) {
            Some(index) => Some(&self.standard.entries[index]),
            None => of(self.further()).map(|index| &self.further().entries[index]),
        }
    }

    /// What the index says about the kind of a CRD, as in `storageaccounts.storage.azure.com`.
    pub fn kind_of_crd(&self, name: &str) -> Option<&KindEntry> {
        let of = |section: &'_ Section| section.by_crd_name.get(name).copied();
        match of(&self.standard) {
            Some(index) => Some(&self.standard.entries[index]),
            None => of(self.further()).map(|index| &self.further().entries[index]),
        }
    }

    /// A kind with its types. None if there is no such kind.
    pub fn kind(&self, group: &str, kind: &str) -> Option<Arc<Kind>> {
        let (section, index) = self.find(group, kind)?;
        let kind = section.loaded[index].get_or_init(|| match self.load(&section.entries[index]) {
            Ok(kind) => Arc::new(kind),
            // As for the index: a test loads every kind of the embedded catalog.
            Err(error) => panic!("the catalog entry of {group}/{kind} is damaged: {error}"),
        });
        Some(Arc::clone(kind))
    }

    /// Loads a kind without keeping it.
    pub fn try_load(&self, group: &str, kind: &str) -> Option<Result<Kind, Error>> {
        self.find(group, kind).map(|(section, index)| self.load(&section.entries[index]))
    }

    fn find(&self, group: &str, kind: &str) -> Option<(&Section, usize)> {
        let key = (group.to_owned(), kind.to_owned());
        let of = |section: &'_ Section| section.by_kind.get(&key).copied();
        match of(&self.standard) {
            Some(index) => Some((&self.standard, index)),
            None => of(self.further()).map(|index| (self.further(), index)),
        }
    }

    fn further(&self) -> &Section {
        self.further.get_or_init(|| match self.archive.further() {
            Ok(entries) => Section::new(entries),
            // As for the other index: a test reads it.
            Err(error) => panic!("the embedded catalog is damaged: {error}"),
        })
    }

    fn load(&self, entry: &KindEntry) -> Result<Kind, Error> {
        let text = self.block(entry.block, if entry.further { 2 } else { 1 })?;
        let (graph, roots) = read_graph(&text, entry.block, &entry.versions)?;
        let others = Others::new(Arc::clone(&self.archive), entry);
        Ok(Kind::new(entry.clone(), Arc::new(graph), &roots, others))
    }

    fn block(&self, block: u32, tiers: usize) -> Result<Arc<str>, Error> {
        let last = self.last_block.read().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(last) = last.filter(|last| last.block == block && last.tiers == tiers) {
            return Ok(last.text);
        }
        let text: Arc<str> = self.archive.block(block, tiers)?.into();
        let kept = Unpacked { block, tiers, text: Arc::clone(&text) };
        *self.last_block.write().unwrap_or_else(PoisonError::into_inner) = Some(kept);
        Ok(text)
    }
}

/// The nodes that the kind's versions reach, renumbered, and the new ids of the roots.
pub(crate) fn read_graph(text: &str, block: u32, versions: &[VersionEntry]) -> Result<(Graph, Vec<NodeId>), Error> {
    let lines: Vec<&str> = text.lines().collect();
    let mut ids: HashMap<NodeId, NodeId> = HashMap::new();
    let mut order: Vec<NodeId> = Vec::new();
    let mut intern = |old: NodeId, order: &mut Vec<NodeId>| {
        *ids.entry(old).or_insert_with(|| {
            order.push(old);
            NodeId::try_from(order.len() - 1).unwrap_or(NodeId::MAX)
        })
    };
    let roots: Vec<NodeId> = versions.iter().map(|v| intern(v.root, &mut order)).collect();
    let mut nodes: Vec<Node> = Vec::new();
    while nodes.len() < order.len() {
        let old = order[nodes.len()];
        let fail = |reason: String| Error::Node { node: old, block, reason };
        let line = lines.get(old as usize).ok_or_else(|| fail("there is no such line".to_owned()))?;
        let mut node = Node::from_line(line).map_err(|e| fail(e.to_string()))?;
        node.for_each_child(|child| *child = intern(*child, &mut order));
        nodes.push(node);
    }
    Ok((Graph::new(nodes), roots))
}
