//! Removing the contents of a home.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::{
    CONFIG, ECHO, GENERATOR, Home, MESH, MESH_CELLS, MIXNET, RELAY, RUN, STATE, VAULT, private,
};
use crate::api::Fault;

/// The file in echo's home that records that this home had no relay before the demonstration.
const RELAY_IS_OURS: &str = "relay-of-demonstration";

/// Files whose keys open everything else.
const KEYS: [&str; 6] =
    [GENERATOR, "vault/head", "vault/keyring", "vault/move-in", "relay/key", MESH];

impl Home {
    /// Marks this home as a demonstration, before it holds anything like a user's data. A relay
    /// that exists already belongs to the user, and stays when the demonstration is removed.
    ///
    /// # Errors
    /// Exit codes 73 or 77 if the folders cannot be made.
    pub fn mark_as_demonstration(&self) -> Result<(), Fault> {
        if self.is_demonstration() {
            return Ok(());
        }
        let has_relay = self.relay().join("key").exists();
        self.echo().make_folders()?;
        if has_relay { Ok(()) } else { private::make(&self.echo().root().join(RELAY_IS_OURS)) }
    }

    /// Removes the demonstration of this home. The mark is removed last, so that an interrupted
    /// removal can be repeated. Returns true if a relay from before the demonstration is left.
    ///
    /// # Errors
    /// Exit code 73 if a folder cannot be removed.
    pub fn remove_demonstration(&self) -> Result<bool, Fault> {
        let owns_relay = self.echo().root().join(RELAY_IS_OURS).exists();
        let relay = owns_relay.then_some(RELAY);
        let names = [VAULT, MIXNET].into_iter().chain(relay).chain([MESH]).chain(MESH_CELLS);
        let names = names.chain([RUN, ECHO]);
        remove_all(names.map(|name| self.root().join(name)))?;
        // Removes the folder only if it is empty.
        let _ = fs::remove_dir(self.root());
        Ok(!owns_relay && self.relay().exists())
    }

    /// Lists our parts of this home in words. Other contents of the folder are not touched.
    pub fn list_parts(&self) -> Vec<&'static str> {
        let named = [
            (VAULT, "an identity with its notes"),
            (RELAY, "a relay with its mail"),
            (MESH, "networks of the mesh"),
            (MESH_CELLS[0], "messages of others that the mesh carries"),
            (CONFIG, "settings"),
        ];
        let holds = |name: &&(&str, &str)| is_filled(&self.root().join(name.0));
        named.iter().filter(holds).map(|(_, words)| *words).collect()
    }

    /// Removes all of our files. The keys are overwritten in place first, so that after an
    /// interruption nothing can be opened.
    ///
    /// # Errors
    /// Exit code 73 if a file cannot be removed.
    pub fn purge(&self) -> Result<(), Fault> {
        for key in KEYS {
            // A key file that cannot be overwritten is removed below, or its fault is reported
            // there.
            drop(private::wipe(&self.root().join(key)));
        }
        let parts = [VAULT, RELAY, MESH, STATE, RUN, GENERATOR].into_iter().chain(MESH_CELLS);
        let parts = parts.map(|name| self.root().join(name));
        remove_all(parts.chain([self.config()]))?;
        // Foreign files in this folder stay, and so does the folder.
        let _ = fs::remove_dir(self.root());
        Ok(())
    }

    /// Removes the witness of a removed vault, if there is a single one and `ours` is true. Returns
    /// the number of those left.
    ///
    /// # Errors
    /// Exit code 73 if the file cannot be removed.
    pub fn remove_witness(&self, ours: bool) -> Result<usize, Fault> {
        let entries = fs::read_dir(self.state()).into_iter().flatten().flatten();
        let files: Vec<_> =
            entries.map(|entry| entry.path()).filter(|path| path.is_file()).collect();
        match &files[..] {
            [only] if ours => {
                remove_path(only)?;
                let _ = fs::remove_dir(self.state());
                Ok(0)
            }
            files => Ok(files.len()),
        }
    }
}

/// Returns true for an existing file or a folder that is not empty.
fn is_filled(path: &Path) -> bool {
    match fs::read_dir(path) {
        Ok(mut entries) => entries.next().is_some(),
        Err(_) => path.exists(),
    }
}

/// Removes files and folders. All are tried even if one cannot be removed: each removed part helps
/// a user in danger (NODE-19).
fn remove_all(paths: impl Iterator<Item = PathBuf>) -> Result<(), Fault> {
    let faults: Vec<Fault> = paths.filter_map(|path| remove_path(&path).err()).collect();
    let Some(first) = faults.first() else { return Ok(()) };
    let texts: Vec<&str> = faults.iter().map(|fault| fault.text.as_str()).collect();
    Err(Fault::new(first.code, texts.join("; "), first.next.clone()))
}

/// Removes a file, or a folder with its contents. Links are not followed.
fn remove_path(path: &Path) -> Result<(), Fault> {
    let done = match path.symlink_metadata() {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match done {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(private::cannot_write(path, &error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn home_with_all(root: &Path) -> Home {
        let home = Home::find_among(Some(root), |_| None).unwrap();
        home.make_folders().unwrap();
        for folder in [VAULT, RELAY, STATE, RUN] {
            private::make_folder(&root.join(folder)).unwrap();
            private::replace(&root.join(folder).join("file"), b"x").unwrap();
        }
        // The mesh network is a file that holds its key.
        private::replace(&root.join(MESH), b"mezzavoce:n1/qhhx").unwrap();
        private::replace(&home.config(), b"").unwrap();
        home
    }

    #[test]
    fn node_19_purge_removes_files_and_folders() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("home");
        home_with_all(&root).purge().unwrap();
        assert!(!root.exists());
    }

    #[test]
    fn node_19_one_part_that_stays_keeps_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("home");
        let home = home_with_all(&root);
        // Root can remove the folder anyway; then there is no fault to report.
        let locked = root.join(VAULT);
        fs::set_permissions(&locked, fs::Permissions::from_mode(0o500)).unwrap();
        let done = home.purge();
        assert!(!root.join(MESH).exists() && !home.config().exists() && !root.join(STATE).exists());
        assert_eq!(done.is_err(), locked.exists());
        if locked.exists() {
            fs::set_permissions(&locked, fs::Permissions::from_mode(0o700)).unwrap();
        }
    }
}
