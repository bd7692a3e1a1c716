//! Reads from the kernel if the clock is synchronised, for example by chrony, ntpd or the host of a
//! virtual machine.
//!
//! The kernel adds 500 ppm to its estimate of the error since a program set the clock last, and
//! from 16 s on the clock counts as unsynchronised. A clock set by hand counts as unsynchronised
//! too. `timedatectl` prints this state without privileges.

use std::ffi::OsString;
use std::process::{Command, Stdio};
use std::thread::{self, JoinHandle};

use mezza_core::Time;
use mezza_host::clock::Moment;

use super::system_clock::Statement;

/// The command that prints `yes` or `no`.
const COMMAND: [&str; 5] = ["timedatectl", "show", "--property", "NTPSynchronized", "--value"];
/// Maximum error of a clock that the kernel counts as synchronised, plus the 2.5 s that any source
/// gets, ms.
const WITHIN_MS: u64 = 16_000 + 2_500;
/// How often `timedatectl` is run, ms.
const ASK_MS: u64 = 10 * Time::MINUTE_MS;

/// Runs `timedatectl` now and then, on a thread of its own: it may take seconds.
#[derive(Debug)]
pub(super) struct KernelClock {
    command: Vec<OsString>,
    asked: Option<Asked>,
    /// Boot time of the next run.
    ask_at: Time,
    said: Option<Statement>,
}

/// A run of `timedatectl` that has not returned yet.
#[derive(Debug)]
struct Asked {
    /// Wall time before the run began.
    at: Time,
    answer: JoinHandle<bool>,
}

impl Default for KernelClock {
    fn default() -> Self {
        Self::of_command(COMMAND.map(OsString::from).to_vec())
    }
}

impl KernelClock {
    /// Uses this program and its arguments instead of `timedatectl`.
    pub(super) const fn of_command(command: Vec<OsString>) -> Self {
        Self { command, asked: None, ask_at: Time::from_ms(0), said: None }
    }

    /// Returns true while the program runs.
    pub(super) const fn is_asking(&self) -> bool {
        self.asked.is_some()
    }

    /// Returns the last time at which the clock counted as synchronised, and starts the program
    /// again if its interval has passed.
    pub(super) fn poll_statement(&mut self, now: Moment) -> Option<Statement> {
        if let Some(asked) = self.asked.take_if(|asked| asked.answer.is_finished())
            && asked.answer.join().is_ok_and(|is_synchronised| is_synchronised)
        {
            // The reading gets the time before the run, so that a change of the clock during the
            // run is covered by the next one.
            self.said = Some(Statement { at: asked.at, within_ms: WITHIN_MS });
        }
        if self.asked.is_none() && now.boot >= self.ask_at {
            self.ask_at = now.boot.plus_ms(ASK_MS);
            let command = self.command.clone();
            let run = thread::Builder::new().spawn(move || is_synchronised(&command));
            // A system that refuses a thread now may have one at the next interval.
            self.asked = run.ok().map(|answer| Asked { at: now.wall, answer });
        }
        self.said
    }
}

/// Returns true if the program prints `yes`. Returns false if the program is missing.
fn is_synchronised(command: &[OsString]) -> bool {
    let Some((program, words)) = command.split_first() else { return false };
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::null()).stderr(Stdio::null());
    command.output().is_ok_and(|said| said.status.success() && said.stdout.trim_ascii() == b"yes")
}
