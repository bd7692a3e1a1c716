//! The check of the package: two builds must be equal, its units must be hardened, and what it
//! installs must run.
//!
//! The package is installed into a folder with nothing else, and by apt into a fresh Debian root. In each
//! of them a relay and a node run by the command lines of their units, and the node has to get an answer
//! of the relay.

mod root;

use super::{DistPlan, deb, make_files};
use crate::machine;
use crate::run::find_program;
use crate::test::format_time;
use root::FreshRoot;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The highest exposure that a unit may have, as systemd rates it.
const EXPOSURE_MAX: f64 = 2.5;
/// How long the check waits for an answer. The goal is 60 s after the installation; the log has the time,
/// and a busy machine fails no check.
const PATIENCE: Duration = Duration::from_secs(300);

/// Checks the package of a program. Returns what was skipped, with reasons.
///
/// # Errors
/// The first check that failed.
pub fn check_package(
    root: &Path,
    binary: &Path,
    folder: &Path,
    log: &mut File,
) -> Result<Vec<String>, String> {
    if find_program(&["dpkg-deb"]).is_none() {
        return Ok(vec!["package: no dpkg-deb; run it on Debian".to_owned()]);
    }
    let mut skipped = Vec::new();
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    }
    let package = build_twice(root, binary, folder)?;
    if find_program(&["systemd-analyze"]).is_some() {
        rate_units(root, log)?;
    } else {
        skipped.push("package: no systemd-analyze; apt install systemd".to_owned());
    }
    if machine::is_root() {
        let alone = FreshRoot::prepare_bare(&folder.join("root"))?;
        check_root(&alone, &package, log)?;
        match FreshRoot::bootstrap_debian(
            &folder.join("debian"),
            &folder.with_file_name("package-cache"),
        )? {
            Ok(debian) => check_root(&debian, &package, log)?,
            Err(reason) => skipped.push(reason),
        }
    } else {
        skipped.push("package: only root installs it; run as root".to_owned());
    }
    fs::remove_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    Ok(skipped)
}

/// Builds the package and the bill in two folders, and compares them.
fn build_twice(root: &Path, binary: &Path, folder: &Path) -> Result<PathBuf, String> {
    let build = |name: &str| {
        let plan = DistPlan::new(root, binary.to_path_buf(), folder.join(name), "none")?;
        make_files(&plan)
    };
    let first = build("one")?;
    // Another second, so that a time of the clock would show.
    sleep(Duration::from_millis(1_100));
    let second = build("two")?;
    for (one, two) in first.iter().zip(&second) {
        let read = |file: &PathBuf| fs::read(file).map_err(|e| format!("{}: {e}", file.display()));
        if read(one)? != read(two)? {
            return Err(format!("two builds of {} differ", one.display()));
        }
    }
    first.into_iter().next().ok_or_else(|| "no package was made".into())
}

fn rate_units(root: &Path, log: &mut File) -> Result<(), String> {
    let units = deb::list_units(root)?;
    for unit in &units {
        let exposure = deb::rate_unit(unit)?;
        let _ = writeln!(log, "{exposure:.1}  {}", unit.display());
        if exposure > EXPOSURE_MAX {
            return Err(format!("{}: exposure {exposure}, at most {EXPOSURE_MAX}", unit.display()));
        }
    }
    if units.len() < 7 {
        return Err(format!("{} units, 7 are expected", units.len()));
    }
    Ok(())
}

/// Installs the package in a root, and runs its units until the relay has answered the node.
fn check_root(system: &FreshRoot, package: &Path, log: &mut File) -> Result<(), String> {
    let begun = Instant::now();
    system.install(package)?;
    system.check_files()?;
    system.run_units()?;
    let time = format_time(begun.elapsed());
    let _ = writeln!(log, "{system}: from the installation to the first answer: {time}");
    Ok(())
}
