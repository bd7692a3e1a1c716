//! Cases of `vectors/messenger`. A second implementation, `reference.py` beside them, derives the same files.

use mezza_testing::{Case, read_cases};

/// Reads all cases of a folder, at least `least` of them, by name.
pub fn walk(folder: &str, least: usize) -> Vec<Case> {
    read_cases(&format!("messenger/{folder}"), least)
}

/// The variant of an error as the files write it: lower case, no fields.
pub fn reason(error: impl std::fmt::Debug) -> String {
    let text = format!("{error:?}").to_lowercase();
    text.chars().take_while(char::is_ascii_alphabetic).collect()
}
