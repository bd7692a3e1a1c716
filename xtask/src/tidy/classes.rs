//! LANES-4: arithmetic on lanes must name the classes of its limbs, and the interval test must
//! cover it.

use super::source::has_word;
use super::{Diagnostic, Tree};

/// The folder of arithmetic over `L: Lanes`.
const ARITHMETIC: &str = "crates/mezza-lanes/src/eight/";
/// The test that proves the bounds.
const PROOF: &str = "crates/mezza-lanes/src/tests/bounds.rs";
/// Vector operations that can overflow, or take only operands below a limit.
const BOUNDED: [&str; 7] = ["l.add(", "l.sub(", "l.and(", "l.shl::", "l.shr::", "l.lo(", "l.hi("];

/// A function that is generic over the backend.
struct Function<'a> {
    line: usize,
    name: &'a str,
    public: bool,
    documented: bool,
    bounded: bool,
}

pub fn check(tree: &Tree) -> Vec<Diagnostic> {
    let proof = tree.code().find(|(path, _)| *path == PROOF).map_or("", |(_, code)| code);
    let mut refused = Vec::new();
    for (path, text) in tree.files_ending(&["rs"]).filter(|(path, _)| path.starts_with(ARITHMETIC))
    {
        for function in find_functions(text) {
            let name = function.name;
            let wrong = if function.bounded && !function.documented {
                format!("`{name}` computes on lanes; say `Classes:` in its comment (LANES-4)")
            } else if function.documented && function.public && !has_word(proof, name) {
                format!("`{name}` names classes that {PROOF} does not prove (LANES-4)")
            } else {
                continue;
            };
            refused.push(Diagnostic::new(path, function.line, wrong));
        }
    }
    refused
}

fn find_functions<'a>(text: &'a str) -> Vec<Function<'a>> {
    let lines = text.lines().collect::<Vec<_>>();
    let function = |(at, line): (usize, &&'a str)| {
        let line: &'a str = line;
        let (before, _) = line.split_once("<L: Lanes>(")?;
        let (before, name) = before.split_once("fn ")?;
        let above = lines[..at].iter().rev().map(|line| line.trim_start());
        let mut above = above.take_while(|line| line.starts_with("///") || line.starts_with("#["));
        let indent = line.len() - line.trim_start().len();
        let end = |line: &&&str| line.trim_end() != format!("{:indent$}}}", "");
        let mut body = lines[at..].iter().take_while(end);
        Some(Function {
            line: at + 1,
            name,
            public: before.contains("pub"),
            documented: above.any(|line| line.contains("Classes:")),
            bounded: body.any(|line| BOUNDED.iter().any(|word| line.contains(word))),
        })
    };
    lines.iter().enumerate().filter_map(function).collect()
}
