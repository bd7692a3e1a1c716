//! `cargo xtask interop`: tests our ratchet against other implementations.
//!
//! The libraries are fetched by Maven's and pip's own clients into `target/peers`, compared with
//! pinned hashes, and run as programs of their own by the programs in
//! `crates/mezza-ratchet/tests/peers`. They are never linked and never part of a release.

mod fetch;
mod peers;

use crate::needs::{self, Package};
use crate::run::{Ended, Logs, find_program, first_line, run_tests};
use crate::{machine, test};
use fetch::Folder;
use peers::{InteropPeer, PEERS};
use std::path::{Path, PathBuf};
use std::process::Command;

const USAGE: &str = "\
usage: cargo xtask interop [signal-v3|pqxdh] [--require] [--no-install] [--from DIR]

  --require      a peer that cannot run is a failure, not a skip
  --no-install   leaves the machine alone; without it, root installs what is missing with apt
  --from DIR     takes jars and Python packages from a folder instead of the network";

/// Debian packages without which peers are skipped.
pub const PACKAGES: [Package; 5] = [
    Package { name: "default-jdk-headless", present: fetch::has_jdk, purpose: "peers in Java" },
    Package {
        name: "maven",
        present: || find_program(&["mvn"]).is_some(),
        purpose: "peers in Java",
    },
    Package {
        name: "python3",
        present: || find_program(&["python3"]).is_some(),
        purpose: "peers in Python",
    },
    Package { name: "python3-venv", present: needs::has_venv, purpose: "peers in Python" },
    Package { name: "python3-dev", present: has_python_headers, purpose: "peers in Python" },
];

/// The arguments.
#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    /// Use only peers of this suite.
    suite: Option<String>,
    require: bool,
    no_install: bool,
    from: Option<PathBuf>,
}

/// `cargo xtask interop`.
pub fn run_interop(root: &Path, args: &[String]) -> Result<(), String> {
    let options = Options::parse(args)?;
    let target = machine::target_folder(root);
    let logs = Logs::new(&target)?;
    if !options.no_install {
        needs::install_missing(&PACKAGES.iter().collect::<Vec<_>>(), &logs)?;
    }
    let wanted =
        PEERS.iter().filter(|peer| options.suite.as_deref().is_none_or(|s| s == peer.suite));
    let folder = Folder::new(root, &logs, options.from.as_deref())?;
    let ended = run_peers(&folder, wanted, |filters, peers| {
        let mut command = machine::cargo_command(root);
        command.args(["test", "-p", "mezza-ratchet", "--test", "it", "--", "--show-output"]);
        command.args(filters).env("MEZZA_TEST_PEERS", peers);
        run_tests(&mut command, &mut logs.open("test-interop")?)
    })?;
    for reason in &ended.skipped {
        println!("SKIPPED {reason}");
    }
    if !ended.ok {
        return Err(format!("FAILED; log: {}", logs.path("interop").display()));
    }
    if !ended.skipped.is_empty() && (options.require || test::skips_are_errors()) {
        let count = ended.skipped.len();
        return Err(format!("FAILED: {count} skipped; --require, CI or MEZZA_REQUIRE_ALL is set"));
    }
    Ok(())
}

/// Runs the step of `cargo xtask test`: every peer. `run` runs the tests with the given names, with
/// the folder of the peers.
pub fn run_step(
    root: &Path,
    logs: &Logs,
    run: impl FnOnce(&[String], &Path) -> Result<Ended, String>,
) -> Result<Ended, String> {
    run_peers(&Folder::new(root, logs, None)?, PEERS.iter(), run)
}

/// Returns the arguments that exclude the tests against peers from the step `test`.
pub fn skip_args() -> impl Iterator<Item = String> {
    PEERS.iter().flat_map(|peer| ["--skip".to_owned(), peer.filter()])
}

fn run_peers<'a>(
    folder: &Folder,
    wanted: impl Iterator<Item = &'a InteropPeer>,
    run: impl FnOnce(&[String], &Path) -> Result<Ended, String>,
) -> Result<Ended, String> {
    let mut ready = Vec::new();
    let mut skipped = Vec::new();
    for peer in wanted {
        match folder.prepare_peer(peer)? {
            None => ready.push(peer.filter()),
            Some(reason) => skipped.push(reason),
        }
    }
    if ready.is_empty() {
        return Ok(Ended { ok: true, skipped, tail: Vec::new() });
    }
    let mut ended = run(&ready, folder.path())?;
    ended.skipped.append(&mut skipped);
    let log = folder.logs().read_logs("test-");
    let silent = ready.iter().find(|name| !log.contains(&format!("test {name}")));
    match silent {
        Some(name) if ended.ok => Err(format!("no test ran against {name}; are they renamed?")),
        _ => Ok(ended),
    }
}

fn has_python_headers() -> bool {
    let script = "import os, sysconfig; \
                  print(os.path.isfile(sysconfig.get_paths()['include'] + '/Python.h'))";
    first_line(Command::new("python3").args(["-c", script])).as_deref() == Some("True")
}

impl Options {
    fn parse(args: &[String]) -> Result<Self, String> {
        let mut options = Self::default();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--require" => options.require = true,
                "--no-install" => options.no_install = true,
                "--from" => {
                    let folder =
                        args.next().ok_or_else(|| format!("--from wants a folder\n{USAGE}"))?;
                    options.from = Some(folder.into());
                }
                suite
                    if PEERS.iter().any(|peer| peer.suite == suite) && options.suite.is_none() =>
                {
                    options.suite = Some(suite.to_owned());
                }
                other => return Err(format!("`{other}` is not understood here\n{USAGE}")),
            }
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, String> {
        Options::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn the_command_line() {
        let all = parse("pqxdh --require --from jars --no-install").expect("options");
        let from = Some(PathBuf::from("jars"));
        let suite = Some("pqxdh".to_owned());
        assert_eq!(all, Options { suite, require: true, no_install: true, from });
        assert_eq!(parse("").expect("options"), Options::default());
        for wrong in ["signal-v5", "signal-v3 pqxdh", "--from", "--reqire"] {
            let text = parse(wrong).expect_err("not understood");
            assert!(text.contains("usage: cargo xtask interop"), "{text}");
        }
    }

    #[test]
    fn every_peer_is_left_out_of_the_ordinary_tests() {
        let args = skip_args().collect::<Vec<_>>();
        assert_eq!(args.len(), 2 * PEERS.len());
        assert!(args.chunks(2).all(|pair| pair[0] == "--skip" && pair[1].starts_with("interop::")));
    }
}
