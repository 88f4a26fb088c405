//! Spends the worker's part of ARM's rate limits.

pub mod key;

pub use key::{BucketKey, Class, Priority};
