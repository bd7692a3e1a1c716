//! The roots that the package is installed in, and the programs that run there.

use super::PATIENCE;
use crate::dist::{OUTSIDE, list_files, run_tool};
use crate::run::{find_program, first_line};
use std::fmt;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The pause between two questions.
const PAUSE: Duration = Duration::from_millis(200);
/// The folder of the units' homes.
const STATE: &str = "/var/lib/mezza";
/// The passphrase of the check, in the home of the node.
const PASSPHRASE: &str = "/var/lib/mezza/node/passphrase";
/// Runs a program in a root (`$1`) as a user (`$2`), with `/proc` in a mount namespace of its own.
const ENTER: &str = r#"root=$1 user=$2; shift 2
mount -t proc proc "$root/proc" && exec chroot --userspec="$user:$user" "$root" "$@""#;
/// The search path of programs in a root.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A root folder without the package.
pub(super) struct FreshRoot {
    root: PathBuf,
    contents: RootContents,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum RootContents {
    /// An empty database of dpkg: programs run with the libraries of this machine.
    Nothing,
    /// A Debian of its own: programs run inside it, as the users of their units.
    Debian,
}

impl fmt::Display for FreshRoot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.contents {
            RootContents::Nothing => "bare root",
            RootContents::Debian => "Debian root",
        })
    }
}

impl FreshRoot {
    /// Prepares a folder for dpkg.
    ///
    /// # Errors
    /// If the folder cannot be written.
    pub(super) fn prepare_bare(root: &Path) -> Result<Self, String> {
        let database = root.join("var/lib/dpkg");
        let prepare = || {
            for folder in ["info", "updates", "parts", "triggers"] {
                fs::create_dir_all(database.join(folder))?;
            }
            fs::create_dir_all(root.join("etc"))?;
            fs::write(database.join("status"), "")
        };
        prepare().map_err(|e| format!("{}: {e}", root.display()))?;
        Ok(Self { root: root.to_path_buf(), contents: RootContents::Nothing })
    }

    /// Makes a Debian root of the release that runs here. The inner error is the reason why that is
    /// impossible on this machine. `cache` keeps the downloaded packages for the next check.
    ///
    /// # Errors
    /// If a folder cannot be written.
    pub(super) fn bootstrap_debian(
        root: &Path,
        cache: &Path,
    ) -> Result<Result<Self, String>, String> {
        if find_program(&["debootstrap"]).is_none() {
            return Ok(Err(format!("{OUTSIDE}no debootstrap; apt install debootstrap")));
        }
        let mut read = Command::new("sh");
        let Some(release) =
            first_line(read.args(["-c", ". /etc/os-release; echo $VERSION_CODENAME"]))
        else {
            return Ok(Err(format!("{OUTSIDE}no release in /etc/os-release; use Debian")));
        };
        for folder in [root, cache] {
            fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        }
        let cache = std::path::absolute(cache).map_err(|e| e.to_string())?;
        let mut bootstrap = Command::new("debootstrap");
        bootstrap.arg(format!("--cache-dir={}", cache.display()));
        // With systemd in the root the installation needs no mirror.
        bootstrap
            .args(["--variant=minbase", "--include=systemd", &release])
            .arg(root)
            .stdin(Stdio::null());
        let output = bootstrap.output().map_err(|e| format!("debootstrap: {e}"))?;
        if output.status.success() {
            let root = root.to_path_buf();
            return Ok(Ok(Self { root, contents: RootContents::Debian }));
        }
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let last = text.lines().last().unwrap_or("no text");
        Ok(Err(format!("{OUTSIDE}debootstrap {release}: {last}; check the network")))
    }

    /// Installs the package: by dpkg, or with its dependencies by apt.
    ///
    /// # Errors
    /// The text of the tool that failed.
    pub(super) fn install(&self, package: &Path) -> Result<(), String> {
        if self.contents == RootContents::Debian {
            let copy = self.root.join("mezza.deb");
            fs::copy(package, &copy).map_err(|e| format!("{}: {e}", copy.display()))?;
            let mut apt = self.enter("root");
            apt.env("DEBIAN_FRONTEND", "noninteractive");
            return run_tool(apt.args(["apt-get", "install", "--yes", "/mezza.deb"])).map(drop);
        }
        let mut dpkg = Command::new("dpkg");
        dpkg.arg(format!("--root={}", self.root.display()));
        // The libraries of this machine are used; the package's scripts run with the root as an
        // argument.
        dpkg.args(["--force-depends", "--force-script-chrootless", "--log=/dev/null", "--install"]);
        run_tool(dpkg.arg(package)).map(drop)
    }

    /// Checks that man pages, completions, units, users and their folders are there.
    ///
    /// # Errors
    /// The first missing part.
    pub(super) fn check_files(&self) -> Result<(), String> {
        let man = list_files(&self.root.join("usr/share/man/man1"))?;
        let own = man.iter().filter(|name| name.starts_with("mezza") && name.ends_with(".1.gz"));
        let count = own.count();
        if count < 80 {
            return Err(format!("{count} man pages"));
        }
        let mut expected = vec![
            "usr/share/bash-completion/completions/mezza".to_owned(),
            "usr/share/zsh/vendor-completions/_mezza".to_owned(),
            "usr/share/fish/vendor_completions.d/mezza.fish".to_owned(),
            "usr/lib/sysusers.d/mezza.conf".to_owned(),
            "usr/lib/tmpfiles.d/mezza.conf".to_owned(),
            "usr/share/doc/mezza/copyright".to_owned(),
        ];
        let roles = [
            "relay",
            "node",
            "mesh",
            "link",
            "guard",
            "mixnet-entry",
            "mixnet-mix",
            "mixnet-bucket",
        ];
        expected.extend(roles.map(|role| format!("usr/lib/systemd/system/mezza-{role}.service")));
        if let Some(missing) = expected.iter().find(|path| !self.root.join(path).is_file()) {
            return Err(format!("the package has no {missing}"));
        }
        let has_tools =
            self.contents == RootContents::Debian || find_program(&["systemd-sysusers"]).is_some();
        if !has_tools {
            return Ok(());
        }
        let users = fs::read_to_string(self.root.join("etc/passwd")).unwrap_or_default();
        for role in ["relay", "node", "mesh", "guard", "mixnet"] {
            if !users.contains(&format!("mezza-{role}:")) {
                return Err(format!("the installation made no user mezza-{role}"));
            }
            if !self.root.join(STATE.trim_start_matches('/')).join(role).is_dir() {
                return Err(format!("the installation made no folder {STATE}/{role}"));
            }
        }
        Ok(())
    }

    /// Runs relay and node by the command lines of their units, until the relay has answered the node.
    ///
    /// # Errors
    /// The command that failed, or the answer that did not come.
    pub(super) fn run_units(&self) -> Result<(), String> {
        if self.contents == RootContents::Nothing {
            self.take_homes()?;
        }
        self.write_passphrase()?;
        self.run("relay", &["relay", "init", "--listen", "127.0.0.1:0"])?;
        let _relay = Running(self.start_unit("relay")?);
        let uri = self.wait_for("the relay", || {
            self.run("relay", &["relay", "uri"]).ok().map(|text| text.trim().to_owned())
        })?;
        let pass = self.resolve(PASSPHRASE);
        self.run("node", &["init", "--name", "Ann", "--relay", &uri, "--passphrase-file", &pass])?;
        let _node = Running(self.start_unit("node")?);
        self.wait_for("an answer of the relay", || {
            let text = self.run("node", &["carriers", "--json"]).ok()?;
            let value: serde_json::Value = serde_json::from_str(text.trim()).ok()?;
            let carriers = value["carriers"].as_array()?;
            carriers.iter().any(|one| one["carrier"] == "relay" && one["up"] == true).then_some(())
        })
    }

    /// Gives the homes to the user of the check. A bare root has no users to run programs as.
    fn take_homes(&self) -> Result<(), String> {
        for role in ["relay", "node"] {
            let home = self.root.join(STATE.trim_start_matches('/')).join(role);
            fs::create_dir_all(&home)
                .and_then(|()| chown(&home, Some(0), Some(0)))
                .map_err(|e| format!("{}: {e}", home.display()))?;
        }
        Ok(())
    }

    /// Writes the passphrase, readable by the user of the node alone.
    fn write_passphrase(&self) -> Result<(), String> {
        let path = self.root.join(PASSPHRASE.trim_start_matches('/'));
        let folder = path.parent().unwrap_or(&self.root);
        let write = || {
            fs::create_dir_all(folder)?;
            fs::write(&path, "a passphrase of the check")?;
            fs::set_permissions(&path, Permissions::from_mode(0o600))
        };
        write().map_err(|e| format!("{}: {e}", path.display()))?;
        if self.contents == RootContents::Debian {
            let mut own = self.enter("root");
            run_tool(own.args(["chown", "mezza-node:mezza-node", PASSPHRASE]))?;
        }
        Ok(())
    }

    /// Returns a path of the root as the programs in it see it.
    fn resolve(&self, path: &str) -> String {
        match self.contents {
            RootContents::Debian => path.to_owned(),
            RootContents::Nothing => {
                self.root.join(path.trim_start_matches('/')).to_string_lossy().into_owned()
            }
        }
    }

    /// Returns a command that runs its arguments inside the root as `user`. It becomes the program
    /// itself, so that its number is that of the program.
    fn enter(&self, user: &str) -> Command {
        let mut command = Command::new("unshare");
        command.env_clear().env("PATH", PATH).stdin(Stdio::null());
        command.args(["--mount", "sh", "-c", ENTER, "sh"]).arg(&self.root).arg(user);
        command
    }

    /// Returns the installed program, as the user of the role.
    fn program(&self, role: &str) -> Command {
        let mut command = match self.contents {
            RootContents::Debian => {
                let mut command = self.enter(&format!("mezza-{role}"));
                command.arg("/usr/bin/mezza");
                command
            }
            RootContents::Nothing => {
                let mut command = Command::new(self.root.join("usr/bin/mezza"));
                command.env_clear().stdin(Stdio::null());
                command
            }
        };
        command.env("HOME", self.resolve(&format!("{STATE}/{role}")));
        command
    }

    /// Runs a command on the home of a role. Returns its output.
    fn run(&self, role: &str, args: &[&str]) -> Result<String, String> {
        let mut command = self.program(role);
        command.arg("--home").arg(self.resolve(&format!("{STATE}/{role}"))).args(args);
        Ok(String::from_utf8_lossy(&run_tool(&mut command)?).into_owned())
    }

    /// Starts the command line of a unit, with its environment and with the paths of this root.
    fn start_unit(&self, role: &str) -> Result<Child, String> {
        let path = self.root.join(format!("usr/lib/systemd/system/mezza-{role}.service"));
        let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let line = text.lines().find_map(|line| line.strip_prefix("ExecStart="));
        let line = line.ok_or_else(|| format!("{}: no ExecStart", path.display()))?;
        let here = |word: &str| word.replace(STATE, &self.resolve(STATE));
        let mut words = line.split_whitespace();
        if words.next() != Some("/usr/bin/mezza") {
            return Err(format!("{}: another program", path.display()));
        }
        let mut command = self.program(role);
        command.args(words.map(here));
        for pair in text.lines().filter_map(|line| line.strip_prefix("Environment=")) {
            let (key, value) = pair.split_once('=').ok_or_else(|| format!("no value: {pair}"))?;
            command.env(key, here(value));
        }
        command.env("MEZZA_PASSPHRASE_FILE", self.resolve(PASSPHRASE));
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().map_err(|e| format!("{}: {e}", path.display()))
    }

    /// Asks until there is an answer.
    fn wait_for<T>(&self, what: &str, mut ask: impl FnMut() -> Option<T>) -> Result<T, String> {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            if let Some(answer) = ask() {
                return Ok(answer);
            }
            sleep(PAUSE);
        }
        Err(format!("{self}: {what} did not come within {} s", PATIENCE.as_secs()))
    }
}

/// A process that ends with the check.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
