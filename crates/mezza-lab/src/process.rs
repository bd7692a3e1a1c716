//! This program under the name of `mezza`, as a process of its own.

use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::machine;

/// The name under which this program is `mezza`: rows about processes start this program itself, so
/// that what is measured is always what this lab was built with.
pub const PROGRAM: &str = "mezza";
/// How long [`Program::wait_until`] waits.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long a program has for an orderly end.
const ORDERLY: Duration = Duration::from_secs(3);
/// Pause between two looks.
const LOOK: Duration = Duration::from_millis(10);

/// A running program. It is killed when it is dropped.
pub struct Program {
    child: Child,
    out: PathBuf,
    log: PathBuf,
}

impl Program {
    /// Starts `mezza --home HOME ARGS` with no other environment than `env`. Its output goes to
    /// `files.out`, its log to `files.log`.
    ///
    /// # Errors
    /// If it does not start.
    pub fn start(home: &Path, files: &Path, args: &[&str], env: &[(&str, &str)]) -> Result<Self> {
        let out = files.with_extension("out");
        let log = files.with_extension("log");
        let mut command = Command::new(std::env::current_exe()?);
        command.arg0(PROGRAM).env_clear().envs(env.iter().copied());
        command.arg("--home").arg(home).args(args).stdin(Stdio::null());
        command.stdout(File::create(&out)?).stderr(File::create(&log)?);
        let child = command.spawn().context("the program does not start")?;
        Ok(Self { child, out, log })
    }

    /// The whole lines of its output so far.
    pub fn read_output(&self) -> String {
        let text = std::fs::read_to_string(&self.out).unwrap_or_default();
        text.rsplit_once('\n').map_or_else(String::new, |(whole, _)| whole.to_owned())
    }

    /// Its number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Memory that it holds, bytes.
    ///
    /// # Errors
    /// If the system does not tell.
    pub fn resident_bytes(&self) -> Result<f64> {
        machine::resident_bytes(self.child.id()).context("the system does not tell memory")
    }

    /// Waits until `find` gives something.
    ///
    /// # Errors
    /// If the program ends before that, or after two minutes.
    pub fn wait_until<T>(
        &mut self,
        what: &str,
        mut find: impl FnMut(&Self) -> Option<T>,
    ) -> Result<T> {
        let end = Instant::now() + PATIENCE;
        loop {
            let gone = self.child.try_wait()?.is_some();
            if let Some(found) = find(self) {
                return Ok(found);
            }
            if gone || Instant::now() > end {
                let log = std::fs::read_to_string(&self.log).unwrap_or_default();
                bail!("{what} did not come about: {}", log.lines().last().unwrap_or("no log"));
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Asks it to end and waits for that a few seconds.
    pub fn terminate(&mut self) {
        if let Ok(pid) = i32::try_from(self.child.id()) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
        }
        let end = Instant::now() + ORDERLY;
        while Instant::now() < end && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(LOOK);
        }
    }
}

/// Kills the program at once, like `kill -9`.
impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
