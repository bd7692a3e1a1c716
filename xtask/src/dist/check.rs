//! The check of the package: two builds are equal, its units are closed, and what it installs runs.
//!
//! The package is installed into a fresh root. A relay and a node then run there by the command lines of
//! their units, and the node has to get an answer of the relay.

use super::{DistPlan, deb, list_files, make_files, run_tool};
use crate::machine;
use crate::run::find_program;
use crate::test::format_time;
use std::fs::{self, File, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The highest exposure that a unit may have, as systemd rates it.
const EXPOSURE_MAX: f64 = 2.5;
/// The time for the first answer after the installation.
const PATIENCE: Duration = Duration::from_secs(60);
/// The pause between two questions.
const PAUSE: Duration = Duration::from_millis(200);
/// The folder of the units' homes.
const STATE: &str = "/var/lib/mezza";

/// Checks the package of a program. Returns what was skipped, with reasons.
///
/// # Errors
/// The first check that failed.
pub fn check_package(
    root: &Path,
    binary: &Path,
    folder: &Path,
    log: &mut File,
) -> Result<Vec<String>, String> {
    if find_program(&["dpkg-deb"]).is_none() {
        return Ok(vec!["package: no dpkg-deb; run it on Debian".to_owned()]);
    }
    let mut skipped = Vec::new();
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    }
    let package = build_twice(root, binary, folder)?;
    if find_program(&["systemd-analyze"]).is_some() {
        rate_units(root, log)?;
    } else {
        skipped.push("package: no systemd-analyze; apt install systemd".to_owned());
    }
    if machine::is_root() {
        let begun = Instant::now();
        let system = FreshRoot::install(&package, &folder.join("root"))?;
        system.check_files()?;
        system.run_units(folder)?;
        let time = format_time(begun.elapsed());
        let _ = writeln!(log, "from the installation to the first answer: {time}");
    } else {
        skipped.push("package: only root installs it; run as root".to_owned());
    }
    fs::remove_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    Ok(skipped)
}

/// Builds the package and the bill in two folders, and compares them.
fn build_twice(root: &Path, binary: &Path, folder: &Path) -> Result<PathBuf, String> {
    let build = |name: &str| {
        let plan = DistPlan::new(root, binary.to_path_buf(), folder.join(name), "none")?;
        make_files(&plan)
    };
    let first = build("one")?;
    // Another second, so that a time of the clock would show.
    sleep(Duration::from_millis(1_100));
    let second = build("two")?;
    for (one, two) in first.iter().zip(&second) {
        let read = |file: &PathBuf| fs::read(file).map_err(|e| format!("{}: {e}", file.display()));
        if read(one)? != read(two)? {
            return Err(format!("two builds of {} differ", one.display()));
        }
    }
    first.into_iter().next().ok_or_else(|| "no package was made".into())
}

fn rate_units(root: &Path, log: &mut File) -> Result<(), String> {
    let units = deb::list_units(root)?;
    for unit in &units {
        let exposure = deb::rate_unit(unit)?;
        let _ = writeln!(log, "{exposure:.1}  {}", unit.display());
        if exposure > EXPOSURE_MAX {
            return Err(format!("{}: exposure {exposure}, at most {EXPOSURE_MAX}", unit.display()));
        }
    }
    if units.len() < 7 {
        return Err(format!("{} units, 7 are expected", units.len()));
    }
    Ok(())
}

/// A root with nothing in it but this package.
struct FreshRoot {
    root: PathBuf,
}

impl FreshRoot {
    fn install(package: &Path, root: &Path) -> Result<Self, String> {
        let database = root.join("var/lib/dpkg");
        let prepare = || {
            for folder in ["info", "updates", "parts", "triggers"] {
                fs::create_dir_all(database.join(folder))?;
            }
            fs::create_dir_all(root.join("etc"))?;
            fs::write(database.join("status"), "")
        };
        prepare().map_err(|e| format!("{}: {e}", root.display()))?;
        let mut dpkg = Command::new("dpkg");
        dpkg.arg(format!("--root={}", root.display()));
        // The libraries of this machine serve; its scripts run with the root as an argument.
        dpkg.args(["--force-depends", "--force-script-chrootless", "--log=/dev/null", "--install"]);
        run_tool(dpkg.arg(package))?;
        Ok(Self { root: root.to_path_buf() })
    }

    /// Checks that man pages, completions, units and users are there.
    fn check_files(&self) -> Result<(), String> {
        let man = list_files(&self.root.join("usr/share/man/man1"))?;
        if man.len() < 80 || !man.iter().all(|name| name.ends_with(".1.gz")) {
            return Err(format!("{} man pages", man.len()));
        }
        let mut expected = vec![
            "usr/share/bash-completion/completions/mezza".to_owned(),
            "usr/share/zsh/vendor-completions/_mezza".to_owned(),
            "usr/share/fish/vendor_completions.d/mezza.fish".to_owned(),
            "usr/lib/sysusers.d/mezza.conf".to_owned(),
            "usr/share/doc/mezza/copyright".to_owned(),
        ];
        let roles =
            ["relay", "node", "mesh", "link", "mixnet-entry", "mixnet-mix", "mixnet-bucket"];
        expected.extend(roles.map(|role| format!("usr/lib/systemd/system/mezza-{role}.service")));
        if let Some(missing) = expected.iter().find(|path| !self.root.join(path).is_file()) {
            return Err(format!("the package has no {missing}"));
        }
        if find_program(&["systemd-sysusers"]).is_some() {
            let users = fs::read_to_string(self.root.join("etc/passwd")).unwrap_or_default();
            let lacks = |user: &&str| !users.contains(&format!("{user}:"));
            let missing =
                ["mezza-relay", "mezza-node", "mezza-mesh", "mezza-mixnet"].into_iter().find(lacks);
            if let Some(user) = missing {
                return Err(format!("the installation made no user {user}"));
            }
        }
        Ok(())
    }

    /// Runs relay and node by the command lines of their units, until the relay has answered the node.
    fn run_units(&self, folder: &Path) -> Result<(), String> {
        let relay_home = self.state("relay");
        let node_home = self.state("node");
        let pass = folder.join("passphrase");
        fs::write(&pass, "a passphrase of the check").map_err(|e| e.to_string())?;
        fs::set_permissions(&pass, Permissions::from_mode(0o600)).map_err(|e| e.to_string())?;
        self.run(&relay_home, &["relay", "init", "--listen", "127.0.0.1:0"])?;
        let _relay = Running(self.start_unit("mezza-relay", None)?);
        let uri = self.wait_for("the relay", || {
            self.run(&relay_home, &["relay", "uri"]).ok().map(|text| text.trim().to_owned())
        })?;
        let pass_text = pass.to_string_lossy().into_owned();
        let init = ["init", "--name", "Ann", "--relay", &uri, "--passphrase-file", &pass_text];
        self.run(&node_home, &init)?;
        let _node = Running(self.start_unit("mezza-node", Some(&pass))?);
        self.wait_for("an answer of the relay", || {
            let text = self.run(&node_home, &["carriers", "--json"]).ok()?;
            let value: serde_json::Value = serde_json::from_str(text.trim()).ok()?;
            let carriers = value["carriers"].as_array()?;
            carriers.iter().any(|one| one["carrier"] == "relay" && one["up"] == true).then_some(())
        })
    }

    fn state(&self, name: &str) -> PathBuf {
        self.root.join(STATE.trim_start_matches('/')).join(name)
    }

    fn program(&self) -> PathBuf {
        self.root.join("usr/bin/mezza")
    }

    /// Runs a command on a home. Returns its output.
    fn run(&self, home: &Path, args: &[&str]) -> Result<String, String> {
        let mut command = Command::new(self.program());
        command.env_clear().env("HOME", home).arg("--home").arg(home).args(args);
        Ok(String::from_utf8_lossy(&run_tool(command.stdin(Stdio::null()))?).into_owned())
    }

    /// Starts the command line of a unit, with the paths of this root.
    fn start_unit(&self, unit: &str, pass: Option<&Path>) -> Result<Child, String> {
        let path = self.root.join(format!("usr/lib/systemd/system/{unit}.service"));
        let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let line = text.lines().find_map(|line| line.strip_prefix("ExecStart="));
        let line = line.ok_or_else(|| format!("{unit} has no ExecStart"))?;
        let here = |word: &str| word.replace(STATE, &self.state("").to_string_lossy());
        let mut words = line.split_whitespace();
        if words.next() != Some("/usr/bin/mezza") {
            return Err(format!("{unit} runs another program"));
        }
        let mut command = Command::new(self.program());
        command.env_clear().env("HOME", self.state("")).args(words.map(here));
        if let Some(pass) = pass {
            command.env("MEZZA_PASSPHRASE_FILE", pass);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().map_err(|e| format!("{unit}: {e}"))
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
        Err(format!("{}: {what} did not come within {} s", self.root.display(), PATIENCE.as_secs()))
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
