//! Passes compiler, flags and profile on to the program, which writes them beside its figures.

use std::env;
use std::process::Command;

fn main() {
    let compiler = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(compiler).arg("--version").output();
    let version = version.map_or_else(|_| String::new(), |out| lossy(&out.stdout));
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default().replace('\u{1f}', " ");
    let profile = env::var("PROFILE").unwrap_or_default();
    println!("cargo::rustc-env=LAB_RUSTC={}", version.trim());
    println!("cargo::rustc-env=LAB_RUSTFLAGS={flags}");
    println!("cargo::rustc-env=LAB_PROFILE={profile}");
    println!("cargo::rerun-if-changed=build.rs");
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
