//! Fetches the files of a peer and compares them with pinned hashes.

use super::peers::{InteropPeer, Jar, PeerFiles};
use crate::run::{Logs, find_program, first_line, run_logged};
use crate::{machine, needs};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The oldest Java that runs the programs of the peers.
const JAVA_OLDEST: u32 = 17;
/// Lists of Python packages: wheels, then those pinned by the hash of their source.
const LISTS: [(&str, &[&str]); 2] =
    [("python.txt", &[]), ("axolotl.txt", &["--no-deps", "--require-hashes"])];

/// The folder of the peers' files.
pub struct Folder<'a> {
    root: &'a Path,
    logs: &'a Logs,
    /// A folder that replaces the network.
    from: Option<&'a Path>,
    path: PathBuf,
}

impl<'a> Folder<'a> {
    /// Makes the folder `peers` in the build directory.
    pub fn new(root: &'a Path, logs: &'a Logs, from: Option<&'a Path>) -> Result<Self, String> {
        let path = machine::target_folder(root).join("peers");
        fs::create_dir_all(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(Self { root, logs, from, path })
    }

    /// Returns the logs of this run.
    pub fn logs(&self) -> &Logs {
        self.logs
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Fetches the files of `peer`. Returns the reason why it cannot run here with the next step,
    /// if any. A file with another hash than the pinned one is an error.
    pub fn prepare_peer(&self, peer: &InteropPeer) -> Result<Option<String>, String> {
        let reason = match peer.files {
            _ if !peer.runs_here => {
                Some("its library has no code for this machine; use one with x86-64".to_owned())
            }
            PeerFiles::Jars(jars) => self.fetch_jars(peer.name, jars)?,
            PeerFiles::Python => self.prepare_python(peer.name)?,
        };
        Ok(reason.map(|reason| format!("{}: {reason}", peer.name)))
    }

    fn fetch_jars(&self, peer: &str, jars: &[Jar]) -> Result<Option<String>, String> {
        if !has_jdk() {
            let text = format!("no JDK {JAVA_OLDEST} or newer found");
            return Ok(Some(format!("{text}; on Debian: apt install default-jdk-headless")));
        }
        for jar in jars {
            let file = self.path.join(jar.file());
            if !file.is_file()
                && let Some(reason) = self.bring_jar(peer, jar, &file)?
            {
                return Ok(Some(reason));
            }
            check_hash(&file, jar.sha256)?;
        }
        Ok(None)
    }

    /// Copies a jar from the folder of `--from`, or lets Maven fetch it.
    fn bring_jar(&self, peer: &str, jar: &Jar, file: &Path) -> Result<Option<String>, String> {
        if let Some(from) = self.from {
            let source = from.join(jar.file());
            return match fs::copy(&source, file) {
                Ok(_) => Ok(None),
                Err(e) => Ok(Some(format!("{}: {e}; put {} there", source.display(), jar.file()))),
            };
        }
        if find_program(&["mvn"]).is_none() {
            return Ok(Some("no Maven found; on Debian: apt install maven".to_owned()));
        }
        println!("fetch    {} with mvn", jar.artifact());
        let name = format!("fetch {peer}");
        let mut mvn = Command::new("mvn");
        mvn.current_dir(&self.path).args(["-q", "-B", "dependency:copy"]);
        mvn.arg(format!("-Dartifact={}", jar.artifact()));
        mvn.arg(format!("-DoutputDirectory={}", self.path.display()));
        let ended = run_logged(&mut mvn, &mut self.logs.open(&name)?)?;
        Ok((!ended.ok || !file.is_file()).then(|| self.not_fetched(&jar.file(), &name)))
    }

    fn prepare_python(&self, peer: &str) -> Result<Option<String>, String> {
        let lists = LISTS.map(|(list, _)| self.list(list));
        let wanted = lists.iter().map(fs::read_to_string).collect::<Result<String, _>>();
        let wanted = wanted.map_err(|e| format!("{}: {e}", lists[0].display()))?;
        let mark = self.path.join("py/installed");
        if fs::read_to_string(&mark).is_ok_and(|installed| installed == wanted) {
            return Ok(None);
        }
        let Some(python) = find_program(&["python3"]) else {
            let text = "no python3 found; on Debian: apt install python3-venv python3-dev";
            return Ok(Some(text.to_owned()));
        };
        let name = format!("fetch {peer}");
        println!("fetch    Python packages with pip");
        let mut log = self.logs.open(&name)?;
        for mut command in self.pip_commands(&python) {
            let ended = run_logged(&mut command, &mut log)?;
            if ended.tail.iter().any(|line| line.contains("DO NOT MATCH THE HASHES")) {
                return Err(wrong_hash("a Python package of axolotl.txt"));
            }
            if !ended.ok {
                return Ok(Some(self.not_fetched("the Python packages", &name)));
            }
        }
        fs::write(&mark, wanted).map_err(|e| format!("{}: {e}", mark.display()))?;
        Ok(None)
    }

    /// Returns the commands that make a fresh environment with all packages.
    fn pip_commands(&self, python: &Path) -> Vec<Command> {
        let folder = self.path.join("py");
        let installs = LISTS.map(|(list, args)| {
            let mut pip = needs::pip_install(&folder);
            pip.args(args).arg("-r").arg(self.list(list));
            if let Some(from) = self.from {
                pip.args(["--no-index", "--find-links"]).arg(from);
            }
            pip
        });
        [needs::make_venv(python, &folder)].into_iter().chain(installs).collect()
    }

    fn list(&self, name: &str) -> PathBuf {
        self.root.join("crates/mezza-ratchet/tests/peers").join(name)
    }

    fn not_fetched(&self, what: &str, step: &str) -> String {
        let log = self.logs.path(step);
        let text = format!("{what} could not be fetched, see {}", log.display());
        format!("{text}; run `cargo xtask interop` with a network, or with --from DIR")
    }
}

/// Returns true if a Java compiler is installed and new enough.
pub fn has_jdk() -> bool {
    let line = first_line(Command::new("javac").arg("-version"));
    line.as_deref().and_then(java_version).is_some_and(|version| version >= JAVA_OLDEST)
}

/// Parses the version: `javac 17.0.15` -> 17.
fn java_version(line: &str) -> Option<u32> {
    let version = line.strip_prefix("javac ")?;
    version.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// Refuses a file with another hash than the pinned one.
fn check_hash(file: &Path, pinned: &str) -> Result<(), String> {
    if hash_file(file)? == pinned {
        return Ok(());
    }
    Err(wrong_hash(&file.file_name().unwrap_or_default().to_string_lossy()))
}

fn wrong_hash(what: &str) -> String {
    format!(
        "{what} has another SHA-256 than pinned; delete target/peers and run `cargo xtask interop` \
         again; if it stays, report it"
    )
}

/// Computes the hash with a tool of the system: GNU's, or Perl's on a Mac.
fn hash_file(file: &Path) -> Result<String, String> {
    let tools: [(&str, &[&str]); 2] = [("sha256sum", &["-b"]), ("shasum", &["-a", "256"])];
    let lines =
        tools.iter().map(|(tool, args)| first_line(Command::new(tool).args(*args).arg(file)));
    let line = lines.into_iter().flatten().next().ok_or_else(|| {
        format!("no sha256sum for {}; on Debian: apt install coreutils", file.display())
    })?;
    Ok(line.split(' ').next().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_java() {
        assert_eq!(java_version("javac 17.0.15"), Some(17));
        assert_eq!(java_version("javac 21-ea"), Some(21));
        assert_eq!(java_version("javac 1.8.0_392"), Some(1));
        assert_eq!(java_version("openjdk 17"), None);
    }

    #[test]
    fn another_file_is_refused() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/xtask-planted/peers");
        fs::create_dir_all(&folder).expect("folder");
        let file = folder.join("some-1.0.jar");
        fs::write(&file, "abc").expect("file");
        // FIPS 180-4, the example of one block.
        let pinned = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(check_hash(&file, pinned), Ok(()));
        fs::write(&file, "abd").expect("file");
        let text = check_hash(&file, pinned).expect_err("another file");
        assert!(text.starts_with("some-1.0.jar has another SHA-256 than pinned; delete"), "{text}");
    }
}
