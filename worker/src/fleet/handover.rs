//! How the former owner of a shard parted with it.

/// Whether the former owner handed the shard over.
///
/// It is a fact about the past, so it stays with the keys however they are cut, joined or granted again, until the engine has
/// read what the former owner may have done last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Handover {
    /// There was none, or it said that nothing of its work runs any more.
    #[default]
    Clean,
    /// It crashed or lost its lease: its last write may have reached Azure without a word on it. The first write for each
    /// object is preceded by a read.
    Unclean,
}

impl Handover {
    /// As the leader's grant says it.
    pub fn from_unclean(unclean: bool) -> Self {
        if unclean { Self::Unclean } else { Self::Clean }
    }

    /// Whether the first write must be preceded by a read.
    pub fn is_unclean(self) -> bool {
        self == Self::Unclean
    }

    /// That of keys which come from both: unclean if either is.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        if self.is_unclean() { self } else { other }
    }
}
