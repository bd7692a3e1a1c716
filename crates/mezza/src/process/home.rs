//! The home folder: everything one person's program keeps on this machine.
//!
//! ```text
//! ~/.local/share/mezza    0700
//!   config.toml                  settings; nobody else may write it
//!   vault/                0700   sealed records (module `store`)
//!   relay/                0700   a relay's key and store, if one runs here
//!   run/                  0700   what a running node tells the command line: token, URL
//! ~/.local/state/mezza    0700   how far vaults have come (module `store::witness`)
//! ```
//!
//! Folders have mode 0700 and files 0600, or the program does not touch them (exit code 77): files
//! that others could read or write once may be copied or planted already, so the person should look
//! before the mode is put right.

#[cfg(test)]
pub(crate) mod failing;
pub(crate) mod private;

use std::env;
use std::path::{Path, PathBuf};

use crate::api::{Exit, Fault};

/// The environment variable that names the home folder.
pub(crate) const HOME_VARIABLE: &str = "MEZZA_HOME";

/// Where the files of this person are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home(PathBuf);

impl Home {
    /// The home folder: `flag` (from `--home`), else `MEZZA_HOME`, else `mezza` in the user's data
    /// folder (XDG base directories). Touches nothing.
    pub fn find(flag: Option<&Path>) -> Result<Self, Fault> {
        Self::among(flag, |name| env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from))
    }

    /// As [`Home::find`], with the environment as a function.
    pub fn among(
        flag: Option<&Path>,
        variable: impl Fn(&str) -> Option<PathBuf>,
    ) -> Result<Self, Fault> {
        let chosen = flag.map(Path::to_path_buf).or_else(|| variable(HOME_VARIABLE));
        // A relative XDG_DATA_HOME is to be ignored, says its specification.
        let data = || variable("XDG_DATA_HOME").filter(|path| path.is_absolute());
        let usual = || variable("HOME").map(|home| home.join(".local/share"));
        chosen.or_else(|| Some(data().or_else(usual)?.join("mezza"))).map(Self).ok_or_else(|| {
            Fault::new(
                Exit::Config,
                "there is no home folder: HOME is not set",
                "name one with `--home DIR` or MEZZA_HOME",
            )
        })
    }

    /// A command of this program for this home, to be pasted into a shell: the home is named unless it is
    /// the one that is taken without a flag or variable.
    pub(crate) fn command(&self, rest: &str) -> String {
        let variable = |name: &str| (name != HOME_VARIABLE).then(|| env::var_os(name)).flatten();
        let usual = Self::among(None, |name| {
            variable(name).filter(|value| !value.is_empty()).map(PathBuf::from)
        });
        if usual.is_ok_and(|usual| usual == *self) {
            return format!("mezza {rest}");
        }
        let path = std::path::absolute(self.root()).unwrap_or_else(|_| self.0.clone());
        format!("mezza --home {} {rest}", in_shell(&path.to_string_lossy()))
    }

    /// Makes the folders that are missing and checks those that are there.
    pub fn make(&self) -> Result<(), Fault> {
        private::folder(self.root())?;
        [self.vault(), self.relay(), self.run()].iter().try_for_each(|dir| private::folder(dir))?;
        self.check()
    }

    /// Checks owner and mode of all that is there; what is missing is fine.
    pub fn check(&self) -> Result<(), Fault> {
        for dir in [self.root().to_path_buf(), self.vault(), self.relay(), self.run()] {
            if dir.symlink_metadata().is_ok() {
                private::check_folder(&dir)?;
            }
        }
        if self.config().exists() { private::check_not_planted(&self.config()) } else { Ok(()) }
    }

    /// The folder itself.
    pub fn root(&self) -> &Path {
        &self.0
    }

    /// The settings.
    pub fn config(&self) -> PathBuf {
        self.0.join("config.toml")
    }

    /// The vault's folder.
    pub fn vault(&self) -> PathBuf {
        self.0.join("vault")
    }

    /// The relay's folder.
    pub fn relay(&self) -> PathBuf {
        self.0.join("relay")
    }

    /// The folder for what must not be put back with a copy of this home: `mezza` in the user's
    /// state folder (XDG base directories), or one in this home where there is none.
    pub fn state(&self) -> PathBuf {
        self.state_among(|name| env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from))
    }

    /// As [`Home::state`], with the environment as a function.
    pub fn state_among(&self, variable: impl Fn(&str) -> Option<PathBuf>) -> PathBuf {
        let state = variable("XDG_STATE_HOME").filter(|path| path.is_absolute());
        let usual = || variable("HOME").map(|home| home.join(".local/state"));
        state.or_else(usual).map_or_else(|| self.0.join("state"), |state| state.join("mezza"))
    }

    /// The folder of a running node.
    pub fn run(&self) -> PathBuf {
        self.0.join("run")
    }
}

/// One word of a shell's command line.
fn in_shell(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    if word.chars().all(is_plain) {
        word.into()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn web_2_a_command_names_the_home_and_survives_a_shell() {
        let command = |path: &str| Home(path.into()).command("url");
        assert_eq!(command("/srv/mezza-1"), "mezza --home /srv/mezza-1 url");
        assert_eq!(command("/srv/it's mine; $x"), r"mezza --home '/srv/it'\''s mine; $x' url");
        let usual = Home::among(None, |name| {
            (name != HOME_VARIABLE).then(|| env::var_os(name)).flatten().map(PathBuf::from)
        });
        if let Ok(usual) = usual {
            assert_eq!(usual.command("url"), "mezza url");
        }
    }
}
