//! Mutants that no test can notice, because they do not change what the program does.
//!
//! `xtask/equivalents.txt` has one a line: the mutant as cargo-mutants writes it, without line and
//! column, and behind a bar the reason. A line stands for one mutant: a function with two of the same
//! name needs two.

use std::fs;
use std::path::Path;

/// A mutant of the list.
#[derive(Debug, PartialEq, Eq)]
pub struct Accepted {
    name: String,
}

/// The list of the repository.
pub fn read(root: &Path) -> Result<Vec<Accepted>, String> {
    let path = root.join("xtask/equivalents.txt");
    let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    parse(&text).map_err(|line| format!("{}: no reason behind a bar: {line}", path.display()))
}

/// The lines of a list. The error is the first line without a reason.
pub fn parse(text: &str) -> Result<Vec<Accepted>, String> {
    let lines = text.lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let accepted = |line: &str| {
        let (name, reason) = line.rsplit_once(" | ").ok_or_else(|| line.to_owned())?;
        let name = name.trim().to_owned();
        if reason.trim().is_empty() { Err(line.to_owned()) } else { Ok(Accepted { name }) }
    };
    lines.map(accepted).collect()
}

/// The mutants that are not in the list. Each line of the list stands for one mutant.
pub fn without(mutants: Vec<String>, accepted: &[Accepted]) -> Vec<String> {
    let mut left: Vec<&str> = accepted.iter().map(|accepted| accepted.name.as_str()).collect();
    let is_new = |mutant: &String| match left.iter().position(|name| *name == unplaced(mutant)) {
        Some(at) => {
            left.swap_remove(at);
            false
        }
        None => true,
    };
    mutants.into_iter().filter(is_new).collect()
}

/// `FILE:LINE:COLUMN: WHAT` without line and column.
fn unplaced(mutant: &str) -> String {
    let Some((place, what)) = mutant.split_once(": ") else { return mutant.to_owned() };
    let file = place.split(':').next().unwrap_or(place);
    format!("{file}: {what}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_takes_one_mutant_wherever_it_stands() {
        let accepted =
            parse("# why\n\na.rs: replace | with ^ in f | bits are apart\n").expect("one");
        let mutants = ["a.rs:7:1: replace | with ^ in f", "a.rs:9:1: replace | with ^ in f"];
        let left = without(mutants.map(str::to_owned).into(), &accepted);
        assert_eq!(left, ["a.rs:9:1: replace | with ^ in f"]);
    }

    #[test]
    fn a_line_without_a_reason_is_refused() {
        assert!(parse("a.rs: replace < with <= in f").is_err());
        assert!(parse("a.rs: replace < with <= in f | ").is_err());
    }

    #[test]
    fn the_list_of_the_repository_is_sound() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let accepted = read(&root).expect("a list");
        for Accepted { name } in &accepted {
            let file = name.split(": ").next().expect("a file");
            assert!(root.join(file).is_file(), "{name}");
        }
    }
}
