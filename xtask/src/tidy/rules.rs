//! Checks that every rule in force has a test with its name.
//!
//! A document in `docs/protocols/` has a line `In force: MSG-1 MSG-2 ..` near its top. The test of
//! MSG-1 is a function `msg_1_..` with a test attribute in some crate (or in xtask); rules about
//! the page may instead have one in `ui/tests/`: a title that begins with `web_3`, or a function
//! `web_3_..` exported to the browser suite by `export const`.

use super::{Diagnostic, Tree};
use std::collections::BTreeSet;

pub fn check(tree: &Tree) -> Vec<Diagnostic> {
    let tested = find_tested(tree);
    let mut refused = Vec::new();
    let documents =
        tree.files_ending(&["md"]).filter(|(path, _)| path.starts_with("docs/protocols/"));
    for (path, text) in documents {
        let lists = text.lines().enumerate().filter_map(|(i, line)| {
            Some((i + 1, line.trim_start_matches(['*', '>', ' ']).strip_prefix("In force:")?))
        });
        for (line, list) in lists {
            for rule in list.split(|c: char| !c.is_ascii_alphanumeric() && c != '-') {
                refused.extend(rule_error(path, line, rule, text, &tested));
            }
        }
    }
    refused
}

fn rule_error(
    path: &str,
    line: usize,
    rule: &str,
    text: &str,
    tested: &BTreeSet<String>,
) -> Option<Diagnostic> {
    let prefix = Rule::parse(rule)?.prefix();
    if !text.contains(&format!("**{rule}**")) {
        let text = format!("{rule} is in force, but this document has no **{rule}**");
        return Some(Diagnostic::new(path, line, text));
    }
    let text = format!("{rule} is in force without a test; write `fn {prefix}_..` or take it off");
    (!tested.contains(&prefix)).then(|| Diagnostic::new(path, line, text))
}

/// The name of a rule: `MSG-1`, of the family `MSG`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rule<'a> {
    pub name: &'a str,
    pub family: &'a str,
}

impl<'a> Rule<'a> {
    /// Parses a name. Returns `None` if it is not the name of a rule.
    pub fn parse(name: &'a str) -> Option<Self> {
        let (family, number) = name.split_once('-')?;
        let is_rule = family.len() >= 2
            && family.bytes().all(|b| b.is_ascii_uppercase())
            && !number.is_empty()
            && number.bytes().all(|b| b.is_ascii_digit());
        is_rule.then_some(Self { name, family })
    }

    /// Returns the prefix of the rule's test: `msg_1`.
    fn prefix(self) -> String {
        self.name.to_lowercase().replace('-', "_")
    }
}

/// Returns the prefixes (`msg_1`) of all test functions, and of all titles and exports in
/// `ui/tests/`.
fn find_tested(tree: &Tree) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (_, code) in tree.code() {
        // `#[test]`, and `#[tokio::test(..)]`.
        let attributes = code.split("test]").skip(1).chain(code.split("::test(").skip(1));
        found.extend(attributes.filter_map(|behind| two_words(behind.split_once("fn ")?.1)));
    }
    for (_, text) in tree.iter().filter(|(path, _)| path.starts_with("ui/tests/")) {
        let titles = text.split(['"', '\'', '`']);
        let exported = text.split("export const ").skip(1);
        found.extend(titles.chain(exported).filter_map(two_words));
    }
    found
}

/// Returns the prefix: `msg_1_refuses(` -> `msg_1`.
fn two_words(name: &str) -> Option<String> {
    let mut parts = name.split(|c: char| !c.is_ascii_alphanumeric());
    let family = parts.next()?;
    let number = parts.next()?;
    let ok = !family.is_empty()
        && family.bytes().all(|b| b.is_ascii_lowercase())
        && !number.is_empty()
        && number.bytes().all(|b| b.is_ascii_digit());
    let joined = name.as_bytes().get(family.len()) == Some(&b'_');
    (ok && joined).then(|| format!("{family}_{number}"))
}
