//! The catalog: every kind that Flotilla knows, loaded one at a time.
//!
//! Kept true here: knowing that a kind exists costs an index entry; its types are unpacked on the first request for the kind, and shared after that.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use crate::archive::{self, Archive, Error};
use crate::entry::KindEntry;
use crate::kind::{Kind, Others};
use crate::table;

static EMBEDDED: &[u8] = include_bytes!("../data/catalog.bin");
/// What the rules for kinds outside of ASO's set can't say; the importer reads the same table.
static EXCEPTIONS: &str = include_str!("../data/further.tsv");
/// The rule of a line of it: no kind is made for these types.
pub(crate) const LEAVE_OUT: &str = "leave-out";

/// Every known kind.
#[derive(Debug)]
pub struct Catalog {
    archive: Arc<Archive<'static>>,
    /// The kinds of ASO's set.
    standard: Section,
    /// The others, whose index is read on the first request beyond that set.
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
        table::rows(EXCEPTIONS).filter_map(|(_, cells)| match cells[..] {
            [types, LEAVE_OUT, _, reason] => Some((types, reason)),
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
        let (graph, roots) = archive::read_graph(&text, entry.block, &entry.versions)?;
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
