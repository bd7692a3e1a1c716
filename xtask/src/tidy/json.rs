//! Paths in JSON. `json!` panics on a path that is not UTF-8, so a path must be converted to text
//! first (CLI-7).

use super::{Diagnostic, Tree};

/// The start of a JSON value.
const JSON: &str = "json!(";
/// Keys whose values are paths.
const KEYS: [&str; 9] =
    ["dir", "file", "folder", "home", "path", "removed", "socket", "vault", "wiped"];
/// The crates of the program.
const CRATES: [&str; 3] = ["crates/mezza-host/", "crates/mezza-servers/", "crates/mezza/"];
/// Calls that turn a path into text.
const TEXTS: [&str; 2] = ["path(", "show::format_path"];

pub fn check(tree: &Tree) -> Vec<Diagnostic> {
    let of_program =
        |path: &str| CRATES.iter().any(|name| path.starts_with(&format!("{name}src/")));
    let sources = tree.code().filter(|(path, _)| of_program(path));
    let mut refused = Vec::new();
    for (path, code) in sources {
        let text = tree.iter().find(|(of, _)| *of == path).map_or("", |(_, text)| text);
        refused.extend(find_paths(code, text).into_iter().map(|line| {
            Diagnostic::new(
                path,
                line,
                "`json!` panics at such a path; hand it `show::format_path(..)`",
            )
        }));
    }
    refused
}

/// Returns the lines of `text` on which a path is passed to `json!`. `code` is the text with
/// blanked strings at unchanged positions.
fn find_paths(code: &str, text: &str) -> Vec<usize> {
    let mut lines = Vec::new();
    for (at, _) in code.match_indices(JSON) {
        let start = at + JSON.len();
        let end = start + find_closing(&code[start..]);
        for key in KEYS {
            let key = format!("\"{key}\":");
            for (found, _) in text[start..end].match_indices(&key) {
                let value = start + found + key.len();
                let rest = &code[value..end];
                let value_text = &rest[..value_end(rest)];
                let is_text = TEXTS.iter().any(|made| value_text.contains(made));
                if !is_text && !value_text.trim().is_empty() {
                    lines.push(1 + text[..value].matches('\n').count());
                }
            }
        }
    }
    lines
}

/// Returns the position of the bracket that closes the one before `code`.
fn find_closing(code: &str) -> usize {
    let mut depth = 1;
    for (at, c) in code.char_indices() {
        depth += i32::from(c == '(') - i32::from(c == ')');
        if depth == 0 {
            return at;
        }
    }
    code.len()
}

/// Returns the end of a value: the first comma or brace outside of it.
fn value_end(code: &str) -> usize {
    let mut depth = 0;
    for (at, c) in code.char_indices() {
        if depth == 0 && matches!(c, ',' | '}') {
            return at;
        }
        depth += i32::from(matches!(c, '(' | '{' | '[')) - i32::from(matches!(c, ')' | '}' | ']'));
    }
    code.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cli_7_a_path_as_it_is_is_refused() {
        let lines = |text: &str| {
            let code = crate::tidy::source::code_only(text).expect("Rust");
            find_paths(&code, text)
        };
        assert_eq!(lines("f(&json!({\n \"file\": file,\n \"home\": c.home.root() }))"), [2, 3]);
        assert_eq!(lines("json!({ \"file\": show::format_path(file), \"name\": name })"), [0; 0]);
        assert_eq!(lines("json!({ \"file\": kept.as_deref().map(show::format_path) })"), [0; 0]);
        assert_eq!(lines("json!({ \"file\": \"a text\" })"), [0; 0]);
        assert_eq!(lines("let file = (\"file\", file);"), [0; 0]);
    }
}
