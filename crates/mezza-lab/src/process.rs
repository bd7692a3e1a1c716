//! This program under the name `mezza`, as a separate process.

use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::machine;

/// The name under which this program behaves as `mezza`. Measurements of processes start this
/// program itself, so that they always measure the code that this lab was built with.
pub const PROGRAM: &str = "mezza";
/// Time limit of [`Program::wait_until`].
const PATIENCE: Duration = Duration::from_secs(120);
/// Time limit for an orderly end of a program.
const ORDERLY: Duration = Duration::from_secs(3);
/// Pause between two checks.
const LOOK: Duration = Duration::from_millis(10);

/// A running program, killed on drop.
pub struct Program {
    child: Child,
    out: PathBuf,
    log: PathBuf,
}

impl Program {
    /// Starts `mezza --home HOME ARGS` with only `env` as environment. Its output goes to
    /// `files.out`, its log to `files.log`.
    ///
    /// # Errors
    /// If the program does not start.
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

    /// Returns the complete lines of the output so far.
    pub fn read_output(&self) -> String {
        let text = std::fs::read_to_string(&self.out).unwrap_or_default();
        text.rsplit_once('\n').map_or_else(String::new, |(whole, _)| whole.to_owned())
    }

    /// Returns the process number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the resident memory in bytes.
    ///
    /// # Errors
    /// If the system does not report the memory.
    pub fn resident_bytes(&self) -> Result<f64> {
        machine::resident_bytes(self.child.id()).context("the system does not tell memory")
    }

    /// Waits until `find` returns a value.
    ///
    /// # Errors
    /// If the program ends first, or after two minutes.
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

    /// Asks the program to end, and waits a few seconds for its end.
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

/// Kills the program immediately, like `kill -9`.
impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
