//! The properties of this machine: compilers, Node, cores, memory, privileges.

use crate::run::first_line;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the build directory: `CARGO_TARGET_DIR`, else `target` in the repository.
pub fn target_folder(root: &Path) -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => root.join(folder),
        None => root.join("target"),
    }
}

/// Returns a command of the `cargo` that runs this program.
pub fn cargo_command(root: &Path) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = calling_cargo(Path::new(&program));
    command.current_dir(root);
    command
}

/// Returns a command of a program that is cargo, or calls it.
pub fn calling_cargo(program: &Path) -> Command {
    let mut command = Command::new(program);
    // `cargo run` sets the first two for this program. Only this program reads the last, and
    // `mezza` refuses unknown variables that begin with MEZZA_.
    for name in ["CARGO_MANIFEST_DIR", "CARGO_PKG_NAME", "MEZZA_REQUIRE_ALL"] {
        command.env_remove(name);
    }
    command
}

/// Returns major and minor version of the compiler: `rustc 1.95.0 (..)`.
pub fn rustc_version() -> Option<(u32, u32)> {
    let line = first_line(Command::new("rustc").arg("--version"))?;
    parse_version(line.strip_prefix("rustc ")?)
}

/// Returns true if a C compiler is installed.
pub fn has_cc() -> bool {
    let name = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    first_line(Command::new(name).arg("--version")).is_some()
}

/// Returns major and minor version of Node, if installed: `v20.19.2`.
pub fn node_version() -> Option<(u32, u32)> {
    let line = first_line(Command::new("node").arg("--version"))?;
    parse_version(line.strip_prefix('v')?)
}

/// Returns true if the page's tools run on this version: 20.19 or newer, but not 21 nor 22.0 to 22.11.
pub fn node_is_supported(major: u32, minor: u32) -> bool {
    match (major, minor) {
        (20, minor) => minor >= 19,
        (22, minor) => minor >= 12,
        (major, _) => major >= 23,
    }
}

fn parse_version(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.split('.').map(str::parse);
    Some((parts.next()?.ok()?, parts.next()?.ok()?))
}

/// Returns the number of processors that this process may use.
pub fn count_cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Returns the memory of the machine in GiB, rounded, or `None` if the kernel does not report it.
pub fn memory_gib() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let kib = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib = kib.split_whitespace().next()?.parse::<u64>().ok()?;
    Some((kib + (1 << 19)) >> 20)
}

/// Returns true if the user is root.
pub fn is_root() -> bool {
    first_line(Command::new("id").arg("-u")).as_deref() == Some("0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_compiler_and_node() {
        assert_eq!(parse_version("20.19.2"), Some((20, 19)));
        assert_eq!(parse_version("1.95.0 (59807616e 2026-04-14)"), Some((1, 95)));
        assert_eq!(parse_version("20"), None);
        for good in [(20, 19), (22, 12), (23, 0), (24, 1)] {
            assert!(node_is_supported(good.0, good.1), "{good:?}");
        }
        for bad in [(18, 20), (20, 18), (21, 7), (22, 11)] {
            assert!(!node_is_supported(bad.0, bad.1), "{bad:?}");
        }
    }
}
