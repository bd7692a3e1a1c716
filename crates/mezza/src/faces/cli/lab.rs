//! `mezza lab ..`: runs the lab, a separate program in the same folder.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use crate::faces::lab::{absent_fault, find_lab};
use mezza_host::api::{Exit, Fault};

/// Replaces this process by the lab.
///
/// # Errors
/// If the lab's program is missing.
pub(crate) fn exec_lab(words: &[OsString]) -> Result<Exit, Fault> {
    let program = find_lab()?;
    let error = Command::new(&program).args(words).exec();
    Err(absent_fault(&format!("{} does not start: {error}", program.display())))
}

/// Returns the fault for options of this program before `lab`.
pub(crate) fn own_options() -> Fault {
    let text = "the lab does not know the options of this program";
    Fault::new(Exit::Usage, text, "write its own behind `mezza lab`; `mezza lab --help` lists them")
}
