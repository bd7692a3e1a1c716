//! The home folder: all that the program stores for one user on this machine.
//!
//! ```text
//! ~/.local/share/mezza    0700
//!   config.toml                  settings; nobody else may write it
//!   vault/                0700   sealed records (module `store`)
//!   generator                    a key from the bytes of a guard (module `process::rng`)
//!   relay/                0700   a relay's key and store, if one runs here
//!   run/                  0700   what a running node tells the command line: socket, URL
//!   echo/                 0700   of a demonstration alone, which it marks: the home of its echo contact
//! ~/.local/share/mezza-demo      the home of the demonstration, unless another one is named
//! ~/.local/state/mezza    0700   how far vaults have come (module `store::witness`)
//! ```
//!
//! Folders have mode 0700 and files 0600, or the program refuses to use them (exit code 77): files
//! that others could access may have been copied or planted, so the user should check them before
//! the mode is fixed.

#[cfg(any(test, feature = "failing-writes"))]
pub mod failing;
pub mod private;
mod remove;

use std::env;
use std::path::{Path, PathBuf};

use crate::api::{Exit, Fault};

/// The environment variable that names the home folder.
pub(crate) const HOME_VARIABLE: &str = "MEZZA_HOME";
/// The folder of the vault, which holds the identity.
const VAULT: &str = "vault";
/// The folder of a relay.
const RELAY: &str = "relay";
/// The folder of a running node.
const RUN: &str = "run";
/// The folder of echo, whose presence marks a demonstration.
const ECHO: &str = "echo";
/// The folder of the mesh.
const MESH: &str = "mesh";
/// The cells of others that the mesh node carries for hours, and the files that SQLite lays beside.
const MESH_CELLS: [&str; 4] =
    ["mesh-cells.db", "mesh-cells.db-journal", "mesh-cells.db-wal", "mesh-cells.db-shm"];
/// The settings file.
const CONFIG: &str = "config.toml";
/// The folder for data that must not be restored with a copy, if the user has no state folder.
const STATE: &str = "state";
/// The file of a generator that got bytes of a guard.
const GENERATOR: &str = "generator";
/// The folder of a demonstration's mixnet.
const MIXNET: &str = "mixnet";

/// The home folder of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home(PathBuf);

impl Home {
    /// Returns the home folder: `flag` (from `--home`), else `MEZZA_HOME`, else `mezza` in the
    /// user's data folder (XDG base directories). Makes no folder.
    pub fn find(flag: Option<&Path>) -> Result<Self, Fault> {
        Self::find_among(flag, |name| {
            env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from)
        })
    }

    /// Returns the home folder as [`Home::find`] does, with the environment as a function.
    pub fn find_among(
        flag: Option<&Path>,
        variable: impl Fn(&str) -> Option<PathBuf>,
    ) -> Result<Self, Fault> {
        let chosen = flag.map(Path::to_path_buf).or_else(|| variable(HOME_VARIABLE));
        chosen
            .map_or_else(|| usual_folder("mezza", variable), Ok)
            .map(|path| Self(where_it_leads(path)))
    }

    /// Returns the default home of the demonstration: a folder next to the usual home, so that a
    /// demonstration never uses a user's home (NODE-6).
    pub fn of_demonstration() -> Result<Self, Fault> {
        usual_folder("mezza-demo", |name| {
            env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from)
        })
        .map(Self)
    }

    /// Makes missing folders and checks existing ones.
    pub fn make_folders(&self) -> Result<(), Fault> {
        private::make_folder(self.root())?;
        [self.vault(), self.relay(), self.run()]
            .iter()
            .try_for_each(|dir| private::make_folder(dir))?;
        self.check_folders()
    }

    /// Checks owner and mode of existing files and folders; missing ones are accepted.
    pub fn check_folders(&self) -> Result<(), Fault> {
        for dir in [self.root().to_path_buf(), self.vault(), self.relay(), self.run()] {
            if dir.symlink_metadata().is_ok() {
                private::check_folder(&dir)?;
            }
        }
        if self.config().exists() { private::check_not_planted(&self.config()) } else { Ok(()) }
    }

    /// Returns the folder itself.
    pub fn root(&self) -> &Path {
        &self.0
    }

    /// Returns the path of the settings.
    pub fn config(&self) -> PathBuf {
        self.0.join(CONFIG)
    }

    /// Returns the path of the generator's key, which exists once a guard has sent bytes.
    pub fn generator(&self) -> PathBuf {
        self.0.join(GENERATOR)
    }

    /// Returns the vault's folder.
    pub fn vault(&self) -> PathBuf {
        self.0.join(VAULT)
    }

    /// Returns the relay's folder.
    pub fn relay(&self) -> PathBuf {
        self.0.join(RELAY)
    }

    /// Returns the folder for data that must not be restored with a copy of this home: `mezza` in
    /// the user's state folder (XDG base directories), or a folder in this home if the user has
    /// none.
    pub fn state(&self) -> PathBuf {
        self.state_among(|name| env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from))
    }

    /// Returns the folder as [`Home::state`] does, with the environment as a function.
    pub fn state_among(&self, variable: impl Fn(&str) -> Option<PathBuf>) -> PathBuf {
        let state = variable("XDG_STATE_HOME").filter(|path| path.is_absolute());
        let usual = || variable("HOME").map(|home| home.join(".local/state"));
        state.or_else(usual).map_or_else(|| self.0.join(STATE), |state| state.join("mezza"))
    }

    /// Returns the folder of a running node.
    pub fn run(&self) -> PathBuf {
        self.0.join(RUN)
    }

    /// Returns the folder of the mesh.
    pub fn mesh(&self) -> PathBuf {
        self.0.join(MESH)
    }

    /// Returns the file with the cells that the mesh node carries for hours.
    pub fn mesh_cells(&self) -> PathBuf {
        self.0.join(MESH_CELLS[0])
    }

    /// Returns the folder of a demonstration's mixnet.
    pub fn mixnet(&self) -> PathBuf {
        self.0.join(MIXNET)
    }

    /// Returns the home of a demonstration's echo contact.
    #[must_use]
    pub fn echo(&self) -> Self {
        Self(self.0.join(ECHO))
    }

    /// Formats a command on this home for pasting: with `--home`, unless this home is the default.
    pub fn format_command(&self, words: &str) -> String {
        if Self::find(None).is_ok_and(|found| found == *self) {
            return format!("mezza {words}");
        }
        let path = std::path::absolute(&self.0).unwrap_or_else(|_| self.0.clone());
        format!("mezza --home {} {words}", quote_path(&path))
    }

    /// Returns the command that removes the demonstration of this home.
    pub fn removal_command(&self) -> String {
        let words = "up --remove";
        let is_its_own = Self::of_demonstration().is_ok_and(|home| home == *self);
        if is_its_own { format!("mezza {words}") } else { self.format_command(words) }
    }

    /// Returns true if this home holds a demonstration.
    pub fn is_demonstration(&self) -> bool {
        self.echo().root().exists()
    }
}

/// Returns the folder that a link leads to. The user chose or made the link to the home; inside of
/// a home no link is followed.
fn where_it_leads(path: PathBuf) -> PathBuf {
    let is_link = path.symlink_metadata().is_ok_and(|found| found.is_symlink());
    if is_link { path.canonicalize().unwrap_or(path) } else { path }
}

/// Quotes a path as one shell word.
pub fn quote_path(path: &Path) -> String {
    let path = path.to_string_lossy();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    if path.chars().all(is_plain) {
        return path.into_owned();
    }
    format!("'{}'", path.replace('\'', "'\\''"))
}

/// Returns the folder `name` in the user's data folder.
fn usual_folder(name: &str, variable: impl Fn(&str) -> Option<PathBuf>) -> Result<PathBuf, Fault> {
    // The specification of XDG_DATA_HOME requires that a relative path is ignored.
    let data = variable("XDG_DATA_HOME").filter(|path| path.is_absolute());
    let usual = || variable("HOME").map(|home| home.join(".local/share"));
    data.or_else(usual).map(|data| data.join(name)).ok_or_else(|| {
        Fault::new(
            Exit::Config,
            "there is no home folder: HOME is not set",
            "name one with `--home DIR` or MEZZA_HOME",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_22_a_home_may_be_a_link_to_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().join("disk");
        let link = folder.path().join("home");
        private::make_folder(&real).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let home = Home::find(Some(&link)).unwrap();
        home.make_folders().unwrap();
        assert_eq!(home.root(), real.canonicalize().unwrap());
        assert!(real.join("vault").is_dir());
        // A link inside the home may have been placed by another program.
        std::fs::remove_dir(real.join("vault")).unwrap();
        std::os::unix::fs::symlink(folder.path(), real.join("vault")).unwrap();
        assert_eq!(home.check_folders().unwrap_err().code, Exit::Denied);
        // A dangling link is reported as such.
        let nowhere = folder.path().join("nowhere");
        std::os::unix::fs::symlink(folder.path().join("gone"), &nowhere).unwrap();
        assert!(Home::find(Some(&nowhere)).unwrap().make_folders().is_err());
    }

    #[test]
    fn web_2_a_command_names_the_home_and_survives_a_shell() {
        let command = |path: &str| Home(path.into()).format_command("url");
        assert_eq!(command("/srv/mezza-1"), "mezza --home /srv/mezza-1 url");
        assert_eq!(command("/srv/it's mine; $x"), r"mezza --home '/srv/it'\''s mine; $x' url");
        let usual = Home::find_among(None, |name| {
            (name != HOME_VARIABLE).then(|| env::var_os(name)).flatten().map(PathBuf::from)
        });
        if let Ok(usual) = usual {
            assert_eq!(usual.format_command("url"), "mezza url");
        }
    }
}
