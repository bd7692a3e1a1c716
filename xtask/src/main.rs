//! The project's own tool: `cargo xtask up | test | dist | interop | phone | mutants | tidy | prose |
//! weigh`. It has few and small dependencies: it compiles in seconds, and the first command runs
//! little third-party code.
//!
//! | module | command |
//! |---|---|
//! | [`up`] | `cargo xtask up`: checks the tools, builds the page and the program, starts the demo world |
//! | [`mod@test`] | `cargo xtask test`: all checks, one line each |
//! | [`dist`] | `cargo xtask dist`: the files of a release |
//! | [`interop`] | `cargo xtask interop`: our ratchet against other implementations |
//! | [`phone`] | `cargo xtask phone`: the program for phones, and its tests under qemu |
//! | [`mutants`] | `cargo xtask mutants`: test if the tests detect small faults in the most
//! important files |
//! | [`tidy`] | `cargo xtask tidy`: the rules of this repository that no compiler checks |
//! | [`tidy`] | `cargo xtask prose`: comments, names and signatures that are above their limits |
//! | [`weigh`] | `cargo xtask weigh`: the build cost of each dependency |
#![allow(clippy::print_stdout, reason = "the terminal is this program's only output")]

mod dist;
mod interop;
mod libtest;
mod machine;
mod mutants;
mod needs;
mod page;
mod phone;
mod run;
mod test;
mod tidy;
mod up;
mod weigh;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  up [--check] [--json] [--home DIR] [--listen ADDRESS:PORT] [--no-web] [--remove]
                     build everything and start the demo world, or remove it; needs cargo and a C compiler
  test [--no-install] [quick | STEP ...]
                     every check, or the quick ones before a commit; as root it installs what is
                     missing with apt unless told not to
  dist [--binary FILE] [--out DIR] | --check FILE
                     the Debian package, the image of the servers, bill of materials and checksums;
                     or only a check of the package of this program, as the step `package` does
  interop [signal-v3|pqxdh] [--require] [--no-install] [--from DIR]
                     the ratchet against other implementations, fetched and run as programs
  phone              the program for phones (aarch64, static), and its tests under qemu; minutes
  mutants [ARGUMENT ...]
                     small faults in the most important files: do the tests notice? Arguments
                     are those of cargo-mutants: --shard 3/60, --package mezza-seka, --list
  tidy               the rules of this repository that no compiler checks
  prose [CRATE | --shrink]
                     comments, names and signatures by crate; the places of one; or lower the list
  weigh              CPU seconds per crate of a cold release build, and their limit";

fn main() -> ExitCode {
    let mut args = std::env::args();
    let own_name = args.next().unwrap_or_default();
    let args = args.collect::<Vec<_>>();
    if let Some(code) = weigh::run_as_compiler(&own_name, &args) {
        return code;
    }
    let root = find_root();
    let rest = args.get(1..).unwrap_or_default();
    let outcome = match args.first().map(String::as_str) {
        Some("up") => up::start_demo(&root, rest),
        Some("test") => test::test_all(&root, rest),
        Some("dist") => dist::make_dist(&root, rest),
        Some("interop") => interop::run_interop(&root, rest),
        Some("phone") => phone::build_for_phone(&root, rest),
        Some("mutants") => mutants::run_mutants(&root, rest),
        Some("tidy") => tidy::run_tidy(&root),
        Some("prose") => tidy::run_prose(&root, rest),
        Some("weigh") => weigh::weigh_crates(&root),
        Some("help" | "--help" | "-h") => {
            println!("{USAGE}");
            Ok(())
        }
        Some(other) => Err(format!("no command `{other}`\n{USAGE}")),
        None => Err(USAGE.to_owned()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("{text}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the repository, which is the parent of this crate's folder.
fn find_root() -> PathBuf {
    let own = std::env::var("CARGO_MANIFEST_DIR");
    let own = own.unwrap_or_else(|_| env!("CARGO_MANIFEST_DIR").to_owned());
    Path::new(&own).parent().map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}
