//! Output on the terminal.

use std::io::Write as _;

use anyhow::Result;

/// Prints a line on standard output.
pub fn say(line: &str) -> Result<()> {
    Ok(writeln!(std::io::stdout().lock(), "{line}")?)
}

/// Prints a line on standard error. If that fails, no other output is left, so the error is ignored.
pub fn complain(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}
