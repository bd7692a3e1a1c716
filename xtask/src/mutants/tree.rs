//! A copy of the tree to put faults into: all files that git tracks or would add.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Makes `copy` equal to the tree. Files keep their times, so that cargo rebuilds changed files only.
pub fn copy(root: &Path, copy: &Path) -> Result<(), String> {
    if copy.exists() {
        fs::remove_dir_all(copy).map_err(|e| format!("{}: {e}", copy.display()))?;
    }
    for file in files(root)? {
        one(&root.join(&file), &copy.join(&file))
            .map_err(|e| format!("{}: {e}", file.display()))?;
    }
    Ok(())
}

fn files(root: &Path) -> Result<Vec<PathBuf>, String> {
    let mut git = Command::new("git");
    git.current_dir(root).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let output = git.output().map_err(|e| format!("git: {e}; install git"))?;
    if !output.status.success() {
        return Err("git does not list this tree; take a full checkout".to_owned());
    }
    let names = String::from_utf8_lossy(&output.stdout).into_owned();
    let files = names.split('\0').filter(|name| !name.is_empty()).map(PathBuf::from);
    // A file that was deleted and not yet committed is still listed.
    Ok(files.filter(|file| root.join(file).is_file()).collect())
}

fn one(from: &Path, to: &Path) -> std::io::Result<()> {
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::copy(from, to)?;
    File::options().write(true).open(to)?.set_modified(fs::metadata(from)?.modified()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_copy_has_the_times_of_the_tree_and_nothing_else() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let planted = root.join("target/xtask-planted/tree");
        fs::create_dir_all(planted.join("old")).expect("a folder");
        copy(&root, &planted).expect("a copy");
        let time = |root: &Path| fs::metadata(root.join("Cargo.toml"))?.modified();
        assert_eq!(time(&root).expect("a time"), time(&planted).expect("a time"));
        assert!(!planted.join("old").exists() && !planted.join("target").exists());
        fs::remove_dir_all(&planted).expect("away");
    }
}
