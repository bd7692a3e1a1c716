//! `cargo xtask mutants`: small faults are put into the most important files, one at a time, and the
//! tests of the crate have to notice.
//!
//! cargo-mutants makes the faults and runs the tests. It does so in a copy of the tree below
//! `target/mutants`, whose build folder is kept, so that a mutant costs one incremental build and the
//! crate's own tests. The results of each part of a crate are kept as well, and parts add up.

mod crates;
mod equivalents;
mod tree;

use crate::machine;
use crate::run::first_line;
use crates::{CRATES, Examined};
use equivalents::Accepted;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const USAGE: &str = "\
usage: cargo xtask mutants [CRATE ...] [--shard K/N] [--list | --report]

  --shard K/N   part K of N, from 0; parts may run on several machines, or one after the other
  --list        the mutants, without running anything
  --report      the results of the parts so far, without running anything";

/// The one version, so that everybody has the same mutants.
const VERSION: &str = "27.1.0";
/// The least share of noticed mutants, per cent.
const KILLED_MIN: usize = 90;
/// A mutant counts as noticed if its tests take longer than without it by this factor.
const TIMEOUT_MULTIPLIER: &str = "3";
/// The least timeout in seconds. Below it the machine may be slow instead of the mutant.
const TIMEOUT_MIN_S: &str = "60";

/// The arguments.
#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    crates: Vec<String>,
    shard: Option<(usize, usize)>,
    list: bool,
    report: bool,
}

/// `cargo xtask mutants`.
pub fn command(root: &Path, args: &[String]) -> Result<(), String> {
    let options = Options::parse(args)?;
    let folder = machine::target(root).join("mutants");
    fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let accepted = equivalents::read(root)?;
    let chosen = CRATES.iter().filter(|c| options.crates.is_empty() || options.names(c.name));
    let (mut short, mut open) = (Vec::new(), Vec::new());
    for examined in chosen {
        if !options.report {
            run(root, &folder, examined, &options)?;
        }
        if !options.list {
            let parts = match options.shard {
                Some((_, parts)) => parts,
                None if options.report => parts_kept(&folder, examined.name),
                None => 1,
            };
            let score = Score::of(&folder, examined.name, parts, &accepted);
            println!("{}", score.line(examined.name));
            score.missed.iter().for_each(|mutant| println!("    not noticed: {mutant}"));
            if score.percent() < KILLED_MIN {
                short.push(examined.name);
            }
            if options.report && score.parts.0 < score.parts.1 {
                open.push(examined.name);
            }
        }
    }
    verdict(&short, &open)
}

/// The error for crates that fall short, and for those of which parts have not run.
fn verdict(short: &[&str], open: &[&str]) -> Result<(), String> {
    let short = (!short.is_empty()).then(|| {
        let names = short.join(", ");
        format!("below {KILLED_MIN} % in {names}; write the tests that notice")
    });
    let open = (!open.is_empty()).then(|| {
        let names = open.join(", ");
        format!("parts have not run of {names}; run them with `--shard`")
    });
    let failures: Vec<String> = short.into_iter().chain(open).collect();
    if failures.is_empty() { Ok(()) } else { Err(format!("FAILED: {}", failures.join("\n"))) }
}

/// Runs cargo-mutants on a copy of the tree.
fn run(root: &Path, folder: &Path, examined: &Examined, options: &Options) -> Result<(), String> {
    let program = install_missing(folder)?;
    let (part, parts) = options.shard.unwrap_or((0, 1));
    let copy = folder.join(format!("tree-{part}-of-{parts}"));
    tree::copy(root, &copy)?;
    let out = folder.join(format!("out-{part}-of-{parts}"));
    let mut command = machine::calling_cargo(&program);
    command.current_dir(&copy).args(["mutants", "--in-place", "--no-shuffle", "--colors=never"]);
    command.args(["--test-tool=cargo", "--package", examined.name]).arg("--output").arg(&out);
    for file in examined.files {
        command.arg("--file").arg(format!("crates/{}/src/{}", examined.name, file.path));
    }
    if let Some((part, parts)) = options.shard {
        command.arg("--shard").arg(format!("{part}/{parts}"));
    }
    if options.list {
        command.arg("--list");
    } else {
        command.args(["--timeout-multiplier", TIMEOUT_MULTIPLIER]);
        command.args(["--minimum-test-timeout", TIMEOUT_MIN_S]);
        command.arg("--").args(examined.tests).arg("--");
        command.args(examined.skipped.iter().flat_map(|name| ["--skip", name]));
    }
    command.env("CARGO_TARGET_DIR", folder.join(format!("build-{part}-of-{parts}")));
    let status = command.status().map_err(|e| format!("cargo-mutants: {e}"))?;
    // 2 and 3: mutants were missed or timed out. The caller counts both.
    if !matches!(status.code(), Some(0 | 2 | 3)) {
        return Err(format!("cargo-mutants ended with {status}; its own text is above"));
    }
    if options.list { Ok(()) } else { keep(&out, folder, examined.name, (part, parts)) }
}

/// The path of cargo-mutants, which is installed below `folder` if it is missing.
fn install_missing(folder: &Path) -> Result<PathBuf, String> {
    let own = folder.join("tools/bin/cargo-mutants");
    let is_right = |program: &Path| {
        let line = first_line(Command::new(program).args(["mutants", "--version"]));
        line.is_some_and(|line| line.ends_with(&format!(" {VERSION}")))
    };
    let found = crate::run::find(&["cargo-mutants"]).into_iter().chain([own.clone()]);
    if let Some(program) = found.into_iter().find(|program| is_right(program)) {
        return Ok(program);
    }
    println!("install  cargo install cargo-mutants --version ={VERSION} --locked");
    let mut cargo = machine::cargo(folder);
    cargo.args(["install", "--quiet", "--locked", "cargo-mutants", "--version"]);
    cargo.arg(format!("={VERSION}")).arg("--root").arg(folder.join("tools"));
    let status = cargo.status().map_err(|e| format!("cargo: {e}; install Rust by rustup"))?;
    if status.success() && is_right(&own) {
        return Ok(own);
    }
    Err(format!("cargo-mutants {VERSION} did not install; the compiler's text is above"))
}

/// The lists of a run.
const LISTS: [&str; 3] = ["caught", "timeout", "missed"];

fn kept(folder: &Path, name: &str, list: &str, (part, parts): (usize, usize)) -> PathBuf {
    folder.join("results").join(format!("{name}.{list}.{part}-of-{parts}"))
}

/// Keeps the results of a run.
fn keep(out: &Path, folder: &Path, name: &str, shard: (usize, usize)) -> Result<(), String> {
    let results = folder.join("results");
    fs::create_dir_all(&results).map_err(|e| format!("{}: {e}", results.display()))?;
    for list in LISTS {
        let from = out.join(format!("mutants.out/{list}.txt"));
        let to = kept(folder, name, list, shard);
        fs::copy(&from, to).map_err(|e| format!("{}: {e}", from.display()))?;
    }
    Ok(())
}

/// The number of parts of a crate's mutants. Of several divisions it is the one of which the greatest
/// share has run.
fn parts_kept(folder: &Path, name: &str) -> usize {
    let mut kept = BTreeMap::<usize, usize>::new();
    for entry in fs::read_dir(folder.join("results")).into_iter().flatten().flatten() {
        let file = entry.file_name();
        let shard =
            file.to_str().and_then(|file| file.strip_prefix(name)?.strip_prefix(".missed."));
        let parts = shard.and_then(|shard| shard.split_once("-of-")?.1.parse().ok());
        if let Some(parts) = parts {
            *kept.entry(parts).or_default() += 1;
        }
    }
    let by_share =
        |(a, run_a): &(usize, usize), (b, run_b): &(usize, usize)| (run_a * b).cmp(&(run_b * a));
    kept.into_iter().max_by(by_share).map_or(1, |(parts, _)| parts)
}

/// The results for the mutants of a crate.
#[derive(Debug, Default, PartialEq, Eq)]
struct Score {
    killed: usize,
    missed: Vec<String>,
    equivalent: usize,
    parts: (usize, usize),
}

impl Score {
    fn of(folder: &Path, name: &str, parts: usize, accepted: &[Accepted]) -> Self {
        let mut score = Self { parts: (0, parts), ..Self::default() };
        let mut missed = Vec::new();
        for part in 0..parts {
            let lists =
                LISTS.map(|list| fs::read_to_string(kept(folder, name, list, (part, parts))));
            let [Ok(caught), Ok(timeout), Ok(survivors)] = lists else { continue };
            score.parts.0 += 1;
            score.killed += caught.lines().count() + timeout.lines().count();
            missed.extend(survivors.lines().map(str::to_owned));
        }
        let total = missed.len();
        score.missed = equivalents::without(missed, accepted);
        score.equivalent = total - score.missed.len();
        score
    }

    /// The share of noticed mutants, rounded down.
    fn percent(&self) -> usize {
        let all = self.killed + self.missed.len();
        (100 * self.killed).checked_div(all).unwrap_or(100)
    }

    fn line(&self, name: &str) -> String {
        let Self { killed, missed, equivalent, parts: (part, parts) } = self;
        if *part == 0 {
            return format!("{name:<18} has not run yet");
        }
        let all = killed + missed.len();
        let percent = self.percent();
        let parts =
            if part == parts { String::new() } else { format!("; {part} of {parts} parts") };
        format!(
            "{name:<18} {killed:>5} of {all:>5} {percent:>4} %   {equivalent} equivalent{parts}"
        )
    }
}

impl Options {
    fn parse(args: &[String]) -> Result<Self, String> {
        let mut options = Self::default();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--list" => options.list = true,
                "--report" => options.report = true,
                "--shard" => {
                    let text = args.next().map_or("", String::as_str);
                    options.shard = Some(shard(text).ok_or_else(|| {
                        format!("--shard wants K/N with K below N, like 0/8\n{USAGE}")
                    })?);
                }
                name if CRATES.iter().any(|examined| examined.name == name) => {
                    options.crates.push(name.to_owned());
                }
                other => {
                    let all = CRATES.map(|examined| examined.name).join(", ");
                    return Err(format!("`{other}` is not understood; crates: {all}\n{USAGE}"));
                }
            }
        }
        if options.list && options.report {
            return Err(format!("--list and --report exclude each other\n{USAGE}"));
        }
        Ok(options)
    }

    fn names(&self, name: &str) -> bool {
        self.crates.iter().any(|wanted| wanted == name)
    }
}

fn shard(text: &str) -> Option<(usize, usize)> {
    let (part, parts) = text.split_once('/')?;
    let (part, parts) = (part.parse().ok()?, parts.parse().ok()?);
    (part < parts).then_some((part, parts))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, String> {
        Options::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn the_command_line() {
        let options = parse("mezza-ratchet mezza --shard 3/8").expect("options");
        assert_eq!(options.crates, ["mezza-ratchet", "mezza"]);
        assert_eq!(options.shard, Some((3, 8)));
        assert!(options.names("mezza") && !options.names("mezza-lab"));
        for wrong in ["mezza-nothing", "--shard 8/8", "--shard", "--shard x/2", "--list --report"] {
            assert!(parse(wrong).expect_err(wrong).contains("usage: cargo xtask mutants"));
        }
    }

    #[test]
    fn parts_add_up_and_what_is_equivalent_is_left_out() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/xtask-planted/mutants");
        let _ = fs::remove_dir_all(&folder);
        let missed = "crates/a/src/b.rs:7:9: replace < with <= in f\n\
                      crates/a/src/b.rs:9:9: replace g -> bool with true\n";
        for (part, caught, missed) in [(0, "x\ny\n", missed), (1, "z\n", "")] {
            let out = folder.join("out");
            fs::create_dir_all(out.join("mutants.out")).expect("a folder");
            for (list, text) in LISTS.iter().zip([caught, "slow\n", missed]) {
                fs::write(out.join(format!("mutants.out/{list}.txt")), text).expect("a list");
            }
            keep(&out, &folder, "a", (part, 3)).expect("kept");
        }
        let accepted = equivalents::parse("crates/a/src/b.rs: replace < with <= in f | why\n");
        assert_eq!((parts_kept(&folder, "a"), parts_kept(&folder, "nothing")), (3, 1));
        let score = Score::of(&folder, "a", 3, &accepted.expect("a list"));
        assert_eq!((score.killed, score.equivalent, score.parts), (5, 1, (2, 3)));
        assert_eq!(score.missed, ["crates/a/src/b.rs:9:9: replace g -> bool with true"]);
        assert_eq!(score.percent(), 83);
        let line = score.line("a");
        assert!(line.contains("5 of     6   83 %   1 equivalent; 2 of 3 parts"), "{line}");
        let nothing = Score::of(&folder, "nothing", 1, &[]);
        assert_eq!(nothing.parts, (0, 1));
        assert!(nothing.line("nothing").ends_with("has not run yet"));
        // Of two divisions the one that has come further is reported.
        let out = folder.join("out");
        for (part, parts) in [(0, 60), (0, 2), (1, 2)] {
            keep(&out, &folder, "a", (part, parts)).expect("kept");
        }
        assert_eq!(parts_kept(&folder, "a"), 2);
    }

    #[test]
    fn a_report_that_falls_short_or_lacks_parts_fails() {
        assert_eq!(verdict(&[], &[]), Ok(()));
        assert!(verdict(&["a", "b"], &[]).expect_err("short").contains("90 % in a, b;"));
        let both = verdict(&["a"], &["b"]).expect_err("both");
        assert!(both.starts_with("FAILED: below 90 % in a;"), "{both}");
        assert!(both.contains("\nparts have not run of b; "), "{both}");
    }
}
