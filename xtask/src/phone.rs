//! `cargo xtask phone`: the program for phones (aarch64, statically linked with musl), and its tests
//! under qemu.
//!
//! ```text
//! page, std (rustup target, or the sources of std), zig as C compiler and linker -> mezza
//! mezza --qemu-user--> tests of whole processes: homes and a relay
//! ```

use crate::machine;
use crate::needs::{make_venv, pip_install};
use crate::page::{self, Built};
use crate::run::{Logs, find_program, first_line, run_logged};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The target of the program.
const TARGET: &str = "aarch64-unknown-linux-musl";
/// The packages of Python that bring a C compiler and linker for the target.
const ZIG: [&str; 2] = ["ziglang==0.17.1", "cargo-zigbuild==0.24.1"];
/// The emulator, as Debian and others name it.
const QEMU: [&str; 2] = ["qemu-aarch64-static", "qemu-aarch64"];
/// The tests that run under the emulator: two homes over a relay (init, node, card, add, send), a relay
/// and a node that are killed, and a request of a stranger. The mesh is not among them, because qemu
/// refuses the multicast options of its sockets.
const TESTS: [&str; 3] = [
    "two_homes::slow_two_people_meet_talk_part_and_find_what_waited",
    "two_homes::slow_notes_survive_a_relay_that_dies_and_a_node_that_is_killed",
    "two_homes::slow_a_stranger_asks_and_is_let_in_or_not",
];

/// Builds the program for phones, and runs it under qemu where that is installed.
pub fn build_for_phone(root: &Path, args: &[String]) -> Result<(), String> {
    if let Some(other) = args.first() {
        return Err(format!("`phone` takes no argument, and got {other}"));
    }
    let target = machine::target_folder(root);
    let logs = Logs::new(&target)?;
    if let Built::Not(missing) = page::build_page(root, &logs)? {
        return Err(format!("the program embeds its page: {missing}"));
    }
    let folder = target.join("phone");
    let tools = install_zig(&folder, &logs)?;
    let program = build_program(root, &folder, &tools, &logs)?;
    let bytes = fs::metadata(&program).map_err(|e| format!("{}: {e}", program.display()))?.len();
    println!("OK       {} ({} MB, static)", program.display(), bytes / 1_000_000);
    let Some(qemu) = find_program(&QEMU) else {
        println!("SKIPPED  its {} tests: no qemu; apt install qemu-user-static", TESTS.len());
        return Ok(());
    };
    run_emulated(root, &folder, &qemu, &program)
}

/// Returns the folder of cargo-zigbuild and zig, which are installed below `folder` if missing.
fn install_zig(folder: &Path, logs: &Logs) -> Result<PathBuf, String> {
    let tools = folder.join("tools");
    let bin = tools.join("bin");
    if bin.join("cargo-zigbuild").is_file() {
        return Ok(bin);
    }
    let Some(python) = find_program(&["python3"]) else {
        return Err("no python3 found; on Debian: apt install python3-venv".to_owned());
    };
    println!("install  pip install {}   (into {})", ZIG.join(" "), tools.display());
    fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut log = logs.open("install zig")?;
    let mut install = pip_install(&tools);
    install.args(ZIG);
    for mut command in [make_venv(&python, &tools), install] {
        if !run_logged(&mut command, &mut log)?.ok {
            return Err(format!("zig did not install; see {}", logs.path("install zig").display()));
        }
    }
    Ok(bin)
}

/// Builds the program. Returns its path.
fn build_program(root: &Path, folder: &Path, tools: &Path, logs: &Logs) -> Result<PathBuf, String> {
    let rustlib = find_rustlib()?;
    let mut cargo = machine::calling_cargo(&tools.join("cargo-zigbuild"));
    cargo.current_dir(root).args(["rustc", "--release", "--package", "mezza", "--bin", "mezza"]);
    cargo.args(["--target", TARGET]);
    let path = env::var_os("PATH").unwrap_or_default();
    let paths = [tools.to_owned()].into_iter().chain(env::split_paths(&path));
    cargo.env("PATH", env::join_paths(paths).map_err(|e| format!("PATH: {e}"))?);
    cargo.env("CARGO_TARGET_DIR", folder);
    if !rustlib.join(TARGET).is_dir() {
        if !rustlib.join("src/rust/library/std").is_dir() {
            return Err(format!("no standard library for {TARGET}; rustup target add {TARGET}"));
        }
        // With the sources alone the standard library is compiled, too, which the compiler of a
        // release allows to its own sources only.
        cargo.env("RUSTC_BOOTSTRAP", "1").arg("-Zbuild-std=std,panic_unwind");
        // The objects with which a program of musl starts come from zig then.
        cargo.args(["--", "-C", "link-self-contained=no"]);
    }
    println!("build    mezza for {TARGET}; minutes");
    let mut log = logs.open("phone")?;
    if !run_logged(&mut cargo, &mut log)?.ok {
        return Err(format!("it did not build; see {}", logs.path("phone").display()));
    }
    Ok(folder.join(TARGET).join("release/mezza"))
}

/// Returns the folder of the compiler's libraries.
fn find_rustlib() -> Result<PathBuf, String> {
    let sysroot = first_line(Command::new("rustc").args(["--print", "sysroot"]));
    let sysroot = sysroot.ok_or("no rustc found; install Rust by rustup")?;
    Ok(Path::new(&sysroot).join("lib/rustlib"))
}

/// Runs tests of whole processes with the emulated program.
fn run_emulated(root: &Path, folder: &Path, qemu: &Path, program: &Path) -> Result<(), String> {
    let emulated = folder.join("mezza-emulated");
    let text = format!("#!/bin/sh\nexec {} {} \"$@\"\n", qemu.display(), program.display());
    fs::write(&emulated, text).map_err(|e| format!("{}: {e}", emulated.display()))?;
    make_executable(&emulated)?;
    let mut cargo = machine::cargo_command(root);
    cargo.args(["test", "--package", "mezza", "--test", "it", "--", "--exact"]).args(TESTS);
    cargo.env("MEZZA_TEST_PROGRAM", &emulated);
    let status = cargo.status().map_err(|e| format!("cargo: {e}"))?;
    if status.success() { Ok(()) } else { Err("a test with the emulated program failed".into()) }
}

fn make_executable(path: &Path) -> Result<(), String> {
    use std::os::unix::fs::PermissionsExt as _;
    let rights = fs::Permissions::from_mode(0o755);
    fs::set_permissions(path, rights).map_err(|e| format!("{}: {e}", path.display()))
}
