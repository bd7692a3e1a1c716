//! The kernel's word on its clock: synchronised or not, by chrony, ntpd or the host of a virtual machine.
//!
//! The kernel adds 500 ppm to its estimate of the error since a program set the clock last, and from 16 s on the clock
//! counts as unsynchronised. So does a clock that is set by hand. `timedatectl` prints that without any right.

use std::ffi::OsString;
use std::process::{Command, Stdio};
use std::thread::{self, JoinHandle};

use mezza_core::Time;
use mezza_host::clock::Moment;

use super::system_clock::Statement;

/// The program, and what makes it print `yes` or `no`.
const COMMAND: [&str; 5] = ["timedatectl", "show", "--property", "NTPSynchronized", "--value"];
/// How far a clock may be off that the kernel counts as synchronised, and as much as for any source, ms.
const WITHIN_MS: u64 = 16_000 + 2_500;
/// How often the kernel is asked, ms.
const ASK_MS: u64 = 10 * Time::MINUTE_MS;

/// Asks the kernel now and then, beside the node: the answer may take seconds.
#[derive(Debug)]
pub(super) struct KernelClock {
    command: Vec<OsString>,
    asked: Option<Asked>,
    /// By boot time.
    ask_at: Time,
    said: Option<Statement>,
}

/// A question on its way.
#[derive(Debug)]
struct Asked {
    /// Time of the clock before the question.
    at: Time,
    answer: JoinHandle<bool>,
}

impl Default for KernelClock {
    fn default() -> Self {
        Self::of_command(COMMAND.map(OsString::from).to_vec())
    }
}

impl KernelClock {
    /// Asks by this program and its arguments.
    pub(super) const fn of_command(command: Vec<OsString>) -> Self {
        Self { command, asked: None, ask_at: Time::from_ms(0), said: None }
    }

    /// Returns true while an answer is expected.
    pub(super) const fn is_asking(&self) -> bool {
        self.asked.is_some()
    }

    /// Returns the last time at which the clock counted as synchronised, and asks again if that is due.
    pub(super) fn poll_statement(&mut self, now: Moment) -> Option<Statement> {
        if let Some(asked) = self.asked.take_if(|asked| asked.answer.is_finished())
            && asked.answer.join().is_ok_and(|is_synchronised| is_synchronised)
        {
            // By the time before the question: what moved the clock meanwhile is vouched for by the next answer.
            self.said = Some(Statement { at: asked.at, within_ms: WITHIN_MS });
        }
        if self.asked.is_none() && now.boot >= self.ask_at {
            self.ask_at = now.boot.plus_ms(ASK_MS);
            let command = self.command.clone();
            let answer = thread::spawn(move || is_synchronised(&command));
            self.asked = Some(Asked { at: now.wall, answer });
        }
        self.said
    }
}

/// Returns true if the program says so. A system without it says nothing.
fn is_synchronised(command: &[OsString]) -> bool {
    let Some((program, words)) = command.split_first() else { return false };
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::null()).stderr(Stdio::null());
    command.output().is_ok_and(|said| said.status.success() && said.stdout.trim_ascii() == b"yes")
}
