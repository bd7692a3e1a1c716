//! Exit codes and faults.
//!
//! A [`Fault`] states the problem and the next step; its [`Exit`] is one list of numbers for all
//! subcommands.

use std::fmt;
use std::process::ExitCode;

/// The exit codes; those of `sysexits.h` where one fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Success.
    Done = 0,
    /// A negative result: not delivered in time, numbers differ, a check failed.
    No = 1,
    /// The command line is wrong.
    Usage = 2,
    /// Input, or a stored file, is malformed.
    Malformed = 65,
    /// The contact, vault or file does not exist.
    NotFound = 66,
    /// Node or relay cannot be reached.
    Unreachable = 69,
    /// A bug of this program.
    Bug = 70,
    /// A file cannot be written.
    CannotWrite = 73,
    /// Temporary failure: locked by another process, or rate-limited.
    Busy = 75,
    /// Wrong passphrase, or wrong owner or mode of a file.
    Denied = 77,
    /// An error in the configuration or of the clock.
    Config = 78,
}

impl Exit {
    /// All exit codes.
    pub const ALL: [Self; 11] = [
        Self::Done,
        Self::No,
        Self::Usage,
        Self::Malformed,
        Self::NotFound,
        Self::Unreachable,
        Self::Bug,
        Self::CannotWrite,
        Self::Busy,
        Self::Denied,
        Self::Config,
    ];

    /// Returns the number that the shell sees.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// Returns the meaning for manuals.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::No => {
                "the answer is no: not delivered in time, a bad line of the check, numbers that differ"
            }
            Self::Usage => "the command line is wrong",
            Self::Malformed => "input or a stored file is malformed",
            Self::NotFound => "no such contact, vault or file",
            Self::Unreachable => "node or relay cannot be reached",
            Self::Bug => "a bug of this program",
            Self::CannotWrite => "a file cannot be written",
            Self::Busy => "try again later: in use by another process, or limited",
            Self::Denied => "wrong passphrase, or wrong owner or mode of a file",
            Self::Config => "a wrong setting or a wrong clock",
        }
    }

    /// Returns the exit code of a number from a server, if known.
    pub(crate) fn of_number(number: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|exit| u64::from(exit.number()) == number)
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.number())
    }
}

/// An error for the user: the problem, and the next step.
///
/// Neither text holds a key, a note, a contact's name or an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The exit code if the fault ends the program.
    pub code: Exit,
    /// The problem; no full stop at the end.
    pub text: String,
    /// The next step; no full stop at the end.
    pub next: String,
}

impl Fault {
    /// Makes an error with its next step.
    pub fn new(code: Exit, text: impl Into<String>, next: impl Into<String>) -> Self {
        Self { code, text: text.into(), next: next.into() }
    }

    /// Makes an error that only a bug of this program can cause.
    pub fn bug(text: impl Into<String>) -> Self {
        Self::new(Exit::Bug, text, "this is a bug of ours; please report it")
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.text, self.next)
    }
}

impl std::error::Error for Fault {}
