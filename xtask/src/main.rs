//! Seed.
fn main() {}
