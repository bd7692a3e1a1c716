//! `cargo xtask mutants`: puts small faults into the most important files, one at a time, which the
//! tests of the crate must detect. cargo-mutants does the work (`.cargo/mutants.toml`); this module
//! installs the pinned version and compares the share of detected faults with the limit.

use crate::machine;
use crate::run::{find_program, first_line};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The pinned version, so that all developers get the same mutants.
const VERSION: &str = "27.1.0";
/// Minimum share of detected mutants, percent.
const NOTICED_MIN: u64 = 90;

/// Runs cargo-mutants with `args`, for example `--shard 3/60` or `--package mezza-seka`.
pub fn run_mutants(root: &Path, args: &[String]) -> Result<(), String> {
    let folder = machine::target_folder(root).join("mutants");
    fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut command = machine::calling_cargo(&install_missing(&folder)?);
    command.current_dir(root).args(["mutants", "--output"]).arg(&folder).args(args);
    let status = command.status().map_err(|e| format!("cargo-mutants: {e}"))?;
    // 2 and 3: mutants were missed or timed out, which the score counts.
    if !matches!(status.code(), Some(0 | 2 | 3)) {
        return Err(format!("cargo-mutants ended with {status}; its own text is above"));
    }
    if args.iter().any(|arg| arg.starts_with("--list") || arg == "--help") {
        return Ok(());
    }
    let path = folder.join("mutants.out/outcomes.json");
    let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let score = Score::read(&text).ok_or_else(|| format!("{}: no outcomes", path.display()))?;
    println!("{} of {} mutants noticed", score.noticed, score.noticed + score.missed);
    score.check_score()
}

/// The numbers of a run. Mutants that do not compile are not counted.
#[derive(Debug, PartialEq, Eq)]
struct Score {
    noticed: u64,
    missed: u64,
}

impl Score {
    /// Reads the file `outcomes.json` of cargo-mutants.
    fn read(text: &str) -> Option<Self> {
        let outcomes = serde_json::from_str::<Value>(text).ok()?;
        let number = |name: &str| outcomes.get(name)?.as_u64();
        // Tests that never end have detected the mutant too.
        let noticed = number("caught")? + number("timeout")?;
        Some(Self { noticed, missed: number("missed")? })
    }

    fn check_score(&self) -> Result<(), String> {
        let all = self.noticed + self.missed;
        if 100 * self.noticed >= NOTICED_MIN * all {
            return Ok(());
        }
        Err(format!("FAILED: below {NOTICED_MIN} %; write tests for the missed ones above"))
    }
}

/// Returns the path of cargo-mutants, which is installed below `folder` if missing.
fn install_missing(folder: &Path) -> Result<PathBuf, String> {
    let own = folder.join("tools/bin/cargo-mutants");
    let is_right = |program: &Path| {
        let line = first_line(Command::new(program).args(["mutants", "--version"]));
        line.is_some_and(|line| line.ends_with(&format!(" {VERSION}")))
    };
    let found = find_program(&["cargo-mutants"]).into_iter().chain([own.clone()]);
    if let Some(program) = found.into_iter().find(|program| is_right(program)) {
        return Ok(program);
    }
    println!("install  cargo install cargo-mutants --version ={VERSION} --locked");
    let mut cargo = machine::cargo_command(folder);
    cargo.args(["install", "--quiet", "--locked", "cargo-mutants", "--version"]);
    cargo.arg(format!("={VERSION}")).arg("--root").arg(folder.join("tools"));
    let status = cargo.status().map_err(|e| format!("cargo: {e}; install Rust by rustup"))?;
    if status.success() && is_right(&own) {
        return Ok(own);
    }
    Err(format!("cargo-mutants {VERSION} did not install; the compiler's text is above"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_score_is_read_and_judged() {
        let text = r#"{"outcomes":[],"total_mutants":12,"missed":1,"caught":8,"timeout":1,
            "unviable":2,"success":0}"#;
        let score = Score::read(text).expect("numbers");
        assert_eq!(score, Score { noticed: 9, missed: 1 });
        assert_eq!(score.check_score(), Ok(()));
        let short = Score { noticed: 8, missed: 1 };
        assert!(short.check_score().expect_err("short").starts_with("FAILED: below 90 %"));
        assert_eq!(Score { noticed: 0, missed: 0 }.check_score(), Ok(()));
        assert_eq!(Score::read("{}"), None);
    }

    /// A moved file would be left out silently.
    #[test]
    fn every_examined_file_is_there() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let text = fs::read_to_string(root.join(".cargo/mutants.toml")).expect("the settings");
        let settings = text.parse::<toml::Table>().expect("TOML");
        let globs = settings["examine_globs"].as_array().expect("a list");
        for glob in globs.iter().map(|glob| glob.as_str().expect("a path")) {
            let is_there = root.join(glob).is_file();
            assert!(is_there, "{glob} has moved");
        }
    }
}
