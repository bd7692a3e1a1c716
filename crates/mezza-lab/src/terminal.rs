//! What the program says on its terminal.

use std::io::Write as _;

use anyhow::Result;

/// A line on standard output.
pub fn say(line: &str) -> Result<()> {
    Ok(writeln!(std::io::stdout().lock(), "{line}")?)
}

/// A line on standard error; if even that is gone, nobody reads it.
pub fn complain(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}
