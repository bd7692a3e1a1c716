//! The web page: built from `ui/` into the folder that the program embeds, once per content.

use crate::machine;
use crate::run::{Logs, run_logged};
use std::fmt;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The result of building the page.
pub enum Built {
    /// Built now.
    Now,
    /// Built earlier from the same sources.
    Before,
    /// Not built.
    Not(Missing),
}

/// A requirement of the page that this machine does not meet.
pub struct Missing {
    /// The missing tool or file.
    pub what: String,
    /// The next step.
    pub step: &'static str,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.what, self.step)
    }
}

/// Returns the folder of the page's sources.
pub fn page_folder(root: &Path) -> PathBuf {
    root.join("ui")
}

/// Returns the first requirement of the page that this machine does not meet.
pub fn missing_requirement(root: &Path) -> Option<Missing> {
    if !page_folder(root).join("package.json").is_file() {
        let what = "no ui/ in this tree".to_owned();
        return Some(Missing { what, step: "take a full checkout" });
    }
    let what = match machine::node_version() {
        Some((major, minor)) if machine::node_is_supported(major, minor) => return None,
        Some((major, minor)) => format!("node {major}.{minor} is not supported"),
        None => "node not found".to_owned(),
    };
    Some(Missing { what, step: "install Node 20.19 or newer (not 21, not 22.0-22.11)" })
}

/// Returns a command of `npm` in `ui/`.
pub fn npm_command(root: &Path, args: &[&str]) -> Command {
    let mut command = Command::new("npm");
    command.current_dir(page_folder(root)).args(args).env_remove("MEZZA_REQUIRE_ALL");
    command
}

/// Builds the page unless the last build had the same sources.
pub fn build_page(root: &Path, logs: &Logs) -> Result<Built, String> {
    if let Some(reason) = missing_requirement(root) {
        return Ok(Built::Not(reason));
    }
    let mark = logs.path("page").with_extension("hash");
    let hash = content_hash(&page_folder(root))?;
    let page = root.join("crates/mezza/page/index.html");
    if page.is_file() && fs::read_to_string(&mark).is_ok_and(|last| last == hash) {
        return Ok(Built::Before);
    }
    let mut log = logs.open("page")?;
    for args in [["ci"].as_slice(), &["run", "build"]] {
        let ended = run_logged(&mut npm_command(root, args), &mut log)?;
        if !ended.ok {
            let tail = ended.tail.join("\n");
            let log = logs.path("page");
            return Err(format!(
                "{tail}\nnpm {} failed (log: {}); repair it, or run with --no-web",
                args.join(" "),
                log.display()
            ));
        }
    }
    fs::write(&mark, &hash).map_err(|e| format!("{}: {e}", mark.display()))?;
    Ok(Built::Now)
}

/// Returns a hash of all source files below `folder`. It is valid on this machine only.
fn content_hash(folder: &Path) -> Result<String, String> {
    let mut hasher = DefaultHasher::new();
    hash_folder(folder, &mut hasher).map_err(|e| format!("{}: {e}", folder.display()))?;
    Ok(format!("{:016x}", hasher.finish()))
}

fn hash_folder(folder: &Path, hasher: &mut DefaultHasher) -> std::io::Result<()> {
    let mut entries = fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let kind = entry.file_type()?;
        let name = entry.file_name();
        if kind.is_dir() && name != "node_modules" && name != "dist" {
            hash_folder(&entry.path(), hasher)?;
        } else if kind.is_file() {
            (entry.path(), fs::read(entry.path())?).hash(hasher);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_sees_content_and_names() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/xtask-planted/hash");
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("src")).expect("folder");
        fs::write(folder.join("src/a.ts"), "1").expect("file");
        let first = content_hash(&folder).expect("hash");
        assert_eq!(first, content_hash(&folder).expect("hash"));
        fs::create_dir_all(folder.join("node_modules")).expect("folder");
        fs::write(folder.join("node_modules/x.js"), "1").expect("file");
        assert_eq!(first, content_hash(&folder).expect("hash"));
        fs::write(folder.join("src/a.ts"), "2").expect("file");
        let second = content_hash(&folder).expect("hash");
        fs::rename(folder.join("src/a.ts"), folder.join("src/b.ts")).expect("rename");
        let third = content_hash(&folder).expect("hash");
        assert!(first != second && second != third);
    }
}
