//! Checks that rules and sections cited in comments and documents exist.
//!
//! A rule is cited by its number alone (MSG-16), a section as `messenger 5.2`, by the name of the
//! document in `docs/protocols/` and a number with one dot. Sections without a number, and those of
//! third-party documents, are not checked.

use super::floors::FLOORS;
use super::rules::Rule;
use super::{Diagnostic, Tree};
use std::collections::BTreeSet;

/// Extensions of files written by hand, code and documents.
const CITING: [&str; 8] = ["md", "mjs", "py", "rs", "sh", "svelte", "toml", "ts"];

/// The rules and sections that can be cited.
struct Citable<'a> {
    names: BTreeSet<&'a str>,
    rules: BTreeSet<Rule<'a>>,
    /// The sections in their cited form.
    sections: BTreeSet<String>,
    /// The families of rules: those of all documents, and those reserved for crates.
    families: BTreeSet<String>,
}

pub fn check(tree: &Tree) -> Vec<Diagnostic> {
    let citable = Citable::from_tree(tree);
    let mut refused = Vec::new();
    for (path, text) in tree.files_ending(&CITING) {
        // The rules in force are checked by `rules`.
        let lines = text.lines().enumerate().filter(|(_, line)| !line.contains("In force:"));
        let lines = lines.filter(|(_, line)| citable.may_cite(line));
        for (index, line) in lines {
            let missing = citable.find_missing(line).into_iter();
            refused.extend(missing.map(|text| Diagnostic::new(path, index + 1, text)));
        }
    }
    refused
}

impl<'a> Citable<'a> {
    fn from_tree(tree: &'a Tree) -> Self {
        let mut names = BTreeSet::new();
        let mut rules = BTreeSet::new();
        let mut sections = BTreeSet::new();
        for (path, text) in tree.files_ending(&["md"]) {
            let Some(name) = path.strip_prefix("docs/protocols/") else { continue };
            let name = name.trim_end_matches(".md");
            names.insert(name);
            rules.extend(rules_of(text));
            sections.extend(sections_of(name, text));
        }
        let crates = FLOORS.iter().map(|(name, _)| name.trim_start_matches("mezza-"));
        let families = crates.map(str::to_uppercase);
        let families = families.chain(rules.iter().map(|rule| rule.family.to_owned()));
        Self { names, sections, families: families.collect(), rules }
    }

    /// Returns true if the line may contain a citation. This check is quick.
    fn may_cite(&self, line: &str) -> bool {
        line.contains('-') || self.names.iter().any(|name| line.contains(name))
    }

    /// Returns the errors of the citations in a line.
    fn find_missing(&self, line: &str) -> Vec<String> {
        let rules = rules_in(line).filter(|rule| !self.rules.contains(rule));
        let rules = rules.filter(|rule| self.families.contains(rule.family));
        let rules =
            rules.map(|rule| format!("no document defines {}; cite one that is there", rule.name));
        let cited = sections_in(line, &self.names).into_iter();
        let sections = cited.filter(|section| !self.sections.contains(section));
        let sections = sections.map(|section| format!("no section {section}; cite one that is"));
        rules.chain(sections).collect()
    }
}

/// Returns the rules that a document defines: in bold type, or at the start of a list item.
fn rules_of(text: &str) -> impl Iterator<Item = Rule<'_>> {
    text.lines().flat_map(|line| {
        let bold = line.split("**").skip(1).step_by(2);
        let head = line.strip_prefix("- ").and_then(|entry| entry.split(' ').next());
        bold.chain(head).filter_map(Rule::parse)
    })
}

/// Returns the numbered sections of a document in their cited form.
fn sections_of(name: &str, text: &str) -> impl Iterator<Item = String> {
    let headings = text.lines().filter_map(|line| line.trim_start_matches('#').strip_prefix(' '));
    headings.filter_map(move |heading| Some(format!("{name} {}", heading.split(' ').next()?)))
}

/// Returns the words of a line that look like rules.
fn rules_in(line: &str) -> impl Iterator<Item = Rule<'_>> {
    let words = line.split(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_');
    words.filter_map(Rule::parse)
}

/// Returns the sections that a line cites; a list such as `messenger 5.2, 5.4` names the document
/// once.
fn sections_in(line: &str, names: &BTreeSet<&str>) -> Vec<String> {
    let mut cited = Vec::new();
    let mut name = None;
    for word in line.split_whitespace() {
        let number = word.trim_end_matches(|c: char| c.is_ascii_punctuation());
        let (section, part) = number.split_once('.').unwrap_or_default();
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        name = if is_number(section) && is_number(part) {
            cited.extend(name.map(|name| format!("{name} {number}")));
            name.filter(|_| word.ends_with(','))
        } else {
            names.get(word.trim_start_matches('(').trim_matches('`')).copied()
        };
    }
    cited
}
