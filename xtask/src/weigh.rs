//! `cargo xtask weigh`: CPU seconds per crate of a cold release build of the program.
//!
//! Cargo runs this program instead of rustc (`RUSTC_WRAPPER`), and the build scripts run it instead
//! of the C compiler (`CC`). This program runs the real compiler, and the kernel then reports the
//! CPU time of ended children. Other work of build scripts is small and not counted. One compiler
//! runs at a time, because two on one core would raise each other's CPU time.

use crate::machine;
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, ExitCode};

/// Maximum sum of all crates divided by libsqlite3-sys: the dependency budget.
const RATIO_MAX: f64 = 10.0;
/// Maximum CPU seconds of the whole build; they also depend on the machine.
const SECONDS_MAX: f64 = 600.0;
/// The unit of the ratio: widely used C code, compiled in the same build.
const MEASURE: &str = "libsqlite3-sys";
/// The kernel counts hundredths of a second on every Linux that cargo supports.
const TICKS_PER_S: f64 = 100.0;

/// The file that compilers write to while a build is weighed.
const LEDGER: &str = "MEZZA_WEIGH_LEDGER";
/// The variable with the real C compiler.
const REAL_CC: &str = "MEZZA_WEIGH_CC";
/// The name under which this program is a C compiler.
const CC_NAME: &str = "mezza-weigh-cc";

/// If cargo or a build script called this program as a compiler, runs the compiler and returns its
/// exit code.
pub fn run_as_compiler(own_name: &str, args: &[String]) -> Option<ExitCode> {
    let ledger = std::env::var_os(LEDGER)?;
    let called_as_cc = Path::new(own_name).file_name().is_some_and(|name| name == CC_NAME);
    let (program, args) = if called_as_cc {
        (std::env::var(REAL_CC).unwrap_or_else(|_| "cc".to_owned()), args)
    } else {
        let (program, args) = args.split_first()?;
        (program.clone(), args)
    };
    let status = Command::new(&program).args(args).status();
    let name = std::env::var("CARGO_PKG_NAME").unwrap_or_else(|_| "(cargo)".to_owned());
    let line = format!("{name} {}\n", children_ticks());
    let file = OpenOptions::new().append(true).create(true).open(ledger);
    // One short write to a file opened for appending is atomic.
    let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
    match (status, written) {
        (Ok(status), Ok(())) => Some(match status.code() {
            Some(code) => ExitCode::from(u8::try_from(code).unwrap_or(1)),
            None => ExitCode::FAILURE,
        }),
        (Err(e), _) => {
            eprintln!("{program}: {e}");
            Some(ExitCode::FAILURE)
        }
        (_, Err(e)) => {
            eprintln!("weigh: the ledger cannot be written: {e}");
            Some(ExitCode::FAILURE)
        }
    }
}

/// Builds the program from scratch and prints the CPU time of each crate.
pub fn weigh_crates(root: &Path) -> Result<(), String> {
    let folder = machine::target_folder(root).join("weigh");
    let _ = fs::remove_dir_all(&folder);
    let told = |e: std::io::Error| format!("{}: {e}", folder.display());
    fs::create_dir_all(&folder).map_err(told)?;
    // The build runs a copy of this program, because a concurrent build of xtask would replace it.
    let own = folder.join("xtask");
    let ledger = folder.join("ledger");
    let cc = folder.join(CC_NAME);
    fs::copy(std::env::current_exe().map_err(told)?, &own).map_err(told)?;
    symlink(&own, &cc).map_err(told)?;
    let mut build = machine::cargo_command(root);
    build.args(["build", "--release", "--jobs", "1", "-p", "mezza"]);
    build.env("CARGO_TARGET_DIR", folder.join("build")).env("RUSTC_WRAPPER", &own);
    let real = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    build.env(LEDGER, &ledger).env(REAL_CC, real).env("CC", &cc);
    let status = build.status().map_err(|e| format!("cargo: {e}"))?;
    if !status.success() {
        return Err(format!("the program did not build ({status}); the compiler's text is above"));
    }
    let text = fs::read_to_string(&ledger).map_err(told)?;
    let _ = fs::remove_dir_all(folder.join("build"));
    print_report(&text)
}

/// Prints the table and compares the sum with the limit.
fn print_report(ledger: &str) -> Result<(), String> {
    let crates = read_costs(ledger);
    let sum = crates.iter().map(|(_, seconds)| seconds).sum::<f64>();
    println!("{:>8}  crate", "CPU s");
    for (name, seconds) in &crates {
        println!("{seconds:>8.1}  {name}");
    }
    println!("{sum:>8.1}  in all, {} crates", crates.len());
    let measure = crates.iter().find(|(name, _)| name == MEASURE).map(|(_, seconds)| *seconds);
    let Some(measure) = measure.filter(|seconds| *seconds > 0.0) else {
        return Err(format!("{MEASURE} was not built, so there is nothing to measure by"));
    };
    let ratio = sum / measure;
    println!("{ratio:>8.2}  times {MEASURE}; at most {RATIO_MAX}");
    if ratio > RATIO_MAX {
        return Err(format!("{ratio:.2} is above {RATIO_MAX}; take a dependency out or argue"));
    }
    if sum > SECONDS_MAX {
        let next = "take a dependency out, or build on a quicker machine";
        return Err(format!("{sum:.0} s are above {SECONDS_MAX} s; {next}"));
    }
    Ok(())
}

/// Returns the seconds per crate, largest first.
fn read_costs(ledger: &str) -> Vec<(String, f64)> {
    let mut ticks = BTreeMap::<&str, u64>::new();
    for line in ledger.lines() {
        if let Some((name, cost)) = line.rsplit_once(' ') {
            *ticks.entry(name).or_default() += cost.parse::<u64>().unwrap_or(0);
        }
    }
    let seconds = |(name, ticks): (&str, u64)| {
        let ticks = u32::try_from(ticks).unwrap_or(u32::MAX);
        (name.to_owned(), f64::from(ticks) / TICKS_PER_S)
    };
    let mut costs = ticks.into_iter().map(seconds).collect::<Vec<_>>();
    costs.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    costs
}

/// Returns user and system time of all ended children, in ticks.
fn children_ticks() -> u64 {
    fs::read_to_string("/proc/self/stat").map_or(0, |stat| ticks_of(&stat))
}

/// Parses fields 16 and 17 of proc(5) stat; field 2, the name, may contain blanks and ends with
/// `)`.
fn ticks_of(stat: &str) -> u64 {
    let fields = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    let ticks = fields.split(' ').skip(13).take(2);
    ticks.map(|field| field.parse::<u64>().unwrap_or(0)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_those_of_the_children() {
        let stat = "7 (a b) c) S 1 7 7 0 -1 4 10 20 0 0 1 2 300 45 20 0 1 0 99 1 1";
        assert_eq!(ticks_of(stat), 345);
        assert_eq!(ticks_of(""), 0);
    }

    #[test]
    fn costs_add_up_and_sort() {
        let all = read_costs("a 10\nb 250\na 300\n");
        assert_eq!(all, [("a".to_owned(), 3.1), ("b".to_owned(), 2.5)]);
    }

    #[test]
    fn the_limit_is_held() {
        assert!(print_report("libsqlite3-sys 100\nx 900\n").is_ok());
        assert!(print_report("libsqlite3-sys 100\nx 901\n").is_err());
        assert!(print_report("libsqlite3-sys 10000\nx 50000\n").is_ok());
        assert!(print_report("libsqlite3-sys 10000\nx 50001\n").is_err());
        assert!(print_report("x 651\n").is_err());
    }
}
