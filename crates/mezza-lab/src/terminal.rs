//! Output on the terminal.

use std::io::Write as _;

use anyhow::Result;

/// Prints a line on standard output.
pub fn print_line(line: &str) -> Result<()> {
    Ok(writeln!(std::io::stdout().lock(), "{line}")?)
}

/// Prints a line on standard error. If that fails, no other output is left, so the error is ignored.
pub fn print_error(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}
