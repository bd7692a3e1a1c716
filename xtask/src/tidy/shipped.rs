//! The code of a release: without tests.

use super::Tree;

/// The attribute of items that only tests have.
const MARK: &str = "#[cfg(test)]";

/// Returns the code of the files below `folder`, without files and items for tests; each line keeps
/// its number.
pub fn shipped<'a>(tree: &'a Tree, folder: &str) -> Vec<(&'a str, String)> {
    let files = || tree.code().filter(|(path, _)| path.starts_with(folder));
    let tests = files().flat_map(|(path, code)| test_modules(path, code)).collect::<Vec<_>>();
    let is_test = |path: &str| tests.iter().any(|module| is_of(path, module));
    let shipped = files().filter(|(path, _)| !is_test(path));
    shipped.map(|(path, code)| (path, without_tests(code))).collect()
}

/// Returns the test modules, as paths without `.rs`, of the file at `path`.
fn test_modules(path: &str, code: &str) -> Vec<String> {
    let folder = path.trim_end_matches(".rs");
    let folder = match folder.rsplit_once('/') {
        Some((folder, "lib" | "main")) => folder,
        _ => folder,
    };
    let items = code.split(MARK).skip(1).filter_map(|item| item.split([';', '{']).next());
    let names = items.filter_map(|item| Some(item.split_once("mod ")?.1.trim()));
    names.map(|name| format!("{folder}/{name}")).collect()
}

/// Returns true if the file at `path` belongs to a module.
fn is_of(path: &str, module: &str) -> bool {
    path.strip_prefix(module).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
}

/// Returns `code` with empty lines in place of items after `#[cfg(test)]`. In rustfmt's layout, an
/// item ends with the next line that is not indented more and ends with `;`, `,` or `}`.
fn without_tests(code: &str) -> String {
    let mut left = String::with_capacity(code.len());
    let mut item = None;
    for line in code.lines().map(str::trim_end) {
        let indent = line.len() - line.trim_start().len();
        if line.ends_with(MARK) {
            item = Some(indent);
        }
        // The block that contains the item may end before a line ends the item.
        item = item.filter(|own| indent >= *own || line.is_empty());
        left.push_str(if item.is_none() { line } else { "" });
        left.push('\n');
        item = item.filter(|own| indent != *own || !line.ends_with([';', ',', '}']));
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_of_tests_are_blank() {
        let code = "mod a;\n#[cfg(test)]\nmod tests {\n    fn f() { 1 }\n}\nfn b() {}\n\
                    #[cfg(test)]\nuse c::{d, e};\nfn f(g: [u8; 2]) {\n    #[cfg(test)]\n    h()\n}\n\
                    struct I {\n    #[cfg(test)]\n    j: u8,\n    k: u8,\n}\n";
        let left = without_tests(code);
        assert_eq!(left.lines().count(), code.lines().count());
        let left = left.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(left, "mod a; fn b() {} fn f(g: [u8; 2]) { } struct I { k: u8, }");
    }

    #[test]
    fn modules_of_tests_are_known_by_their_files() {
        let code = "#[cfg(test)]\npub(crate) mod failing;\n#[cfg(test)]\nmod tests {}\n";
        assert_eq!(test_modules("c/src/lib.rs", code), ["c/src/failing", "c/src/tests"]);
        assert_eq!(test_modules("c/src/a.rs", code), ["c/src/a/failing", "c/src/a/tests"]);
        assert!(
            is_of("c/src/a/tests/b.rs", "c/src/a/tests") && is_of("c/src/tests.rs", "c/src/tests")
        );
        assert!(!is_of("c/src/tests_of.rs", "c/src/tests"));
    }
}
