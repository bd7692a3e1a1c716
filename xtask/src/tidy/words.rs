//! Words that are forbidden in some or all files.

use super::floors::{WORLDLY_CRATES, floor, pure_crates};
use super::source::{find_imports, has_word};
use super::{Diagnostic, Tree};

/// The parts of std for files, sockets, threads, clocks, processes and the environment.
const WORLDLY_STD: [&str; 6] = ["fs", "net", "thread", "time", "process", "env"];
/// Files and folders with `unsafe` code, each with a lint that requires a reason (LANES-1, HIBE-5).
/// The last one is a heap for tests, which reports unwiped memory.
const UNSAFE_ALLOWED: [&str; 4] = [
    "crates/mezza-lanes/src/avx512.rs",
    "crates/mezza-ffi/",
    "crates/mezza-hibe/src/curve/raw.rs",
    "crates/mezza-hibe/tests/it/heap.rs",
];
/// Names that do not describe the contents of a file.
const EMPTY_NAMES: [&str; 9] =
    ["util", "utils", "common", "helper", "helpers", "misc", "types", "manager", "managers"];
/// Paths of one machine; spelled in two halves because this file is checked too.
const OWN_PATHS: [&str; 3] = [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/tm", "p/")];
/// Marks of unfinished work.
const LEFTOVERS: [&str; 4] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("to", "do!("),
    concat!("unimple", "mented!("),
];

pub fn check(tree: &Tree) -> Vec<Diagnostic> {
    let mut refused = Vec::new();
    for (path, code) in tree.code() {
        refused.extend(unsafe_words(path, code));
        refused.extend(empty_names_in(path, code));
        refused.extend(paper_suite(path, code));
    }
    for name in pure_crates(tree) {
        refused.extend(worldly_words(tree, name));
    }
    for (path, text) in tree.iter() {
        refused.extend(empty_name_of(path));
        refused.extend(own_paths(path, text));
    }
    for (path, text) in tree.files_ending(&["rs", "ts", "svelte", "py"]) {
        refused.extend(find_leftovers(path, text));
    }
    refused
}

fn on_lines<'a>(
    path: &'a str,
    text: &'a str,
    wrong: impl Fn(&str) -> Option<String> + 'a,
) -> impl Iterator<Item = Diagnostic> + 'a {
    let lines = text.lines().enumerate();
    lines.filter_map(move |(i, line)| Some(Diagnostic::new(path, i + 1, wrong(line)?)))
}

fn worldly_words(tree: &Tree, name: &str) -> Vec<Diagnostic> {
    let sources = format!("crates/{name}/src/");
    let mut refused = Vec::new();
    for (path, code) in tree.code().filter(|(path, _)| path.starts_with(&sources)) {
        refused.extend(find_worldly(code).into_iter().map(|(line, word)| {
            let text = format!("`{word}` is the world; below floor 3 it comes in as an argument");
            Diagnostic::new(path, line, text)
        }));
        let is_root = path == format!("{sources}lib.rs");
        if is_root && name != "mezza-sim" && !code.contains("#![no_std]") {
            refused.push(Diagnostic::new(path, 0, "floors 0-2 begin with #![no_std]"));
        }
    }
    refused
}

/// Returns the words in code that access the system, each with its line.
fn find_worldly(code: &str) -> Vec<(usize, String)> {
    let std = find_imports(code, "std::").into_iter();
    let std = std.filter(|(_, part)| WORLDLY_STD.contains(&part.as_str()));
    let std = std.map(|(line, part)| (line, format!("std::{part}")));
    let crates = code.lines().enumerate().filter_map(|(index, line)| {
        let word = WORLDLY_CRATES.iter().find(|word| has_word(line, word))?;
        Some((index + 1, (*word).to_owned()))
    });
    std.chain(crates).collect()
}

fn unsafe_words(path: &str, code: &str) -> Vec<Diagnostic> {
    if UNSAFE_ALLOWED.iter().any(|place| path.starts_with(place)) {
        return Vec::new();
    }
    let wrong = |line: &str| {
        has_word(line, "unsafe").then(|| {
            let places = UNSAFE_ALLOWED.join(", ");
            format!("unsafe code lives in {places} only")
        })
    };
    on_lines(path, code, wrong).collect()
}

fn empty_names_in(path: &str, code: &str) -> Vec<Diagnostic> {
    let wrong = |line: &str| {
        let item = |kind: &str| {
            let (_, after) = line.split_once(kind)?;
            let end = after.find(|c: char| !c.is_alphanumeric() && c != '_');
            Some(after[..end.unwrap_or(after.len())].to_owned())
        };
        // Wrappers of peers implement traits with foreign names.
        let ours = !path.starts_with("lab/peers/");
        if ours && item("fn ").is_some_and(|name| name.starts_with("get_")) {
            return Some("a getter is named like what it gives, without `get_`".to_owned());
        }
        let empty = |name: &String| {
            ["Manager", "Helper", "Utils", "Util"].iter().any(|end| name.ends_with(end))
        };
        let named = item("struct ").or_else(|| item("enum ")).or_else(|| item("trait "));
        let name = named.filter(empty)?;
        Some(format!("`{name}` says nothing; name it like the noun of the specification"))
    };
    on_lines(path, code, wrong).collect()
}

fn empty_name_of(path: &str) -> Option<Diagnostic> {
    let mut parts = path.split('/').collect::<Vec<_>>();
    let file = parts.pop()?;
    let (stem, ending) = file.split_once('.')?;
    if ["rs", "ts", "svelte", "py"].contains(&ending) {
        parts.push(stem);
    }
    let empty = parts.iter().find(|part| EMPTY_NAMES.contains(&part.to_lowercase().as_str()))?;
    Some(Diagnostic::new(path, 0, format!("`{empty}` says nothing; name it like what it holds")))
}

fn own_paths(path: &str, text: &str) -> Vec<Diagnostic> {
    let wrong = |line: &str| {
        let own = OWN_PATHS.iter().find(|own| line.contains(**own))?;
        Some(format!("{own} is the path of one machine; take it from the environment"))
    };
    on_lines(path, text, wrong).collect()
}

fn find_leftovers(path: &str, text: &str) -> Vec<Diagnostic> {
    let wrong = |line: &str| {
        let left = LEFTOVERS.iter().find(|left| line.contains(**left))?;
        Some(format!("`{left}`: finish it, or write it down as an open question of the document"))
    };
    on_lines(path, text, wrong).collect()
}

/// RATCHET-46, SEKA-28: the literal suite of a paper is for measurements and must not be used.
fn paper_suite(path: &str, code: &str) -> Vec<Diagnostic> {
    let owner = path.strip_prefix("crates/").and_then(|rest| rest.split('/').next());
    if owner.is_none_or(|name| ["mezza-ratchet", "mezza-seka", "mezza-lab"].contains(&name)) {
        return Vec::new();
    }
    let known = owner.and_then(floor).is_some();
    let wrong = |line: &str| {
        (known && line.contains("suite::paper")).then(|| {
            "`suite::paper` may be imported by mezza-lab alone (RATCHET-46, SEKA-28)".to_owned()
        })
    };
    on_lines(path, code, wrong).collect()
}
