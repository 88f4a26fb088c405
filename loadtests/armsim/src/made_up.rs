//! Values that a real service would draw at random, made up from a seed: the same seed and salt give the same value.

use sha2::{Digest, Sha256};

const ADJECTIVES: [&str; 16] = [
    "ambitious",
    "blue",
    "calm",
    "delightful",
    "gentle",
    "happy",
    "jolly",
    "kind",
    "lively",
    "mango",
    "nice",
    "orange",
    "polite",
    "salmon",
    "thankful",
    "wonderful",
];
const NOUNS: [&str; 16] = [
    "bay", "beach", "cliff", "coast", "desert", "field", "flower", "forest", "ground", "hill", "island", "meadow",
    "ocean", "plant", "river", "rock",
];
const LETTERS: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// 32 bytes that depend on seed and salt only.
pub(crate) fn bytes(seed: &str, salt: &str) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(seed.as_bytes());
    hash.update([0]);
    hash.update(salt.as_bytes());
    hash.finalize().into()
}

pub(crate) fn guid(seed: &str, salt: &str) -> uuid::Uuid {
    let mut sixteen = [0; 16];
    sixteen.copy_from_slice(&bytes(seed, salt)[..16]);
    uuid::Builder::from_random_bytes(sixteen).into_uuid()
}

/// Up to 64 hexadecimal digits.
pub(crate) fn hex(seed: &str, salt: &str, digits: usize) -> String {
    let digits = digits.min(64);
    hex_digits(&bytes(seed, salt)[..digits.div_ceil(2)])[..digits].to_owned()
}

/// Bytes in hexadecimal.
pub(crate) fn hex_digits(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}

/// As in `jollyocean`.
pub(crate) fn noun(seed: &str, salt: &str) -> String {
    let bytes = bytes(seed, salt);
    let pick = |words: &[&'static str; 16], byte: u8| words[usize::from(byte % 16)];
    format!("{}{}", pick(&ADJECTIVES, bytes[0]), pick(&NOUNS, bytes[1]))
}

/// A public address.
pub(crate) fn ip(seed: &str, salt: &str) -> String {
    let bytes = bytes(seed, salt);
    format!("20.{}.{}.{}", bytes[0], bytes[1], bytes[2])
}

/// Small letters and digits, at most 32.
pub(crate) fn letters(seed: &str, salt: &str, count: usize) -> String {
    bytes(seed, salt).iter().take(count).map(|byte| char::from(LETTERS[usize::from(byte % 36)])).collect()
}

/// What an access key looks like: 64 bytes in base64.
pub(crate) fn key(seed: &str, salt: &str) -> String {
    let mut text: String = ["a", "b", "c"]
        .iter()
        .flat_map(|part| bytes(seed, &format!("{salt}/{part}")))
        .map(|byte| char::from(BASE64[usize::from(byte % 64)]))
        .take(85)
        .collect();
    // Only the first bits of the last character count.
    text.push('A');
    text.push_str("==");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_and_salt_give_the_same_value_and_others_another() {
        assert_eq!(guid("a", "x"), guid("a", "x"));
        assert_ne!(guid("a", "x"), guid("a", "y"));
        assert_ne!(guid("a", "x"), guid("b", "x"));
        assert_ne!(guid("a", "bx"), guid("ab", "x"));
        assert_eq!((hex("a", "x", 8).len(), key("a", "x").len(), letters("a", "x", 7).len()), (8, 88, 7));
    }
}
