//! The committed file: indices of kinds, then one block of nodes per ARM provider.
//!
//! *Layout*: the eight bytes of `MAGIC`, the length of the packed index (u32, little endian), the index, the dictionary, the index of further kinds, the
//! blocks. A
//! block has three tiers: the served versions of the kinds of ASO's set, those of further kinds, and all other api-versions. Everything is zstd frames
//! of JSON lines, the first two tiers packed with a dictionary that was trained on all of them, the third with the first two before it. A line's number, counted through the tiers from 0, is the id of its node; a tier names no node of a later one. The third
//! tier begins with a line of its own, which is not a node: its versions by ARM type.
//!
//! So a kind costs the unpacking of its provider's tiers up to its own, and the others' types cost nothing.
//!
//! Kept true here: the same kinds and nodes give the same bytes, and a file that is damaged is refused, never half read.

mod nodes;

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use crate::entry::KindEntry;
use crate::graph::NodeId;

pub(crate) use nodes::read_graph;

/// Begins every catalog file; the digit is the format's version.
pub(crate) const MAGIC: &[u8; 8] = b"FLOTCAT2";

/// No block or index comes near this; a damaged length must not ask for more memory.
const MAX_UNPACKED: u64 = 256 << 20;

/// A catalog file that can't be read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file is not a catalog.
    #[error("not a catalog of this format: it does not begin with FLOTCAT2")]
    Magic,
    /// The file ends too early.
    #[error("the catalog is cut short in {0}")]
    Short(&'static str),
    /// A frame can't be unpacked or packed.
    #[error("failed to {action} {what}")]
    Zstd {
        /// What was tried.
        action: &'static str,
        /// On which part.
        what: &'static str,
        /// Why it failed.
        #[source]
        source: std::io::Error,
    },
    /// The index has a line that is not an entry.
    #[error("failed to read the catalog's index")]
    Index(#[source] serde_json::Error),
    /// A node's line does not exist, or is not a node.
    #[error("node {node} of block {block}: {reason}")]
    Node {
        /// Which node.
        node: u32,
        /// In which block.
        block: u32,
        /// What is wrong.
        reason: String,
    },
}

/// Size of the dictionary. Larger ones gain little.
const DICTIONARY: usize = 110_000;

/// How much of each text the dictionary learns from, so that a few providers don't speak for all.
const LONGEST_SAMPLE: usize = 20_000;

/// How many tiers a block has.
pub(crate) const TIERS: usize = 3;

/// The other api-versions of a provider's types and the nodes of their bodies, by lower-case ARM type.
pub(crate) type Others = BTreeMap<String, Vec<(String, NodeId)>>;

/// A block to be written.
pub(crate) struct Block {
    /// The lines of each tier's nodes.
    pub(crate) tiers: [String; TIERS],
    /// The versions of the last tier.
    pub(crate) others: Others,
}

#[derive(Debug, Serialize, Deserialize)]
struct Index {
    kinds: Vec<KindEntry>,
    /// Packed length of the dictionary.
    dictionary: u32,
    /// Packed length of the index of further kinds.
    further: u32,
    /// Packed length of each tier of each block, in order.
    blocks: Vec<[u32; TIERS]>,
}

/// Bytes that are unpacked when they are first used.
#[derive(Debug)]
struct Packed<'a> {
    packed: &'a [u8],
    bytes: OnceLock<Vec<u8>>,
}

impl Packed<'_> {
    fn get(&self) -> Result<&[u8], Error> {
        if self.bytes.get().is_none() {
            let bytes = unpack(self.packed, &[], "the dictionary")?;
            drop(self.bytes.set(bytes));
        }
        Ok(self.bytes.get().map_or(&[], Vec::as_slice))
    }
}

/// An opened file: the index, and where everything else lies.
#[derive(Debug)]
pub(crate) struct Archive<'a> {
    pub(crate) kinds: Vec<KindEntry>,
    dictionary: Packed<'a>,
    further: &'a [u8],
    blocks: Vec<[&'a [u8]; TIERS]>,
}

impl<'a> Archive<'a> {
    pub(crate) fn open(bytes: &'a [u8]) -> Result<Self, Error> {
        let rest = bytes.strip_prefix(MAGIC).ok_or(Error::Magic)?;
        let (length, rest) = rest.split_first_chunk::<4>().ok_or(Error::Short("its header"))?;
        let length = u32::from_le_bytes(*length) as usize;
        let (index, mut rest) = rest.split_at_checked(length).ok_or(Error::Short("its index"))?;
        let index: Index = serde_json::from_slice(&unpack(index, &[], "the index")?).map_err(Error::Index)?;
        let mut take = |length: u32, what| {
            let (part, tail) = rest.split_at_checked(length as usize).ok_or(Error::Short(what))?;
            rest = tail;
            Ok(part)
        };
        let dictionary = Packed { packed: take(index.dictionary, "the dictionary")?, bytes: OnceLock::new() };
        let further = take(index.further, "the index of further kinds")?;
        let mut blocks = Vec::with_capacity(index.blocks.len());
        for lengths in index.blocks {
            let mut block: [&[u8]; TIERS] = [&[]; TIERS];
            for (tier, length) in block.iter_mut().zip(lengths) {
                *tier = take(length, "a block")?;
            }
            blocks.push(block);
        }
        Ok(Self { kinds: index.kinds, dictionary, further, blocks })
    }

    /// The kinds outside of ASO's set.
    pub(crate) fn further(&self) -> Result<Vec<KindEntry>, Error> {
        serde_json::from_slice(&unpack(self.further, &[], "the index of further kinds")?).map_err(Error::Index)
    }

    /// The lines of a block's first tiers.
    pub(crate) fn block(&self, block: u32, tiers: usize) -> Result<String, Error> {
        let mut text = self.first_tiers(block, tiers.min(TIERS - 1))?;
        if tiers == TIERS {
            let last = unpack(self.packed(block)?[TIERS - 1], &text, "a block")?;
            text.extend(last.splitn(2, |&b| b == b'\n').nth(1).unwrap_or_default());
        }
        String::from_utf8(text).map_err(|_| Error::Node { node: 0, block, reason: "not UTF-8".to_owned() })
    }

    /// The versions of a block's last tier.
    pub(crate) fn others(&self, block: u32) -> Result<Others, Error> {
        let before = self.first_tiers(block, TIERS - 1)?;
        let last = unpack(self.packed(block)?[TIERS - 1], &before, "a block")?;
        let line = last.split(|&b| b == b'\n').next().unwrap_or_default();
        serde_json::from_slice(line).map_err(Error::Index)
    }

    fn first_tiers(&self, block: u32, tiers: usize) -> Result<Vec<u8>, Error> {
        let mut text = Vec::new();
        for tier in &self.packed(block)?[..tiers] {
            text.append(&mut unpack(tier, self.dictionary.get()?, "a block")?);
        }
        Ok(text)
    }

    fn packed(&self, block: u32) -> Result<&[&[u8]; TIERS], Error> {
        self.blocks.get(block as usize).ok_or(Error::Short("the list of blocks"))
    }
}

/// The file for these kinds and blocks.
pub(crate) fn write(kinds: Vec<KindEntry>, blocks: &[Block]) -> Result<Vec<u8>, Error> {
    let length = |bytes: &[u8], what| u32::try_from(bytes.len()).map_err(|_| Error::Short(what));
    let (further, kinds): (Vec<_>, Vec<_>) = kinds.into_iter().partition(|kind| kind.further);
    let further = pack(&serde_json::to_vec(&further).map_err(Error::Index)?, &[], "the index of further kinds")?;
    let dictionary = train(blocks);
    let packed_dictionary = pack(&dictionary, &[], "the dictionary")?;
    let mut index = Index {
        kinds,
        dictionary: length(&packed_dictionary, "the dictionary")?,
        further: length(&further, "the index of further kinds")?,
        blocks: Vec::new(),
    };
    let mut parts = vec![packed_dictionary, further];
    for block in blocks {
        let [first, second, last] = &block.tiers;
        let others = serde_json::to_string(&block.others).map_err(Error::Index)?;
        let packed = [
            pack(first.as_bytes(), &dictionary, "a block")?,
            pack(second.as_bytes(), &dictionary, "a block")?,
            pack(format!("{others}\n{last}").as_bytes(), format!("{first}{second}").as_bytes(), "a block")?,
        ];
        let mut lengths = [0; TIERS];
        for (length_of, part) in lengths.iter_mut().zip(&packed) {
            *length_of = length(part, "a block")?;
        }
        index.blocks.push(lengths);
        parts.extend(packed);
    }
    let index = pack(&serde_json::to_vec(&index).map_err(Error::Index)?, &[], "the index")?;
    let mut bytes = MAGIC.to_vec();
    bytes.extend(length(&index, "its index")?.to_le_bytes());
    bytes.extend(index);
    bytes.extend(parts.into_iter().flatten());
    Ok(bytes)
}

/// What many blocks have in common: providers describe the same things in the same words. Empty if there is too little to learn from.
fn train(blocks: &[Block]) -> Vec<u8> {
    let tiers = blocks.iter().flat_map(|block| &block.tiers[..TIERS - 1]);
    let samples: Vec<&[u8]> =
        tiers.map(|text| &text.as_bytes()[..text.len().min(LONGEST_SAMPLE)]).filter(|text| !text.is_empty()).collect();
    zstd::dict::from_samples(&samples, DICTIONARY).unwrap_or_default()
}

fn pack(bytes: &[u8], dictionary: &[u8], what: &'static str) -> Result<Vec<u8>, Error> {
    let fail = |source| Error::Zstd { action: "pack", what, source };
    zstd::bulk::Compressor::with_dictionary(19, dictionary).and_then(|mut packer| packer.compress(bytes)).map_err(fail)
}

fn unpack(bytes: &[u8], dictionary: &[u8], what: &'static str) -> Result<Vec<u8>, Error> {
    let fail = |source| Error::Zstd { action: "unpack", what, source };
    let mut out = Vec::new();
    let decoder = zstd::stream::Decoder::with_dictionary(bytes, dictionary).map_err(fail)?;
    decoder.take(MAX_UNPACKED).read_to_end(&mut out).map_err(fail)?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> Vec<u8> {
        let others = Others::from([("microsoft.a/b".to_owned(), Vec::new())]);
        let tiers = ["a\nb\n", "c\n", "d\n"].map(str::to_owned);
        write(Vec::new(), &[Block { tiers, others }]).unwrap()
    }

    #[test]
    fn blocks_come_back_and_bytes_are_reproducible() {
        let bytes = file();
        assert_eq!(bytes, file());
        let archive = Archive::open(&bytes).unwrap();
        let text = |tiers| archive.block(0, tiers).unwrap();
        assert_eq!(
            (text(1), text(2), text(3)),
            ("a\nb\n".to_owned(), "a\nb\nc\n".to_owned(), "a\nb\nc\nd\n".to_owned())
        );
        assert!(archive.others(0).unwrap().contains_key("microsoft.a/b"));
        assert!(archive.block(1, 1).is_err() && archive.further().unwrap().is_empty());
    }

    #[test]
    fn a_damaged_file_is_refused_at_every_length() {
        let bytes = file();
        for end in 0..bytes.len() {
            assert!(Archive::open(&bytes[..end]).is_err(), "{end}");
        }
    }
}
