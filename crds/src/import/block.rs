//! The block of one ARM provider: its kinds, and the nodes of their types in three tiers.
//!
//! *Tiers*: first the served versions of the kinds of our table; then those of the further kinds; then every other api-version that can be written.
//! A tier's nodes may be those of an earlier one, never of a later one, so a kind is loaded without what comes after its own tier.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::further::Exceptions;
use super::kinds::{Wanted, WantedVersion};
use super::minimise::{Merged, minimise};
use super::{Error, convert, facts, owners, raw, types};
use crate::archive;
use crate::entry::{KindEntry, VersionEntry};
use crate::graph::{Node, NodeId};
use crate::scopes::Scopes;

/// What a block is made from.
pub(super) struct Maker<'a> {
    pub(super) library: &'a mut raw::Library,
    pub(super) facts: &'a facts::Facts,
    pub(super) own: &'a types::OwnTypes,
    /// The table of kinds, for messages.
    pub(super) table: PathBuf,
    pub(super) exceptions: &'a mut Exceptions,
}

/// A finished block.
pub(super) struct Block {
    pub(super) entries: Vec<KindEntry>,
    pub(super) text: archive::Block,
}

/// A kind on its way: versions that its CRD serves, and others.
struct Draft {
    entry: KindEntry,
    served: Vec<WantedVersion>,
    others: Vec<WantedVersion>,
    /// The line of the table, if it is from there.
    line: Option<usize>,
}

/// Versions with the nodes of their bodies.
type Roots = Vec<(VersionEntry, NodeId)>;

impl Maker<'_> {
    /// Makes the block of a provider with these kinds of the table.
    pub(super) fn make(&mut self, provider: &str, number: u32, kinds: Vec<Wanted>) -> Result<Block, Error> {
        let mut drafts = self.drafts(provider, kinds)?;
        let mut nodes = Vec::new();
        let mut tiers: [Roots; 3] = Default::default();
        // Which root belongs to which draft, by tier.
        let mut of: [Vec<usize>; 3] = Default::default();
        for (i, draft) in drafts.iter_mut().enumerate() {
            draft.entry.block = number;
            let tier = usize::from(draft.entry.further);
            for (tier, wanted) in [(tier, std::mem::take(&mut draft.served)), (2, std::mem::take(&mut draft.others))] {
                for wanted in wanted {
                    let root = self.root(draft, &wanted, tier < 2, &mut nodes)?;
                    let version = VersionEntry { name: wanted.name, api_version: wanted.api_version, root };
                    tiers[tier].push((version, root));
                    of[tier].push(i);
                }
            }
        }
        self.library.forget();
        let merged = minimise(nodes, &tiers.each_ref().map(|tier| tier.iter().map(|(_, root)| *root).collect()));
        let mut others = archive::Others::new();
        for (tier, (versions, of)) in tiers.into_iter().zip(of).enumerate() {
            for ((i, (version, _)), &root) in of.into_iter().zip(versions).zip(&merged.roots[tier]) {
                let entry = &mut drafts[i].entry;
                if tier < 2 {
                    entry.versions.push(VersionEntry { root, ..version });
                } else {
                    others.entry(entry.arm_type.to_ascii_lowercase()).or_default().push((version.api_version, root));
                }
            }
        }
        let mut entries: Vec<KindEntry> = drafts.into_iter().map(|draft| draft.entry).collect();
        owners::link(&mut entries);
        Ok(Block { entries, text: archive::Block { tiers: text(&merged), others } })
    }

    /// The kinds of the table and the provider's other types, with all their api-versions.
    fn drafts(&mut self, provider: &str, kinds: Vec<Wanted>) -> Result<Vec<Draft>, Error> {
        // By lower-case type: api-version and how the type is spelt there.
        let mut published: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
        for (api_version, types) in self.library.writable(provider)? {
            for arm_type in types {
                published.entry(arm_type.to_ascii_lowercase()).or_default().push((api_version.clone(), arm_type));
            }
        }
        let mut drafts = Vec::new();
        for kind in kinds {
            let of_type = published.remove(&kind.entry.arm_type.to_ascii_lowercase()).unwrap_or_default();
            let others = others(&kind.versions, of_type);
            drafts.push(Draft { entry: kind.entry, served: kind.versions, others, line: Some(kind.line) });
        }
        for (entry, served) in self.exceptions.kinds(&published)? {
            let of_type = published.remove(&entry.arm_type.to_ascii_lowercase()).unwrap_or_default();
            let served = vec![served];
            let others = others(&served, of_type);
            drafts.push(Draft { entry, served, others, line: None });
        }
        Ok(drafts)
    }

    /// Adds the nodes of a version's body and returns its root.
    fn root(
        &mut self,
        draft: &mut Draft,
        wanted: &WantedVersion,
        served: bool,
        nodes: &mut Vec<Node>,
    ) -> Result<NodeId, Error> {
        let entry = &mut draft.entry;
        let found = self.library.find(&entry.arm_type, &wanted.types_of)?;
        let (file, resource) = found.ok_or_else(|| Error::NoType {
            path: self.table.clone(),
            line: draft.line.unwrap_or_default(),
            arm_type: entry.arm_type.clone(),
            api_version: wanted.types_of.clone(),
        })?;
        if served {
            entry.arm_type.clone_from(&resource.arm_type);
            entry.scopes = Scopes::from_bits(resource.writable);
        }
        let about = facts::About {
            group: &entry.group,
            kind: &entry.kind,
            api_version: &wanted.types_of,
            further: entry.further,
        };
        let mut made = Vec::new();
        let root = convert::root(&file, &resource, self.facts, self.own, &about, &mut made)?;
        // Merged first for itself: all versions' nodes at once would not fit into memory.
        let Merged { nodes: made, roots, .. } = minimise(made, &[vec![root]]);
        let offset = NodeId::try_from(nodes.len()).unwrap_or(NodeId::MAX);
        nodes.extend(made.into_iter().map(|mut node| {
            node.for_each_child(|child| *child += offset);
            node
        }));
        Ok(roots[0][0] + offset)
    }
}

/// The api-versions that are published and not served.
fn others(served: &[WantedVersion], published: Vec<(String, String)>) -> Vec<WantedVersion> {
    let served: BTreeSet<&str> = served.iter().map(|v| v.api_version.as_str()).collect();
    let others = published.into_iter().filter(|(api_version, _)| !served.contains(api_version.as_str()));
    others.map(|(api_version, _)| WantedVersion::by_rule(&api_version)).collect()
}

fn text(merged: &Merged) -> [String; 3] {
    let mut from = 0;
    [0, 1, 2].map(|tier| {
        let nodes = &merged.nodes[from..merged.reach[tier]];
        from = merged.reach[tier];
        nodes.iter().flat_map(|node| [node.to_line().to_string(), "\n".to_owned()]).collect()
    })
}
