//! Decides what an object needs, and does it.
