//! The processes of one run: started, read, and killed at the end of the run.

use std::io::{BufRead as _, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use super::WireJob;

/// A child process, killed on drop.
pub struct WireProcess {
    role: String,
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl WireProcess {
    /// Starts the process of a job.
    ///
    /// # Errors
    /// If the process does not start.
    pub fn start(job: &WireJob) -> Result<Self> {
        Self::start_program(&job.role, &["wire", &serde_json::to_string(job)?])
    }

    /// Starts this program with other arguments, under which it prints values.
    ///
    /// # Errors
    /// If the process does not start.
    pub fn start_program(role: &str, args: &[&str]) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(args);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().with_context(|| format!("the {role} does not start"))?;
        let lines = BufReader::new(child.stdout.take().context("no output")?);
        Ok(Self { role: role.to_owned(), child, lines })
    }

    /// Returns the next value that the process prints; `None` after its successful end.
    ///
    /// # Errors
    /// If the process fails or prints something else.
    pub fn next_value(&mut self) -> Result<Option<Value>> {
        let mut line = String::new();
        if self.lines.read_line(&mut line)? > 0 {
            return Ok(Some(serde_json::from_str(&line)?));
        }
        if !self.child.wait()?.success() {
            bail!("the {} has ended with an error", self.role);
        }
        Ok(None)
    }

    /// Reads the address at which the process listens.
    ///
    /// # Errors
    /// If the process prints something else first.
    pub fn read_address(&mut self) -> Result<SocketAddr> {
        let said = self.next_value()?.context("it does not listen")?;
        let port = said["listens"].as_u64().and_then(|port| u16::try_from(port).ok());
        Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port.context("it does not say where")?)))
    }
}

impl Drop for WireProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
