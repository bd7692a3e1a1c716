//! The imports and method calls among the files of the device must be free of cycles.

use std::collections::{BTreeMap, BTreeSet};

use super::shipped::shipped;
use super::source::{find_imports, has_word, is_part};
use super::{Diagnostic, Tree};

const FOLDER: &str = "crates/mezza-messenger/src/device/";
/// The types whose methods are spread over the files of the folder.
const SPREAD_TYPES: [&str; 2] = ["Turn", "Components"];
/// The last names of the paths on which these methods are called.
const RECEIVERS: [&str; 4] = ["self", "device", "turn", "components"];

/// The files that each file needs, with the place of the first import or call.
type Needs<'a> = BTreeMap<String, BTreeMap<String, (&'a str, usize)>>;

pub fn check(tree: &Tree) -> Vec<Diagnostic> {
    let files = shipped(tree, FOLDER);
    let needs = find_needs(&files);
    let circle = |from: &str, to: &str| needs_indirectly(&needs, to, from, &mut BTreeSet::new());
    let all = needs.iter().flat_map(|(from, to)| to.iter().map(move |(to, at)| (from, to, *at)));
    all.filter(|(from, to, _)| circle(from, to))
        .map(|(from, to, (path, line))| {
            let text = format!("`{from}` and `{to}` need each other; move what both need down");
            Diagnostic::new(path, line, text)
        })
        .collect()
}

/// Returns the imports and calls among the files of the folder; files below a file belong to it.
fn find_needs<'a>(files: &'a [(&str, String)]) -> Needs<'a> {
    let own = |path: &str| -> Vec<String> {
        path[FOLDER.len()..].trim_end_matches(".rs").split('/').map(str::to_owned).collect()
    };
    let known: BTreeSet<String> = files.iter().map(|(path, _)| own(path)[0].clone()).collect();
    let methods: BTreeMap<String, String> = files
        .iter()
        .flat_map(|(path, code)| {
            find_methods(code).into_iter().map(|name| (name, own(path)[0].clone()))
        })
        .collect();
    let mut needs = Needs::new();
    for (path, code) in files {
        let modules = own(path);
        let roots = ["crate::device::".to_owned(), "super::".repeat(modules.len())];
        let imports = roots.iter().flat_map(|root| find_imports(code, root));
        let found = imports.chain(find_calls(code, &methods));
        for (line, to) in found.filter(|(_, to)| known.contains(to) && *to != modules[0]) {
            needs.entry(modules[0].clone()).or_default().entry(to).or_insert((path, line));
        }
    }
    needs
}

/// Returns the names of the methods that a file adds to the spread types.
fn find_methods(code: &str) -> Vec<String> {
    let mut is_inside = false;
    let mut names = Vec::new();
    for line in code.lines() {
        if line.starts_with("impl") {
            is_inside = SPREAD_TYPES.iter().any(|name| has_word(line, name));
        } else if line.starts_with('}') {
            is_inside = false;
        }
        let is_item = line.starts_with("    ") && !line.starts_with("     ");
        if let Some((_, rest)) = line.split_once("fn ").filter(|_| is_inside && is_item) {
            names.push(rest.chars().take_while(|c| is_part(*c)).collect());
        }
    }
    names
}

/// Returns the line of each call of one of these methods, with the file that defines the method.
fn find_calls(code: &str, methods: &BTreeMap<String, String>) -> Vec<(usize, String)> {
    let calls = code.match_indices('.').filter_map(|(at, _)| {
        let after = &code[at + 1..];
        let name = &after[..after.find(|c| !is_part(c))?];
        let file = methods.get(name).filter(|_| after[name.len()..].starts_with('('))?;
        let before = code[..at].trim_end();
        let receiver = &before[before.rfind(|c| !is_part(c)).map_or(0, |end| end + 1)..];
        let line = 1 + code[..at].matches('\n').count();
        RECEIVERS.contains(&receiver).then(|| (line, file.clone()))
    });
    calls.collect()
}

/// Returns true if `from` imports `to`, directly or through other files.
fn needs_indirectly(needs: &Needs<'_>, from: &str, to: &str, seen: &mut BTreeSet<String>) -> bool {
    if from == to {
        return true;
    }
    if !seen.insert(from.to_owned()) {
        return false;
    }
    needs
        .get(from)
        .is_some_and(|next| next.keys().any(|next| needs_indirectly(needs, next, to, seen)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::plant;

    fn refuses(name: &str, files: &[(&str, &str)]) -> Vec<String> {
        let device = "crates/mezza-messenger/src/device.rs".to_owned();
        let mut planted = vec![(device, "mod a;\nmod b;\nmod c;\n")];
        planted.extend(files.iter().map(|(path, text)| (format!("{FOLDER}{path}"), *text)));
        let planted: Vec<(&str, &str)> =
            planted.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        let root = plant(name, &planted);
        let refused = check(&Tree::read(&root).expect("the tree is readable"));
        refused.iter().map(|one| one.to_string().replace(FOLDER, "")).collect()
    }

    #[test]
    fn files_that_need_each_other() {
        let two = refuses(
            "order-two",
            &[
                ("a.rs", "\nuse super::{Components, b};\n"),
                ("b.rs", "fn f() {\n    super::a::f();\n}\n"),
            ],
        );
        assert_eq!(two.len(), 2, "{two:#?}");
        assert!(two[0].starts_with("a.rs:2: `a` and `b` need each other"), "{two:#?}");
        assert!(two[1].starts_with("b.rs:2: `b` and `a` need each other"), "{two:#?}");
        // Through a third file, and from a file below one of them.
        let three = [
            ("a.rs", "mod deep;\n"),
            ("a/deep.rs", "use super::super::b;\n"),
            ("b.rs", "use crate::device::{Components, c};\n"),
            ("c.rs", "use super::a;\n"),
        ];
        assert_eq!(refuses("order-three", &three).len(), 3);
    }

    #[test]
    fn files_whose_methods_call_each_other() {
        let turn = |body: &str| {
            format!("impl<P: Port> Turn<'_, P> {{\n    pub(super) fn {body}\n    }}\n}}\n")
        };
        let a = turn("run_a(&mut self) {\n        self\n            .run_b(1);");
        let b = turn("run_b(&mut self, n: u8) {\n        let _ = self.device.read_c(n);");
        let reads_c = "impl<P: Port> Components<P> {\n    fn read_c(&self, n: u8) -> u8 {\n        n\n    }\n}\n";
        let calls_a = "fn f<P: Port>(turn: &mut Turn<'_, P>) {\n    turn.run_a();\n}\n";
        let c = format!("{reads_c}{calls_a}");
        let files = [("a.rs", a.as_str()), ("b.rs", b.as_str()), ("c.rs", c.as_str())];
        let three = refuses("order-calls", &files);
        assert_eq!(three.len(), 3, "{three:#?}");
        assert!(three[0].starts_with("a.rs:4: `a` and `b` need each other"), "{three:#?}");
        // Methods of other types, and of the same name elsewhere, are no calls of these.
        let good = [("a.rs", a.as_str()), ("b.rs", b.as_str()), ("c.rs", reads_c)];
        assert_eq!(refuses("order-calls-good", &good), [""; 0]);
        let other = "impl Room {\n    fn run(&self) {\n        self.rows.run_a();\n    }\n}\n";
        let other = [("a.rs", a.as_str()), ("b.rs", b.as_str()), ("c.rs", other)];
        assert_eq!(refuses("order-calls-other", &other), [""; 0]);
    }

    #[test]
    fn files_in_one_order() {
        let good = [
            (
                "a.rs",
                "use super::{Components, b, c};\n#[cfg(test)]\nmod tests {\n    use super::c;\n}\n",
            ),
            ("b.rs", "use super::c;\nuse crate::outbox::a;\n"),
            ("c.rs", "// super::a\nfn f() -> Components { deep::f() }\nmod deep;\n"),
            ("c/deep.rs", "use super::super::Components;\n"),
        ];
        assert_eq!(refuses("order-good", &good), [""; 0]);
    }
}
