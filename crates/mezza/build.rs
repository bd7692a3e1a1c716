//! Rebuilds the program when the page was built again, because the program embeds it.

use std::path::Path;

fn main() {
    // Cargo would treat a missing path as changed each time. The folder around it shows when the
    // page appears.
    let watched = if Path::new("page").exists() { "page" } else { "." };
    println!("cargo::rerun-if-changed={watched}");
    println!("cargo::rerun-if-changed=build.rs");
}
