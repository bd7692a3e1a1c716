//! What a server asks of the system for itself.

use crate::doors::files;
use crate::exit::{Exit, Fault};

/// Raises the soft limit of open files to the hard one, which must have room for `needed`.
///
/// # Errors
/// 78 if it has not (MIX-28).
pub fn room_for_files(needed: u64) -> Result<(), Fault> {
    let refused = |text: String| Fault::new(Exit::Config, text, "raise it with `ulimit -Hn`");
    let hard = files::raise()
        .map_err(|error| refused(format!("the limit of open files is not known: {error}")))?;
    if hard < needed {
        let text = format!("this process may have {hard} open files and needs {needed}");
        return Err(refused(text));
    }
    Ok(())
}
