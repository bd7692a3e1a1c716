//! The imports among the files of the device must be free of cycles.

use std::collections::{BTreeMap, BTreeSet};

use super::shipped::shipped;
use super::source::find_imports;
use super::{Diagnostic, Tree};

const FOLDER: &str = "crates/mezza-messenger/src/device/";

/// The imports of each file, with the place of the first one.
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

/// Returns the imports among the files of the folder; files below a file belong to it.
fn find_needs<'a>(files: &'a [(&str, String)]) -> Needs<'a> {
    let own = |path: &str| -> Vec<String> {
        path[FOLDER.len()..].trim_end_matches(".rs").split('/').map(str::to_owned).collect()
    };
    let known: BTreeSet<String> = files.iter().map(|(path, _)| own(path)[0].clone()).collect();
    let mut needs = Needs::new();
    for (path, code) in files {
        let modules = own(path);
        for root in ["crate::device::".to_owned(), "super::".repeat(modules.len())] {
            let found = find_imports(code, &root).into_iter();
            for (line, to) in found.filter(|(_, to)| known.contains(to) && *to != modules[0]) {
                needs.entry(modules[0].clone()).or_default().entry(to).or_insert((path, line));
            }
        }
    }
    needs
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
                ("a.rs", "\nuse super::{Parts, b};\n"),
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
            ("b.rs", "use crate::device::{Parts, c};\n"),
            ("c.rs", "use super::a;\n"),
        ];
        assert_eq!(refuses("order-three", &three).len(), 3);
    }

    #[test]
    fn files_in_one_order() {
        let good = [
            (
                "a.rs",
                "use super::{Parts, b, c};\n#[cfg(test)]\nmod tests {\n    use super::c;\n}\n",
            ),
            ("b.rs", "use super::c;\nuse crate::outbox::a;\n"),
            ("c.rs", "// super::a\nfn f() -> Parts { deep::f() }\nmod deep;\n"),
            ("c/deep.rs", "use super::super::Parts;\n"),
        ];
        assert_eq!(refuses("order-good", &good), [""; 0]);
    }
}
