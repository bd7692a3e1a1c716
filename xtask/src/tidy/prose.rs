//! Comments, names and signatures, counted for each crate. A crate above a limit has its number in
//! `xtask/leftovers.toml`, which may only shrink.
//!
//! | key | counts | limit |
//! |---|---|---|
//! | `openings` | paragraphs of docs that begin with What, Who, Whoever, Whether or That | 0 |
//! | `tuples` | parameters of functions whose type is a tuple | 0 |
//! | `pairs` | `let (a, b) = (x, y)`, except swaps, per 10,000 lines | 4 |
//! | `names` | function names of one word, of each hundred outside of trait impls | 38 |
//! | `bare` | lines of product code to one `//` comment, in the crates of protocols | 28 |

mod functions;

use super::shipped::shipped;
use super::{Diagnostic, Tree};
use functions::Function;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use toml::Table;

/// The list of numbers that are above their limits.
const LIST: &str = "xtask/leftovers.toml";
/// Openings that make a sentence hard to understand.
const OPENINGS: [&str; 5] = ["What", "Who", "Whoever", "Whether", "That"];
/// The crates whose code needs `//` comments most.
const REASONED: [&str; 5] =
    ["mezza-guard", "mezza-mesh", "mezza-messenger", "mezza-mixnet", "mezza-seka"];
/// Keys of the list, and their limits.
const LIMITS: [(&str, usize); 5] =
    [("openings", 0), ("tuples", 0), ("pairs", 4), ("names", 38), ("bare", 28)];

/// The counts of one crate.
#[derive(Default)]
struct Counts<'a> {
    lines: usize,
    product_lines: usize,
    comments: usize,
    functions: usize,
    /// The places of each key that has places: path, line, and the text.
    places: BTreeMap<&'static str, Vec<(&'a str, usize, String)>>,
}

impl<'a> Counts<'a> {
    fn add(&mut self, key: &'static str, path: &'a str, line: usize, text: &str) {
        self.places.entry(key).or_default().push((path, line, text.trim().to_owned()));
    }

    /// Returns the number to compare with the limit of a key.
    fn number(&self, key: &str) -> usize {
        let found = self.places.get(key).map_or(0, Vec::len);
        match key {
            "pairs" => (found * 10_000).div_ceil(self.lines.max(1)),
            "names" => (found * 100).div_ceil(self.functions.max(1)),
            "bare" => self.product_lines / self.comments.max(1),
            _ => found,
        }
    }
}

/// Returns diagnostics for crates whose numbers differ from their limits and from the list.
pub fn check(tree: &Tree) -> Vec<Diagnostic> {
    let Some(list) = read_list(tree) else { return Vec::new() };
    let mut refused = Vec::new();
    for (name, counts) in count_all(tree) {
        for (key, limit) in limits_of(name) {
            let number = counts.number(key);
            let listed = listed_number(&list, name, key);
            let allowed = listed.unwrap_or(limit);
            if number > allowed {
                let text = format!(
                    "{name}: `{key}` is {number}, {allowed} is allowed; `cargo xtask prose {name}` lists the places"
                );
                refused.push(Diagnostic::new(LIST, 0, text));
            } else if listed.is_some_and(|listed| number < listed) {
                let text = format!(
                    "{name}: `{key}` is {number} now, below the list; run `cargo xtask prose --shrink`"
                );
                refused.push(Diagnostic::new(LIST, 0, text));
            }
        }
    }
    refused
}

/// `cargo xtask prose [CRATE | --shrink]`: prints the numbers, or the places of one crate; or
/// lowers the list to the present numbers.
pub fn run_prose(root: &Path, args: &[String]) -> Result<(), String> {
    let tree = Tree::read(root)?;
    let all = count_all(&tree);
    match args.first().map(String::as_str) {
        None => {
            for (name, counts) in &all {
                let numbers =
                    limits_of(name).map(|(key, _)| format!("{key} {}", counts.number(key)));
                println!("{name:<16} {}", numbers.collect::<Vec<_>>().join("  "));
            }
            Ok(())
        }
        Some("--shrink") => {
            let text = shrink_list(&read_list(&tree).unwrap_or_default(), &all);
            std::fs::write(root.join(LIST), text).map_err(|e| format!("{LIST}: {e}"))
        }
        Some(name) => {
            let counts = all.get(name).ok_or(format!("no crate `{name}`"))?;
            for (key, places) in &counts.places {
                for (path, line, text) in places {
                    println!("{key} {path}:{line}: {text}");
                }
            }
            Ok(())
        }
    }
}

/// Returns the list with no number above the present ones. A number within its limit is left out.
fn shrink_list(list: &Table, all: &BTreeMap<&str, Counts<'_>>) -> String {
    let mut text = String::from(
        "# Numbers of `cargo xtask prose` that are above their limits. They may only shrink.\n",
    );
    for (name, counts) in all {
        let left = limits_of(name).filter_map(|(key, limit)| {
            let number = counts.number(key).min(listed_number(list, name, key)?);
            (number > limit).then(|| format!("{key} = {number}\n"))
        });
        let left = left.collect::<String>();
        if !left.is_empty() {
            // Writing to a String cannot fail.
            let _ = write!(text, "\n[{name}]\n{left}");
        }
    }
    text
}

fn limits_of(name: &str) -> impl Iterator<Item = (&'static str, usize)> {
    let is_reasoned = REASONED.contains(&name);
    LIMITS.into_iter().filter(move |(key, _)| *key != "bare" || is_reasoned)
}

/// Reads the list. A tree without a list, as planted by tests, is not counted.
fn read_list(tree: &Tree) -> Option<Table> {
    let (_, text) = tree.iter().find(|(path, _)| *path == LIST)?;
    // An unreadable list allows nothing.
    Some(text.parse().unwrap_or_default())
}

fn listed_number(list: &Table, name: &str, key: &str) -> Option<usize> {
    list.get(name)?.get(key)?.as_integer()?.try_into().ok()
}

/// Returns the counts of all crates, by name.
fn count_all(tree: &Tree) -> BTreeMap<&str, Counts<'_>> {
    let mut all = BTreeMap::<&str, Counts<'_>>::new();
    let texts = tree.iter().collect::<BTreeMap<_, _>>();
    for (path, code) in tree.code() {
        let Some((name, text)) = crate_of(path).zip(texts.get(path)) else { continue };
        let counts = all.entry(name).or_default();
        counts.lines += text.lines().count();
        count_openings(counts, path, text);
        for pair in functions::find_pairs(code) {
            counts.add("pairs", path, pair.line, &pair.text);
        }
        for function in functions::find_functions(code) {
            for tuple in &function.tuples {
                counts.add("tuples", path, function.line, tuple);
            }
        }
    }
    for (path, code) in shipped(tree, "") {
        let Some((name, text)) = crate_of(path).zip(texts.get(path)) else { continue };
        if path.split('/').any(|part| part == "tests" || part == "fuzz_targets") {
            continue;
        }
        let counts = all.entry(name).or_default();
        let own = functions::find_functions(&code).into_iter().filter(Function::has_own_name);
        for function in own {
            counts.functions += 1;
            if function.is_one_word() {
                counts.add("names", path, function.line, &function.name);
            }
        }
        let product = code.lines().filter(|line| !line.trim().is_empty());
        counts.product_lines += product.count();
        let comments = text.lines().filter(|line| is_reason(line.trim_start()));
        counts.comments += comments.count();
    }
    all
}

/// Returns the crate of a Rust file, or its folder outside of `crates/`.
fn crate_of(path: &str) -> Option<&str> {
    let path = path.strip_prefix("crates/").unwrap_or(path);
    path.split_once('/').map(|(name, _)| name)
}

/// Returns true for a comment that is not documentation.
fn is_reason(line: &str) -> bool {
    line.strip_prefix("//").is_some_and(|rest| !rest.starts_with(['/', '!']))
}

fn count_openings<'a>(counts: &mut Counts<'a>, path: &'a str, text: &str) {
    let mut inside = false;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_start();
        let doc = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
        let first = doc.and_then(|doc| doc.split_whitespace().next());
        let word = first.map(|word| word.trim_end_matches(|c: char| !c.is_alphanumeric()));
        if !inside && word.is_some_and(|word| OPENINGS.contains(&word)) {
            counts.add("openings", path, index + 1, line);
        }
        // Each paragraph counts, and so does the text below a heading.
        inside = doc.map(str::trim).is_some_and(|doc| !doc.is_empty() && !doc.starts_with('#'));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::plant;

    fn refuses(name: &str, text: &str, list: &str) -> Vec<String> {
        let files = [("crates/mezza-sim/src/a.rs", text), (LIST, list)];
        let tree = Tree::read(&plant(name, &files)).expect("the tree is readable");
        check(&tree).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn each_count_has_its_limit() {
        let bad = [
            ("openings", "/// What is here.\npub struct A;\n"),
            ("openings", "/// A.\n///\n/// # Errors\n/// What is here.\npub struct B;\n"),
            ("tuples", "fn set_size(size: (u8, u8)) {}\n"),
            ("pairs", "fn swap_all() { let (a, b) = (1, 2); }\n"),
            ("names", "fn told() {}\n"),
        ];
        for (key, text) in bad {
            let refused = refuses(&format!("prose-{key}"), text, "");
            assert!(refused.len() == 1 && refused[0].contains(key), "{refused:?}");
        }
        let good = "/// Returns whether it is.\nfn is_good(a: u8) { let (a, b) = (b, a); }\n";
        assert_eq!(refuses("prose-good", good, ""), Vec::<String>::new());
    }

    #[test]
    fn the_list_may_only_shrink() {
        let text = "/// What is here.\npub struct A;\n";
        let list = |number: u8| format!("[mezza-sim]\nopenings = {number}\n");
        assert_eq!(refuses("prose-listed", text, &list(1)), Vec::<String>::new());
        let refused = refuses("prose-more", text, &list(2));
        assert!(refused.len() == 1 && refused[0].contains("--shrink"), "{refused:?}");
    }

    #[test]
    fn a_shrunk_list_has_nothing_at_its_limit() {
        let file = [("crates/mezza-sim/src/a.rs", "/// What is here.\nfn is_told() {}\n")];
        let tree = Tree::read(&plant("prose-shrunk", &file)).expect("the tree is readable");
        let list = "[mezza-sim]\nopenings = 3\ntuples = 2\n".parse().expect("a list");
        let text = shrink_list(&list, &count_all(&tree));
        assert!(text.ends_with("\n[mezza-sim]\nopenings = 1\n"), "{text}");
    }
}
