//! The rules of this repository that no compiler checks. Each diagnostic ends with the next step.
//!
//! | module | refuses |
//! |---|---|
//! | [`carriers`] | a carrier named outside of its folder, its adapter and its texts |
//! | [`floors`] | an edge that points up or sideways, an unknown crate, more than fifteen |
//! | [`device`] | functions of the messenger's device outside of its short file |
//! | [`order`] | cyclic imports and method calls among files of the device |
//! | [`layers`] | an import against the order of the modules of a crate |
//! | [`mod@prose`] | comments, names and signatures above the limits of their crate |
//! | [`subjects`] | a commit whose subject is too long or names no area |
//! | [`json`] | a path passed to `json!` without conversion |
//! | [`names`] | a public type name used in several crates |
//! | [`words`] | access to the system below floor 3, `unsafe`, leftovers, forbidden names, a
//! machine's own paths |
//! | [`shape`] | files above 600 lines, `mod.rs`, crates without the common lints |
//! | [`classes`] | arithmetic on lanes without a proof of its bounds |
//! | [`rules`] | a rule of a specification in force without a test of its name |
//! | [`citations`] | a rule or a numbered section that is cited and does not exist |
//! | [`skips`] | a test that is skipped without a package that the full run does not install |
//! | [`walk`] | a function that ARCHITECTURE names and that does not exist |
//! | [`tree`], [`source`], [`shipped`] | the input of the other modules: the files, and Rust
//! without comments, strings or tests |

mod carriers;
mod citations;
mod classes;
mod device;
mod floors;
mod json;
mod layers;
mod names;
mod order;
mod prose;
mod rules;
mod shape;
mod shipped;
mod skips;
mod source;
mod subjects;
#[cfg(test)]
mod tests;
mod tree;
mod walk;
mod words;

use std::fmt;
use std::path::Path;
use tree::Tree;

/// A violation of a rule, with its location.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Diagnostic {
    /// The path relative to the repository.
    path: String,
    /// The line from 1; 0: the whole file.
    line: usize,
    /// The violation and the next step.
    text: String,
}

impl Diagnostic {
    fn new(path: &str, line: usize, text: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, text: text.into() }
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.text),
            line => write!(f, "{}:{line}: {}", self.path, self.text),
        }
    }
}

/// Collects all diagnostics of the repository at `root`, in order of path and line.
pub fn collect_refusals(root: &Path) -> Result<Vec<Diagnostic>, String> {
    let tree = Tree::read(root)?;
    let mut all = floors::check(&tree);
    all.extend(carriers::check(&tree));
    all.extend(device::check(&tree));
    all.extend(order::check(&tree));
    all.extend(layers::check(&tree));
    all.extend(json::check(&tree));
    all.extend(names::check(&tree));
    all.extend(words::check(&tree));
    all.extend(shape::check(&tree));
    all.extend(rules::check(&tree));
    all.extend(citations::check(&tree));
    all.extend(skips::check(&tree));
    all.extend(walk::check(&tree));
    all.extend(classes::check(&tree));
    all.extend(prose::check(&tree));
    all.extend(subjects::check(root));
    all.sort();
    all.dedup();
    Ok(all)
}

/// Runs `cargo xtask tidy`.
pub fn run_tidy(root: &Path) -> Result<(), String> {
    let all = collect_refusals(root)?;
    if all.is_empty() {
        println!("tidy: nothing to refuse");
        return Ok(());
    }
    let lines = all.iter().map(ToString::to_string).collect::<Vec<_>>();
    Err(format!("{}\ntidy: {} refused", lines.join("\n"), all.len()))
}

/// Runs `cargo xtask prose`.
pub fn run_prose(root: &Path, args: &[String]) -> Result<(), String> {
    prose::run_prose(root, args)
}

/// Returns the crates of floors 0 to 2 in the repository at `root`.
pub fn pure_crates(root: &Path) -> Result<Vec<String>, String> {
    let tree = Tree::read(root)?;
    Ok(floors::pure_crates(&tree).map(str::to_owned).collect())
}
