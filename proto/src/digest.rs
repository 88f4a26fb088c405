//! Short hashes by which members tell whether something has changed.

use sha2::{Digest, Sha256};

/// The first 16 hex digits of the SHA-256: enough to tell texts apart, short enough for an annotation.
pub fn short(bytes: impl AsRef<[u8]>) -> String {
    let digest = Sha256::digest(bytes);
    let first = digest.first_chunk().map_or(0, |bytes: &[u8; 8]| u64::from_be_bytes(*bytes));
    format!("{first:016x}")
}

#[cfg(test)]
mod tests {
    #[test]
    fn short_digest_is_the_beginning_of_the_sha_256() {
        assert_eq!(super::short(""), "e3b0c44298fc1c14");
        assert_eq!(super::short("abc"), "ba7816bf8f01cfea");
    }
}
