//! The files of the repository as the checks read them.

use super::source::code_only;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs;
use std::path::Path;
use toml::Table;

/// Folders of generated files, which are skipped.
const MADE: [&str; 8] =
    ["target", "node_modules", ".git", "var", "dist", "corpus", "artifacts", "__pycache__"];

/// The text files of the repository, by their path relative to it (`/` as separator).
pub struct Tree {
    files: BTreeMap<String, String>,
    /// The parsed `Cargo.toml` files.
    manifests: BTreeMap<String, Table>,
    /// The Rust files without comments and strings.
    code: BTreeMap<String, String>,
}

impl Tree {
    /// Reads every text file below `root`. Files that are not UTF-8 are skipped.
    pub fn read(root: &Path) -> Result<Self, String> {
        let mut files = BTreeMap::new();
        walk_folder(root, "", &mut files)?;
        let manifests = parse_files(&files, "Cargo.toml", str::parse::<Table>)?;
        let code = parse_files(&files, ".rs", code_only)?;
        Ok(Self { files, manifests, code })
    }

    /// Returns all files, in order of path.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// Returns the files whose name ends with `.` and one of `endings`.
    pub fn files_ending<'a>(
        &'a self,
        endings: &'a [&str],
    ) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.iter().filter(|(path, _)| {
            path.rsplit_once('.').is_some_and(|(_, ending)| endings.contains(&ending))
        })
    }

    /// Returns all Rust files without comments and strings; each line keeps its number.
    pub fn code(&self) -> impl Iterator<Item = (&str, &str)> {
        self.code.iter().map(|(path, code)| (path.as_str(), code.as_str()))
    }

    /// Returns one manifest.
    pub fn manifest(&self, path: &str) -> Option<&Table> {
        self.manifests.get(path)
    }

    /// Returns the folders in `crates/` that hold a manifest, with that manifest.
    pub fn crates(&self) -> impl Iterator<Item = (&str, &Table)> {
        self.manifests.iter().filter_map(|(path, manifest)| {
            let name = path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml")?;
            (!name.contains('/')).then_some((name, manifest))
        })
    }
}

/// Returns the result of `read` for each file whose path ends with `ending`.
fn parse_files<T, E: Display>(
    files: &BTreeMap<String, String>,
    ending: &str,
    read: impl Fn(&str) -> Result<T, E>,
) -> Result<BTreeMap<String, T>, String> {
    let files = files.iter().filter(|(path, _)| path.ends_with(ending));
    let parsed = files.map(|(path, text)| match read(text) {
        Ok(parsed) => Ok((path.clone(), parsed)),
        Err(e) => Err(format!("{path}: {e}")),
    });
    parsed.collect()
}

fn walk_folder(
    root: &Path,
    inside: &str,
    files: &mut BTreeMap<String, String>,
) -> Result<(), String> {
    let folder = root.join(inside);
    let entries = fs::read_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if inside.is_empty() { name.clone() } else { format!("{inside}/{name}") };
        let Ok(kind) = entry.file_type() else { continue };
        // The built page is inside the crate that embeds it; `.git` is a file in a second checkout.
        if MADE.contains(&name.as_str()) || path == "crates/mezza/page" {
            continue;
        }
        if kind.is_dir() {
            walk_folder(root, &path, files)?;
        } else if kind.is_file()
            && let Ok(text) = fs::read_to_string(entry.path())
        {
            files.insert(path, text);
        }
    }
    Ok(())
}
