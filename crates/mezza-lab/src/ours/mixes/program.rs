//! A server or a load as a process: this program under the name of `mezza`.

use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::machine;

/// How long anything may take to come about.
const PATIENCE: Duration = Duration::from_secs(120);
/// Pause between two looks.
const LOOK: Duration = Duration::from_millis(10);

/// A running program; what it says goes to files.
pub struct Program {
    child: Child,
    out: PathBuf,
    log: PathBuf,
}

impl Program {
    /// Starts `mezza ARGS`, a command of `mixnet`; its output goes to `folder/name.out`.
    ///
    /// # Errors
    /// If it does not start.
    pub fn start(folder: &Path, name: &str, args: &[&str]) -> Result<Self> {
        let file = |kind: &str| folder.join(format!("{name}.{kind}"));
        let (out, log) = (file("out"), file("log"));
        let mut command = Command::new(std::env::current_exe()?);
        command.arg0(crate::PROGRAM).env_clear().arg("--home").arg(folder).args(args);
        command.stdin(Stdio::null()).stdout(File::create(&out)?).stderr(File::create(&log)?);
        let child = command.spawn().context("the program does not start")?;
        Ok(Self { child, out, log })
    }

    /// What it has said, whole lines alone.
    pub fn said(&self) -> String {
        let text = std::fs::read_to_string(&self.out).unwrap_or_default();
        text.rsplit_once('\n').map_or_else(String::new, |(whole, _)| whole.to_owned())
    }

    /// Memory that it holds, bytes.
    ///
    /// # Errors
    /// If the system does not tell.
    pub fn resident_bytes(&self) -> Result<f64> {
        machine::resident_bytes(self.child.id()).context("the system does not tell memory")
    }

    /// Looks until `yes` gives something, or until the program is gone.
    ///
    /// # Errors
    /// If it does not come about.
    pub fn until<T>(&mut self, what: &str, mut yes: impl FnMut(&Self) -> Option<T>) -> Result<T> {
        let end = Instant::now() + PATIENCE;
        loop {
            let gone = self.child.try_wait()?.is_some();
            if let Some(found) = yes(self) {
                return Ok(found);
            }
            if gone || Instant::now() > end {
                let log = std::fs::read_to_string(&self.log).unwrap_or_default();
                bail!("{what} did not come about: {}", log.lines().last().unwrap_or("no log"));
            }
            std::thread::sleep(LOOK);
        }
    }
}

/// As `kill -9` does: nothing here is worth an orderly end.
impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
