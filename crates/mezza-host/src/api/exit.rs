//! How the program ends, and the one error that a person reads.
//!
//! A [`Fault`] says what is wrong and what to do next; its [`Exit`] is the same list of numbers for
//! every subcommand.

use std::fmt;
use std::process::ExitCode;

/// The exit codes, those of `sysexits.h` where one fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Done.
    Done = 0,
    /// The answer is no: not delivered in time, numbers differ, a check failed.
    No = 1,
    /// The command line is wrong.
    Usage = 2,
    /// Input, or a stored file, is malformed.
    Malformed = 65,
    /// No such contact, vault or file.
    NotFound = 66,
    /// Node or relay cannot be reached.
    Unreachable = 69,
    /// A bug of ours.
    Bug = 70,
    /// Something cannot be written.
    CannotWrite = 73,
    /// Try again later: locked by another process, or slow down.
    Busy = 75,
    /// The passphrase or the modes of a file.
    Denied = 77,
    /// The configuration or the clock.
    Config = 78,
}

impl Exit {
    /// All of them.
    const ALL: [Self; 11] = [
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

    /// The number that the shell sees.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The code of a number, which a server sent.
    pub(crate) fn of_number(number: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|exit| u64::from(exit.number()) == number)
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.number())
    }
}

/// An error for a person: what is wrong, and the next step to take.
///
/// Neither text holds a key, a note, a contact's name or an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// How the program ends if nothing else can be done.
    pub code: Exit,
    /// The fault; no full stop at the end.
    pub text: String,
    /// The next step; no full stop at the end.
    pub next: String,
}

impl Fault {
    /// An error with its next step.
    pub fn new(code: Exit, text: impl Into<String>, next: impl Into<String>) -> Self {
        Self { code, text: text.into(), next: next.into() }
    }

    /// Something that cannot happen unless this program is wrong.
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
