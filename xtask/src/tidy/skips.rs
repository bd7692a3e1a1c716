//! A test that is skipped without a Debian package: the full run installs that package, or the skip would
//! fail in CI, where nothing may be skipped.

use super::{Diagnostic, Tree};
use crate::{interop, needs};

/// The words before the names of packages.
const HINT: &str = "apt install ";
/// How a skipped test begins its line.
const SKIPPED: &str = "\"SKIPPED ";

pub fn check(tree: &Tree) -> Vec<Diagnostic> {
    let is_installed = |name: &str| {
        needs::PACKAGES.iter().chain(&interop::PACKAGES).any(|package| package.name == name)
    };
    let mut refused = Vec::new();
    for (path, text) in tree.files_ending(&["rs"]).filter(|(path, _)| path.starts_with("crates/")) {
        for (at, line) in text.lines().enumerate() {
            let Some((_, after)) = line.split_once(SKIPPED) else { continue };
            for name in named_packages(after).filter(|name| !is_installed(name)) {
                let wrong = format!(
                    "skipped without `{name}`, which `cargo xtask test` does not install; \
                     add it to xtask/src/needs.rs"
                );
                refused.push(Diagnostic::new(path, at + 1, wrong));
            }
        }
    }
    refused
}

/// Returns the packages that a line tells to install.
fn named_packages(line: &str) -> impl Iterator<Item = &str> {
    let names = line.split_once(HINT).map_or("", |(_, names)| names);
    let end = names.find(['"', ',', ';']).unwrap_or(names.len());
    names[..end].split_whitespace()
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::tests::plant;
    use crate::tidy::tree::Tree;

    #[test]
    fn a_skip_without_a_package_that_is_not_installed_is_refused() {
        let line =
            "println!(\"SKIPPED hats: no rabbit; apt install rabbit zbar-tools, run as root\");";
        let root = plant("skips", &[("crates/mezza-core/src/lib.rs", line)]);
        let refused = check(&Tree::read(&root).expect("a tree"));
        assert_eq!(refused.len(), 1, "{refused:?}");
        assert!(refused[0].text.contains("`rabbit`"), "{refused:?}");
    }
}
