//! The Debian package: a folder as it is installed, packed by `dpkg-deb`.

use super::{DistPlan, run_tool};
use std::fmt::Write as _;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

/// The repository's files in the package: a path there, and the folder here.
const PLAIN_FILES: [(&str, &str); 4] = [
    ("README.md", "usr/share/doc/mezza"),
    ("SECURITY.md", "usr/share/doc/mezza"),
    ("docs/threat-model.md", "usr/share/doc/mezza"),
    ("packaging/debian/copyright", "usr/share/doc/mezza"),
];
/// The lists of users and folders that `postinst` makes: the file here, and its path there.
const SYSTEM_LISTS: [(&str, &str); 2] = [
    ("packaging/mezza.sysusers", "usr/lib/sysusers.d/mezza.conf"),
    ("packaging/mezza.tmpfiles", "usr/lib/tmpfiles.d/mezza.conf"),
];
/// The scripts that dpkg runs.
const SCRIPTS: [&str; 3] = ["postinst", "postrm", "prerm"];
/// Completions: the shell, the folder and the name of its file.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/mezza"),
    ("fish", "usr/share/fish/vendor_completions.d/mezza.fish"),
    ("zsh", "usr/share/zsh/vendor-completions/_mezza"),
];
/// The marker of the symbol versions of the C library.
const C_LIBRARY: &[u8] = b"GLIBC_2.";

/// Makes the package. Returns its path.
///
/// # Errors
/// The tool or the file that failed.
pub(super) fn make_package(plan: &DistPlan) -> Result<PathBuf, String> {
    let stage = plan.out.join("stage");
    if stage.exists() {
        fs::remove_dir_all(&stage).map_err(|e| format!("{}: {e}", stage.display()))?;
    }
    let tree = Tree { root: stage.clone() };
    add_program(plan, &tree)?;
    add_manuals(&tree)?;
    add_documents(plan, &tree)?;
    add_units(plan, &tree)?;
    let machine = run_tool(Command::new("dpkg").arg("--print-architecture"))?;
    let machine = String::from_utf8_lossy(&machine).trim().to_owned();
    add_control(plan, &tree, &machine)?;
    let epoch = SystemTime::UNIX_EPOCH + Duration::from_secs(plan.epoch_s);
    normalise_tree(&stage, epoch)?;
    let package = plan.out.join(format!("mezza_{}_{machine}.deb", plan.version));
    let mut pack = Command::new("dpkg-deb");
    // With more than one thread the compressed blocks, and so the bytes, would differ.
    pack.args([
        "--root-owner-group",
        "--threads-max=1",
        &format!("-Z{}", plan.compression),
        "--build",
    ]);
    pack.arg(&stage).arg(&package).env("SOURCE_DATE_EPOCH", plan.epoch_s.to_string());
    run_tool(&mut pack)?;
    fs::remove_dir_all(&stage).map_err(|e| format!("{}: {e}", stage.display()))?;
    Ok(package)
}

/// The folder with all files of the package.
struct Tree {
    root: PathBuf,
}

impl Tree {
    /// Returns a path in the package. Its folder is made.
    fn make_path(&self, path: &str) -> Result<PathBuf, String> {
        let path = self.root.join(path);
        let folder = path.parent().unwrap_or(&self.root);
        fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        Ok(path)
    }

    fn write_file(&self, path: &str, bytes: &[u8]) -> Result<(), String> {
        let path = self.make_path(path)?;
        fs::write(&path, bytes).map_err(|e| format!("{}: {e}", path.display()))
    }

    fn copy_file(&self, from: &Path, folder: &str) -> Result<(), String> {
        let name = from.file_name().unwrap_or_default().to_string_lossy();
        let bytes = fs::read(from).map_err(|e| format!("{}: {e}", from.display()))?;
        self.write_file(&format!("{folder}/{name}"), &bytes)
    }

    fn program(&self) -> PathBuf {
        self.root.join("usr/bin/mezza")
    }
}

fn add_program(plan: &DistPlan, tree: &Tree) -> Result<(), String> {
    let program = tree.make_path("usr/bin/mezza")?;
    run_tool(Command::new("strip").arg("--strip-all").arg("-o").arg(program).arg(&plan.binary))?;
    Ok(())
}

/// Adds man pages and completions, which the program makes itself.
fn add_manuals(tree: &Tree) -> Result<(), String> {
    let folder = tree.make_path("usr/share/man/man1/mezza.1")?;
    let folder = folder.parent().unwrap_or(&tree.root);
    let own = || {
        let mut command = Command::new(tree.program());
        command.env_clear().env("HOME", "/nonexistent");
        command
    };
    run_tool(own().arg("man").arg(folder))?;
    let pages = super::list_files(folder)?;
    // Without name and time of the file, which would differ each time.
    run_tool(Command::new("gzip").current_dir(folder).args(["-9", "-n"]).args(pages))?;
    for (shell, path) in COMPLETIONS {
        tree.write_file(path, &run_tool(own().args(["completions", shell]))?)?;
    }
    Ok(())
}

fn add_documents(plan: &DistPlan, tree: &Tree) -> Result<(), String> {
    for (from, folder) in PLAIN_FILES {
        tree.copy_file(&plan.root.join(from), folder)?;
    }
    for (from, path) in SYSTEM_LISTS {
        let bytes = fs::read(plan.root.join(from)).map_err(|e| format!("{from}: {e}"))?;
        tree.write_file(path, &bytes)?;
    }
    let guides = plan.root.join("docs/guide");
    for name in super::list_files(&guides)? {
        tree.copy_file(&guides.join(name), "usr/share/doc/mezza/guide")?;
    }
    tree.copy_file(&plan.root.join("CHANGELOG.md"), "usr/share/doc/mezza")?;
    let folder = tree.root.join("usr/share/doc/mezza");
    run_tool(Command::new("gzip").current_dir(&folder).args(["-9", "-n", "CHANGELOG.md"]))?;
    fs::rename(folder.join("CHANGELOG.md.gz"), folder.join("changelog.gz"))
        .map_err(|e| e.to_string())
}

fn add_units(plan: &DistPlan, tree: &Tree) -> Result<(), String> {
    for unit in list_units(plan.root)? {
        tree.copy_file(&unit, "usr/lib/systemd/system")?;
    }
    Ok(())
}

/// Returns the paths of all units, sorted.
///
/// # Errors
/// If the folder cannot be read.
pub(super) fn list_units(root: &Path) -> Result<Vec<PathBuf>, String> {
    let folder = root.join("packaging");
    let names = super::list_files(&folder)?;
    Ok(names
        .into_iter()
        .filter(|name| name.ends_with(".service"))
        .map(|name| folder.join(name))
        .collect())
}

fn add_control(plan: &DistPlan, tree: &Tree, machine: &str) -> Result<(), String> {
    let program = fs::read(tree.program()).map_err(|e| e.to_string())?;
    let files = list_tree(&tree.root)?;
    let bytes: u64 =
        files.iter().filter_map(|path| Some(tree.root.join(path).metadata().ok()?.len())).sum();
    let control = format!(
        "Package: mezza\nVersion: {}\nArchitecture: {machine}\n\
         Maintainer: The Mezzavoce contributors <mezzavoce@localhost>\nHomepage: {}\nInstalled-Size: {}\n\
         Depends: libc6 (>= 2.{}), libgcc-s1, systemd | systemd-sysusers, systemd | systemd-tmpfiles\n\
         Section: net\nPriority: optional\n\
         Description: private messages over whatever path is available\n \
         One program is your device, your relay, your command line and your web page. It\n \
         has units for a node, a relay, the servers of a mixnet, a mesh and links.\n .\n \
         Nobody has audited it.\n",
        plan.version,
        plan.repository,
        bytes.div_ceil(1_024),
        needed_c_library(&program),
    );
    let sums = run_tool(Command::new("md5sum").current_dir(&tree.root).args(&files))?;
    tree.write_file("DEBIAN/control", control.as_bytes())?;
    tree.write_file("DEBIAN/md5sums", &sums)?;
    for script in SCRIPTS {
        tree.copy_file(&plan.root.join("packaging/debian").join(script), "DEBIAN")?;
    }
    Ok(())
}

/// Returns the newest minor version of the C library that a program asks for.
fn needed_c_library(program: &[u8]) -> u32 {
    let places =
        program.windows(C_LIBRARY.len()).enumerate().filter(|(_, bytes)| *bytes == C_LIBRARY);
    let minors = places.filter_map(|(at, _)| {
        let rest = &program[at + C_LIBRARY.len()..];
        let digits = rest.iter().take(3).take_while(|byte| byte.is_ascii_digit()).count();
        std::str::from_utf8(&rest[..digits]).ok()?.parse::<u32>().ok()
    });
    minors.max().unwrap_or(0)
}

/// Returns the paths of all files below a folder, relative to it, sorted.
fn list_tree(root: &Path) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(|e| e.to_string())?.flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(relative) = path.strip_prefix(root) {
                found.push(relative.to_string_lossy().into_owned());
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Gives all files and folders the modes of a package and one time.
fn normalise_tree(path: &Path, at: SystemTime) -> Result<(), String> {
    let text = path.to_string_lossy().into_owned();
    let runs = text.contains("/usr/bin/")
        || SCRIPTS.iter().any(|name| text.ends_with(&format!("/DEBIAN/{name}")));
    let mode = if path.is_dir() || runs { 0o755 } else { 0o644 };
    if path.is_dir() {
        for entry in fs::read_dir(path).map_err(|e| e.to_string())?.flatten() {
            normalise_tree(&entry.path(), at)?;
        }
    }
    let settle = || {
        fs::set_permissions(path, Permissions::from_mode(mode))?;
        File::open(path)?.set_modified(at)
    };
    settle().map_err(|e| format!("{text}: {e}"))
}

/// Returns the exposure of a unit as systemd rates it, from 0 (closed) to 10 (open).
///
/// # Errors
/// If `systemd-analyze` fails.
pub(super) fn rate_unit(unit: &Path) -> Result<f64, String> {
    let mut analyze = Command::new("systemd-analyze");
    analyze.args(["security", "--offline=true", "--no-pager"]).arg(unit);
    let text = run_tool(analyze.env("SYSTEMD_COLORS", "0"))?;
    let text = String::from_utf8_lossy(&text).into_owned();
    let line = text.lines().rev().find(|line| line.contains("exposure level"));
    let value =
        line.and_then(|line| line.rsplit_once(": ")?.1.split_whitespace().next()?.parse().ok());
    value.ok_or_else(|| {
        let mut report = format!("{}: no exposure level in:", unit.display());
        let _ = write!(report, "\n{text}");
        report
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_symbol_decides_about_the_c_library() {
        assert_eq!(needed_c_library(b"..GLIBC_2.4\0GLIBC_2.34\0GLIBC_2.17\0"), 34);
        assert_eq!(needed_c_library(b"static, GLIBC_PRIVATE, GLIBC_2."), 0);
    }
}
