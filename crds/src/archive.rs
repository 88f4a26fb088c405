//! The committed file: an index of kinds, then one block of nodes per ARM provider.
//!
//! *Layout*: the eight bytes of `MAGIC`, the length of the packed index (u32, little endian), the index, the blocks; index and blocks are
//! each one zstd frame of JSON lines. A block's line number (from 0) is the id of its node. So one kind costs the unpacking of its provider's
//! block, and the others' types cost nothing.
//!
//! Kept true here: the same kinds and nodes give the same bytes, and a file that is damaged is refused, never half read.

use std::io::Read;

use serde::{Deserialize, Serialize};

use crate::catalog::KindEntry;

/// Begins every catalog file; the digit is the format's version.
pub const MAGIC: &[u8; 8] = b"FLOTCAT1";

/// No block or index comes near this; a damaged length must not ask for more memory.
const MAX_UNPACKED: u64 = 256 << 20;

/// A catalog file that can't be read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file is not a catalog.
    #[error("not a catalog of this format: it does not begin with FLOTCAT1")]
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
    /// The index has a line that is no entry.
    #[error("failed to read the catalog's index")]
    Index(#[source] serde_json::Error),
    /// A node has no such line, or the line is no node.
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

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Index {
    pub(crate) kinds: Vec<KindEntry>,
    /// Packed length of each block, in order.
    pub(crate) blocks: Vec<u32>,
}

/// An opened file: the index, and where the blocks lie.
#[derive(Debug)]
pub(crate) struct Archive<'a> {
    pub(crate) kinds: Vec<KindEntry>,
    blocks: Vec<&'a [u8]>,
}

impl<'a> Archive<'a> {
    pub(crate) fn open(bytes: &'a [u8]) -> Result<Self, Error> {
        let rest = bytes.strip_prefix(MAGIC).ok_or(Error::Magic)?;
        let (length, rest) = rest.split_first_chunk::<4>().ok_or(Error::Short("its header"))?;
        let length = u32::from_le_bytes(*length) as usize;
        let (index, mut rest) = rest.split_at_checked(length).ok_or(Error::Short("its index"))?;
        let index: Index = serde_json::from_slice(&unpack(index, "the index")?).map_err(Error::Index)?;
        let mut blocks = Vec::with_capacity(index.blocks.len());
        for length in index.blocks {
            let (block, tail) = rest.split_at_checked(length as usize).ok_or(Error::Short("a block"))?;
            blocks.push(block);
            rest = tail;
        }
        Ok(Self { kinds: index.kinds, blocks })
    }

    /// The lines of a block.
    pub(crate) fn block(&self, block: u32) -> Result<String, Error> {
        let packed = self.blocks.get(block as usize).ok_or(Error::Short("the list of blocks"))?;
        let bytes = unpack(packed, "a block")?;
        String::from_utf8(bytes).map_err(|_| Error::Node { node: 0, block, reason: "not UTF-8".to_owned() })
    }
}

/// The file for these kinds and blocks.
pub fn write(kinds: Vec<KindEntry>, blocks: &[String]) -> Result<Vec<u8>, Error> {
    let packed: Vec<Vec<u8>> = blocks.iter().map(|b| pack(b.as_bytes(), "a block")).collect::<Result<_, _>>()?;
    let lengths =
        packed.iter().map(|b| u32::try_from(b.len()).map_err(|_| Error::Short("a block"))).collect::<Result<_, _>>()?;
    let index = serde_json::to_vec(&Index { kinds, blocks: lengths }).map_err(Error::Index)?;
    let index = pack(&index, "the index")?;
    let mut bytes = MAGIC.to_vec();
    bytes.extend(u32::try_from(index.len()).map_err(|_| Error::Short("its index"))?.to_le_bytes());
    bytes.extend(index);
    bytes.extend(packed.into_iter().flatten());
    Ok(bytes)
}

fn pack(bytes: &[u8], what: &'static str) -> Result<Vec<u8>, Error> {
    zstd::bulk::compress(bytes, 19).map_err(|source| Error::Zstd { action: "pack", what, source })
}

fn unpack(bytes: &[u8], what: &'static str) -> Result<Vec<u8>, Error> {
    let fail = |source| Error::Zstd { action: "unpack", what, source };
    let mut out = Vec::new();
    zstd::stream::Decoder::with_buffer(bytes).map_err(fail)?.take(MAX_UNPACKED).read_to_end(&mut out).map_err(fail)?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_come_back_and_bytes_are_reproducible() {
        let blocks = ["a\nb".to_owned(), "c".to_owned()];
        let bytes = write(Vec::new(), &blocks).unwrap();
        assert_eq!(bytes, write(Vec::new(), &blocks).unwrap());
        let archive = Archive::open(&bytes).unwrap();
        assert_eq!((archive.block(0).unwrap(), archive.block(1).unwrap()), ("a\nb".to_owned(), "c".to_owned()));
        assert!(archive.block(2).is_err());
    }

    #[test]
    fn a_damaged_file_is_refused_at_every_length() {
        let bytes = write(Vec::new(), &["a\nb".to_owned()]).unwrap();
        for end in 0..bytes.len() {
            assert!(Archive::open(&bytes[..end]).is_err(), "{end}");
        }
    }
}
