//! Checks that functions and fields named by ARCHITECTURE exist: `Sessions::seal` in a file that
//! implements `Sessions`, `leave::settle` in the module `leave`.

use super::{Diagnostic, Tree};

const PAGE: &str = "ARCHITECTURE.md";

pub fn check(tree: &Tree) -> Vec<Diagnostic> {
    let page = tree.iter().find(|(path, _)| *path == PAGE);
    let lines = page.into_iter().flat_map(|(_, text)| text.lines().enumerate());
    let mut refused = Vec::new();
    for (index, line) in lines {
        let missing =
            named_paths(line).into_iter().filter(|(owner, name)| !is_defined(tree, owner, name));
        refused.extend(missing.map(|(owner, name)| {
            let text = format!("`{owner}::{name}` does not exist; name the function of today");
            Diagnostic::new(PAGE, index + 1, text)
        }));
    }
    refused
}

/// Returns owner and name of each `path::to::owner::name` between backticks. Paths of the standard
/// library, and those that end with a type, are left out.
fn named_paths(line: &str) -> Vec<(&str, &str)> {
    let spans = line.split('`').skip(1).step_by(2);
    let paths = spans.filter(|span| !span.starts_with("std::"));
    let split = paths.filter_map(|span| {
        let (path, name) = span.split_once('(').map_or(span, |(path, _)| path).rsplit_once("::")?;
        Some((path.rsplit("::").next()?, name))
    });
    split.filter(|(_, name)| is_snake(name)).collect()
}

fn is_snake(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    !name.is_empty() && name.chars().all(fits)
}

fn is_defined(tree: &Tree, owner: &str, name: &str) -> bool {
    let is_type = owner.starts_with(char::is_uppercase);
    tree.code().any(|(path, code)| {
        let is_owner = if is_type {
            code.lines().any(|line| declares_owner(line, owner))
        } else {
            // A module is its file and the files below its folder.
            path.ends_with(&format!("/{owner}.rs")) || path.contains(&format!("/{owner}/"))
        };
        is_owner && (has_word(code, &format!("fn {name}")) || is_type && has_field(code, name))
    })
}

/// Returns true if a line declares the type or opens a block of its methods.
fn declares_owner(line: &str, owner: &str) -> bool {
    let starts = ["impl", "pub struct", "pub trait", "pub enum", "pub(crate) trait", "struct"];
    starts.iter().any(|start| line.trim_start().starts_with(start)) && has_word(line, owner)
}

fn has_field(code: &str, name: &str) -> bool {
    code.contains(&format!(" {name}: "))
}

/// Returns true if `text` contains `word` as a whole word.
fn has_word(text: &str, word: &str) -> bool {
    let inside = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(start, _)| {
        let before = text[..start].chars().next_back();
        let after = text[start + word.len()..].chars().next();
        !before.is_some_and(inside) && !after.is_some_and(inside)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::plant;

    #[test]
    fn functions_that_do_not_exist_are_refused() {
        let page = "1. `Box::fill` and `Box::size` in `a::pack`\n2. `Box::empty`\n3. `std::fs`, `a::Box`\n4. `a::fi`\n";
        let code = "pub struct Box { size: u8 }\nimpl Box { fn fill() {} }\nfn pack() {}\nfn fill_up() {}\n";
        let files = [(PAGE, page), ("crates/mezza-sim/src/a.rs", code)];
        let root = plant("walk", &files);
        let refused = check(&Tree::read(&root).expect("the tree is readable"));
        let texts = refused.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(texts.len(), 2, "{texts:#?}");
        assert!(texts[0].starts_with("ARCHITECTURE.md:2: `Box::empty`"), "{texts:#?}");
        assert!(texts[1].starts_with("ARCHITECTURE.md:4: `a::fi`"), "{texts:#?}");
    }
}
