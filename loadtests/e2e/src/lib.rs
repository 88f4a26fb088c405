//! End-to-end tests; everything is in `tests/`.
