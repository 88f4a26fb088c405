//! Spends the worker's part of ARM's rate limits.
