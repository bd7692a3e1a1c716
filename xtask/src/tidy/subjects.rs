//! The subjects of the newest commits.

use super::Diagnostic;
use std::path::Path;
use std::process::Command;

/// Number of checked commits: older ones cannot be changed any more.
const COMMITS: &str = "-20";
/// Maximum number of characters of a subject.
const CHARACTERS_MAX: usize = 60;

/// Returns diagnostics for recent subjects that are too long or name no area. A folder without
/// history has none.
pub fn check(root: &Path) -> Vec<Diagnostic> {
    let mut git = Command::new("git");
    let log = git.args(["log", "--no-merges", "--format=%s", COMMITS]).current_dir(root).output();
    let text = log.map(|log| String::from_utf8_lossy(&log.stdout).into_owned()).unwrap_or_default();
    text.lines().filter_map(find_refusal).map(|text| Diagnostic::new("git log", 0, text)).collect()
}

/// Returns the reason why a subject is refused.
fn find_refusal(subject: &str) -> Option<String> {
    let length = subject.chars().count();
    if length > CHARACTERS_MAX {
        return Some(format!(
            "`{subject}` has {length} characters; {CHARACTERS_MAX} are the limit"
        ));
    }
    let is_area = |area: &str| {
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || ", -/".contains(c);
        !area.is_empty() && area.chars().all(fits)
    };
    let named = subject.split_once(": ").is_some_and(|(area, _)| is_area(area));
    (!named && !subject.starts_with("Revert "))
        .then(|| format!("`{subject}` names no area; write `area: verb object`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_names_its_area_in_sixty_characters() {
        assert_eq!(find_refusal("mesh: bound the answers to one SYNC"), None);
        assert!(find_refusal("Fix things").is_some());
        assert!(find_refusal(&format!("mesh: {}", "long ".repeat(12))).is_some());
    }
}
