//! The one binary: `flotilla coordinator`, `flotilla worker`, and the tools.

fn main() {}
