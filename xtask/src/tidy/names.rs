//! No two crates have public types of the same name.

use super::shipped::shipped;
use super::source::is_part;
use super::{Diagnostic, Tree};
use std::collections::{BTreeMap, BTreeSet};

/// Names that every machine and crate may use for the same purpose.
const SHARED: [&str; 4] = ["Error", "Input", "Output", "Settings"];

/// Returns the diagnostics of names that several crates use.
pub fn check(tree: &Tree) -> Vec<Diagnostic> {
    let mut named = BTreeMap::<String, Vec<(&str, usize)>>::new();
    for (path, code) in shipped(tree, "crates/") {
        let lines = code.lines().enumerate().filter(|_| path.split('/').nth(2) == Some("src"));
        for (index, name) in lines.filter_map(|(index, line)| Some((index, public_type(line)?))) {
            named.entry(name.to_owned()).or_default().push((path, index + 1));
        }
    }
    named.retain(|name, _| !SHARED.contains(&name.as_str()));
    named.iter().flat_map(|(name, places)| report_several(name, places)).collect()
}

/// Returns the diagnostics at the places of one name.
fn report_several(name: &str, places: &[(&str, usize)]) -> Vec<Diagnostic> {
    let crates = places.iter().filter_map(|(path, _)| path.split('/').nth(1));
    let crates = crates.collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>();
    let text = format!("`{name}` is a public type of {}; rename all but one", crates.join(", "));
    let places = places.iter().filter(|_| crates.len() > 1);
    places.map(|(path, line)| Diagnostic::new(path, *line, text.as_str())).collect()
}

/// Returns the name of the public type that a line begins.
fn public_type(line: &str) -> Option<&str> {
    let item = line.trim_start().strip_prefix("pub ")?;
    let (kind, name) = item.strip_prefix("unsafe ").unwrap_or(item).split_once(' ')?;
    let is_type = ["struct", "enum", "trait", "type"].contains(&kind);
    // In a macro the name may be an argument, `$name`.
    name.split(|c| !is_part(c)).next().filter(|name| is_type && !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::plant;

    const SIM: &str = "crates/mezza-sim/src/a.rs";

    /// Returns the diagnostics of two crates: one with this text and the other with `pub struct
    /// Peer`.
    fn refuses(name: &str, path: &str, text: &str) -> Vec<String> {
        let peer = "#![no_std]\n\npub struct Peer<'a>(&'a u8);\n";
        let root = plant(name, &[("crates/mezza-ratchet/src/lib.rs", peer), (path, text)]);
        let tree = Tree::read(&root).expect("the tree is readable");
        check(&tree).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_public_type_of_two_crates() {
        for item in ["struct Peer;", "enum Peer {}", "unsafe trait Peer {}", "type Peer = u8;"] {
            let refused = refuses("names-bad", SIM, &format!("// A\npub {item}\n"));
            assert_eq!(refused.len(), 2, "{item}: {refused:#?}");
            let [first, second] = ["crates/mezza-ratchet/src/lib.rs:3: `Peer` is a", SIM];
            assert!(refused[0].starts_with(first) && refused[1].starts_with(second));
            assert!(
                refused[1].contains(":2: `Peer` is a public type of mezza-ratchet, mezza-sim;")
            );
        }
    }

    #[test]
    fn names_that_may_stand_twice() {
        for (path, text) in [
            (SIM, "pub(crate) struct Peer;\nstruct Peer;\n"),
            (SIM, "#[cfg(test)]\nmod tests {\n    pub struct Peer;\n}\n"),
            (
                SIM,
                "macro_rules! a {\n    ($name:ident) => {\n        pub struct $name;\n    };\n}\n",
            ),
            (SIM, "pub struct Peers;\npub use mezza_ratchet::Peer;\n"),
            ("crates/mezza-sim/tests/it/main.rs", "pub struct Peer;\n"),
            ("crates/mezza-ratchet/src/a.rs", "pub enum Peer {}\n"),
        ] {
            assert_eq!(refuses("names-good", path, text), [""; 0], "{text}");
        }
        let both =
            [(SIM, "pub enum Error {}\n"), ("crates/mezza-core/src/a.rs", "pub struct Error;\n")];
        let tree = Tree::read(&plant("names-shared", &both)).expect("the tree is readable");
        assert_eq!(check(&tree), []);
    }
}
