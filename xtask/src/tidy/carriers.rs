//! The files that may name a carrier: its folder in the device, its adapter and its texts. All
//! other code uses the carrier of an ID, or all carriers in turn, so that a new carrier changes
//! none of it.

use super::shipped::shipped;
use super::source::{find_imports, has_word};
use super::{Diagnostic, Tree};

/// Each carrier as a module, and as part of type names.
const CARRIERS: [(&str, &str); 4] =
    [("relay", "Relay"), ("link", "Link"), ("mesh", "Mesh"), ("mixnet", "Mixnet")];
/// Files and folders that may name a carrier, by crate. `lib` re-exports names to other crates.
const PLACES: [(&str, &[&str]); 3] = [
    ("mezza", &["carriers"]),
    ("mezza-host", &["api/words"]),
    ("mezza-messenger", &["carriers", "lib"]),
];
/// Further files that name one, with the number of lines. The list may only shrink.
const LISTED: [(&str, usize); 6] = [
    ("crates/mezza-messenger/src/device/rows/older.rs", 2),
    ("crates/mezza-messenger/src/io/record.rs", 4),
    ("crates/mezza-messenger/src/outbox/parcel.rs", 3),
    ("crates/mezza-messenger/src/policy.rs", 1),
    ("crates/mezza/src/demo.rs", 1),
    ("crates/mezza/src/node/shell/network.rs", 6),
];

pub fn check(tree: &Tree) -> Vec<Diagnostic> {
    check_listed(tree, &LISTED)
}

fn check_listed(tree: &Tree, listed: &[(&str, usize)]) -> Vec<Diagnostic> {
    let mut refused = Vec::new();
    for (name, places) in PLACES {
        let folder = format!("crates/{name}/src/");
        for (path, code) in shipped(tree, &folder) {
            let module = path[folder.len()..].trim_end_matches(".rs");
            if places.iter().any(|place| is_of(module, place)) {
                continue;
            }
            let lines = find_naming(&code);
            let allowed = listed.iter().find(|(of, _)| *of == path).map_or(0, |(_, lines)| *lines);
            refused.extend(report_lines(path, &lines, allowed));
        }
    }
    refused
}

/// Returns true if `module` is `place`, or inside of it.
fn is_of(module: &str, place: &str) -> bool {
    module.strip_prefix(place).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns the diagnostics of a file that names carriers on these lines and may do so on `allowed`
/// lines.
fn report_lines(path: &str, lines: &[usize], allowed: usize) -> Vec<Diagnostic> {
    let found = lines.len();
    if found < allowed {
        let text = format!(
            "lines that name a carrier: {found}, listed: {allowed}; lower the number in \
             `xtask/src/tidy/carriers.rs`"
        );
        return vec![Diagnostic::new(path, 0, text)];
    }
    let text = format!(
        "lines that name a carrier: {found}, listed: {allowed}; ask the carrier of an ID, or all, or move \
         this to its adapter or its words"
    );
    let lines = lines.iter().filter(|_| found > allowed);
    lines.map(|line| Diagnostic::new(path, *line, text.as_str())).collect()
}

/// Returns the lines that name a carrier, each once.
fn find_naming(code: &str) -> Vec<usize> {
    let mut lines = find_imports(code, "carriers::")
        .into_iter()
        .filter(|(_, name)| CARRIERS.iter().any(|(module, _)| module == name))
        .map(|(line, _)| line)
        .collect::<Vec<_>>();
    let names =
        CARRIERS.iter().flat_map(|(module, name)| carrier_names(module, name)).collect::<Vec<_>>();
    let named = |line: &str| names.iter().any(|name| has_word(line, name));
    lines.extend(code.lines().enumerate().filter(|(_, line)| named(line)).map(|(i, _)| i + 1));
    lines.sort_unstable();
    lines.dedup();
    lines
}

/// Returns the names that code uses for a carrier without its module.
fn carrier_names(module: &str, name: &str) -> [String; 6] {
    [
        format!("CarrierId::{}", module.to_uppercase()),
        format!("CarrierInput::{name}"),
        format!("CarrierOutput::{name}"),
        format!("{name}Input"),
        format!("{name}Output"),
        format!("carriers.{module}"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::plant;
    use std::path::Path;

    const PATH: &str = "crates/mezza/src/node/shell.rs";

    /// Returns the diagnostics of a tree, planted under `name`, with this file.
    fn refuses(name: &str, path: &str, text: &str, listed: &[(&str, usize)]) -> Vec<String> {
        let root = plant(name, &[(path, text)]);
        let refused = check_listed(&Tree::read(&root).expect("the tree is readable"), listed);
        refused.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_carrier_that_is_named_outside_of_its_places() {
        for text in [
            "fn f() -> CarrierId { CarrierId::LINK }\n",
            "fn f(_: &MixnetInput) {}\n",
            "use mezza_messenger::{Command, RelayOutput};\n",
            "use mezza_messenger::carriers::relay::CAPS;\n",
            "use mezza_messenger::carriers::{Port, mixnet::{self, NetworkAddress}};\n",
            "fn f(d: &Device) { d.carriers.mesh.look() }\n",
            "fn f(i: &CarrierInput) -> bool { matches!(i, CarrierInput::Mesh(_)) }\n",
        ] {
            let refused = refuses("carriers-bad", PATH, text, &[]);
            assert_eq!(refused.len(), 1, "{text}: {refused:#?}");
            assert!(
                refused[0]
                    .starts_with(&format!("{PATH}:1: lines that name a carrier: 1, listed: 0"))
            );
            for place in [
                "mezza/src/carriers.rs",
                "mezza/src/carriers/relay.rs",
                "mezza-host/src/api/words.rs",
                "mezza-host/src/api/words/mesh.rs",
            ] {
                let path = format!("crates/{place}");
                assert_eq!(refuses("carriers-place", &path, text, &[]), [""; 0], "{path}");
            }
            let device = "crates/mezza-messenger/src/device/leave.rs";
            assert_eq!(refuses("carriers-device", device, text, &[]).len(), 1, "{text}");
        }
    }

    #[test]
    fn what_names_no_carrier() {
        for text in [
            "use crate::carriers::Adapters;\nfn f(c: CarrierId) -> &'static str { c.name() }\n",
            "// CarrierId::RELAY\nfn f() -> &'static str { \"MixnetInput\" }\n",
            "#[cfg(test)]\nmod tests {\n    use super::RelayInput;\n}\n",
            "use mezza_servers::relay;\nuse mezza_mesh::MeshInputs;\n",
        ] {
            assert_eq!(refuses("carriers-good", PATH, text, &[]), [""; 0], "{text}");
        }
    }

    #[test]
    fn the_list_only_shrinks() {
        let text = "fn f(_: RelayInput, _: RelayOutput) {}\nfn g(_: MixnetInput) {}\n";
        let refuses = |listed| refuses("carriers-list", PATH, text, &[(PATH, listed)]);
        assert_eq!(refuses(2), [""; 0]);
        let more = refuses(1);
        assert_eq!(more.len(), 2);
        assert!(
            more[1].starts_with(&format!("{PATH}:2: lines that name a carrier: 2, listed: 1; ask"))
        );
        let fewer = refuses(3);
        assert_eq!(fewer.len(), 1);
        assert!(
            fewer[0]
                .starts_with(&format!("{PATH}: lines that name a carrier: 2, listed: 3; lower"))
        );
    }

    #[test]
    fn the_list_is_of_files_that_are_there() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for (path, lines) in LISTED {
            assert!(root.join(path).is_file() && lines > 0, "{path}");
        }
    }
}
