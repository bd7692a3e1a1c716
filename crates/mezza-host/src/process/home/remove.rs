//! Removing what a home holds.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use super::{CONFIG, ECHO, Home, MESH, MIXNET, RELAY, RUN, STATE, VAULT, private};
use crate::api::Fault;

/// The file in the echo's home that says: this home had no relay before the demonstration.
const RELAY_IS_OURS: &str = "relay-of-demonstration";

impl Home {
    /// Marks this home as one of a demonstration, before anything in it looks like a person's. A relay
    /// that is in it already is somebody's own, and stays when the demonstration goes.
    ///
    /// # Errors
    /// 73 or 77 if the folders cannot be made.
    pub fn mark_as_demonstration(&self) -> Result<(), Fault> {
        if self.is_demonstration() {
            return Ok(());
        }
        let has_relay = self.relay().join("key").exists();
        self.echo().make()?;
        if has_relay { Ok(()) } else { private::make(&self.echo().root().join(RELAY_IS_OURS)) }
    }

    /// Removes the demonstration of this home. The mark goes last: what an interruption leaves is still
    /// a demonstration. `true`: a relay that was there before it is left.
    ///
    /// # Errors
    /// 73 if a folder cannot be removed.
    pub fn remove_demonstration(&self) -> Result<bool, Fault> {
        let owns_relay = self.echo().root().join(RELAY_IS_OURS).exists();
        let relay = owns_relay.then_some(RELAY);
        for name in [VAULT, MIXNET].into_iter().chain(relay).chain([RUN, ECHO]) {
            remove_folder(&self.root().join(name))?;
        }
        // Nothing but the demonstration was in it, or it stays.
        let _ = fs::remove_dir(self.root());
        Ok(!owns_relay && self.relay().exists())
    }

    /// What of ours is in this home, in words. Nothing else in its folder is touched.
    pub fn parts(&self) -> Vec<&'static str> {
        let named = [
            (VAULT, "an identity with its notes"),
            (RELAY, "a relay with its mail"),
            (MESH, "networks of the mesh"),
            (CONFIG, "settings"),
        ];
        let holds = |name: &&(&str, &str)| is_filled(&self.root().join(name.0));
        named.iter().filter(holds).map(|(_, words)| *words).collect()
    }

    /// Removes all that is ours, the keys first: what an interruption leaves opens for nobody.
    ///
    /// # Errors
    /// 73 if something cannot be removed.
    pub fn purge(&self) -> Result<(), Fault> {
        for name in [VAULT, RELAY, MESH, STATE, RUN] {
            remove_folder(&self.root().join(name))?;
        }
        remove_file(&self.config())?;
        // What somebody else keeps in this folder stays, and the folder with it.
        let _ = fs::remove_dir(self.root());
        Ok(())
    }

    /// Removes the witness of a vault that is gone, if there is a single one and it is `ours`; the
    /// number of those that stay.
    ///
    /// # Errors
    /// 73 if it cannot be removed.
    pub fn remove_witness(&self, ours: bool) -> Result<usize, Fault> {
        let entries = fs::read_dir(self.state()).into_iter().flatten().flatten();
        let files: Vec<_> =
            entries.map(|entry| entry.path()).filter(|path| path.is_file()).collect();
        match &files[..] {
            [only] if ours => {
                remove_file(only)?;
                let _ = fs::remove_dir(self.state());
                Ok(0)
            }
            files => Ok(files.len()),
        }
    }
}

/// Whether there is a file, or a folder with something in it.
fn is_filled(path: &Path) -> bool {
    match fs::read_dir(path) {
        Ok(mut entries) => entries.next().is_some(),
        Err(_) => path.exists(),
    }
}

fn remove_file(file: &Path) -> Result<(), Fault> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(private::cannot_write(file, &error))
        }
        _ => Ok(()),
    }
}

fn remove_folder(folder: &Path) -> Result<(), Fault> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(private::cannot_write(folder, &error))
        }
        _ => Ok(()),
    }
}
