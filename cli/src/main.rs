//! flotilla
fn main() {}
