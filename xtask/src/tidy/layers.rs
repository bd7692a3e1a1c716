//! The layers inside a crate: a module may use only lower layers, and no module of its own layer.

use super::shipped::shipped;
use super::source::{find_imports, has_word};
use super::{Diagnostic, Tree};

/// The layers of a crate, lowest first, with the modules of each.
type Layers = [&'static [&'static str]];

/// Crates with layers, each with all of its modules.
const LAYERS: [(&str, &Layers); 5] = [
    ("mezza-messenger", &MESSENGER),
    ("mezza-host", &HOST),
    ("mezza-servers", &SERVERS),
    ("mezza", &MEZZA),
    ("mezza-lab", &LAB),
];

/// The lowest layer holds values and their codecs, which may use each other; components may not.
const MESSENGER: [&[&str]; 3] =
    [&VALUES, &["profile", "contacts", "threads", "outbox", "sessions", "carriers"], &["device"]];
const VALUES: [&str; 13] = [
    "backup",
    "card",
    "envelope",
    "error",
    "evidence",
    "io",
    "name",
    "note",
    "policy",
    "receipt",
    "relay_wire",
    "uri",
    "view",
];

const LAB: [&[&str]; 8] = [
    &[
        "fit", "machine", "modp", "papers", "place", "plot", "prime", "profile", "rate", "row",
        "shape", "shard", "terminal",
    ],
    &["args", "clock", "limit", "parallel", "peer", "process", "thesis"],
    &["doctor", "raw", "variant"],
    &["asa", "bench", "search"],
    &["ours", "wires"],
    &["goals"],
    &["run"],
    &["cli"],
];

/// The order of the three crates of the program is in `floors`.
const HOST: [&[&str]; 4] =
    [&["api", "backend", "clock"], &["process"], &["store", "tls"], &["backup", "connection"]];

/// No server may use another one.
const SERVERS: [&[&str]; 1] = [&["guard", "mesh", "mixnet", "relay", "tunnel"]];

const MEZZA: [&[&str]; 5] = [&["carriers"], &["node"], &["faces"], &["demo"], &["testing"]];

/// Modules that may not import a lower crate: code shared by carriers and servers is in the module
/// `connection` of `mezza-host`.
const APART: [(&str, &str, &str); 1] = [("mezza", "carriers", "mezza_servers")];

pub fn check(tree: &Tree) -> Vec<Diagnostic> {
    LAYERS.iter().flat_map(|(name, layers)| check_crate(tree, name, layers)).collect()
}

/// Checks the imports of one crate against the order of its layers; its tests may import
/// everything.
fn check_crate(tree: &Tree, name: &str, layers: &Layers) -> Vec<Diagnostic> {
    let folder = format!("crates/{name}/src/");
    let mut refused = Vec::new();
    for (path, code) in shipped(tree, &folder) {
        let modules = path[folder.len()..].trim_end_matches(".rs").split('/').collect::<Vec<_>>();
        let own = modules[0];
        if modules == ["lib"] || modules == ["main"] {
            continue;
        }
        if find_layer(layers, own).is_none() {
            refused.push(Diagnostic::new(path, 0, unknown_module(own)));
            continue;
        }
        for (_, _, other) in APART.iter().filter(|(of, module, _)| *of == name && *module == own) {
            let lines = code.lines().enumerate().filter(|(_, line)| has_word(line, other));
            let text = format!("`{own}` does not know `{other}`; move what both need down");
            let wrong = lines.map(|(index, _)| Diagnostic::new(path, index + 1, text.as_str()));
            refused.extend(wrong);
        }
        // In a module of depth n, n times `super` is the crate.
        for root in ["crate::".to_owned(), "super::".repeat(modules.len())] {
            let imports = find_imports(&code, &root).into_iter();
            let wrong =
                imports.filter_map(|(line, to)| Some((line, import_error(layers, own, &to)?)));
            refused.extend(wrong.map(|(line, text)| Diagnostic::new(path, line, text)));
        }
    }
    refused
}

fn find_layer(layers: &Layers, module: &str) -> Option<usize> {
    layers.iter().position(|modules| modules.contains(&module))
}

fn unknown_module(module: &str) -> String {
    format!("no layer is known for `{module}`; enter the module in xtask, or import from one")
}

/// Returns an error message if the module `own` must not import `to`, or `None` if it may.
fn import_error(layers: &Layers, own: &str, to: &str) -> Option<String> {
    let both_values = VALUES.contains(&own) && VALUES.contains(&to) && layers[0] == VALUES;
    if own == to || both_values {
        return None;
    }
    let Some(below) = find_layer(layers, to) else { return Some(unknown_module(to)) };
    (Some(below) >= find_layer(layers, own)).then(|| {
        format!("`{to}` does not stand before `{own}` in its crate; move what is needed down")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::tests::plant;

    /// Returns the refusals for a file of the sim with the layers `low`, then `left` and `right`,
    /// then `top`.
    fn refuses(name: &str, path: &str, text: &str) -> Vec<String> {
        let path = format!("crates/mezza-sim/src/{path}");
        let lib = "mod low;\nmod left;\nmod right;\nmod top;\npub use top::Top;\n";
        let root = plant(name, &[("crates/mezza-sim/src/lib.rs", lib), (&path, text)]);
        let tree = Tree::read(&root).expect("the tree is readable");
        let layers: &Layers = &[&["low"], &["left", "right"], &["top"]];
        let refused = check_crate(&tree, "mezza-sim", layers);
        refused.iter().map(|refused| refused.to_string().replace(&path, "")).collect()
    }

    #[test]
    fn imports_against_the_order_of_the_layers() {
        for (path, text) in [
            ("left.rs", "use crate::top::Top;\n"),
            ("left.rs", "use crate::{low, top::{Top, low}};\n"),
            ("left/deep.rs", "fn f() -> crate::right::Right { g() }\n"),
            ("left.rs", "use crate::Top;\n"),
            ("left/deep.rs", "use super::super::top;\n"),
            ("other.rs", "use crate::low;\n"),
            ("left.rs", "#[cfg(test)]\nmod tests;\nuse crate::top;\n"),
        ] {
            let refused = refuses("layers-bad", path, text);
            assert_eq!(refused.len(), 1, "{text}: {refused:#?}");
            assert!(refused[0].starts_with(':'), "{refused:#?}");
        }
        let line = refuses("layers-bad", "left.rs", "\nuse crate::{\n    low,\n    top,\n};\n");
        assert!(line[0].starts_with(":2: `top` does not stand before `left`"), "{line:#?}");
    }

    #[test]
    fn the_program_has_layers() {
        let refuses = |path: &str, text: &str| {
            let path = format!("crates/{path}");
            let root = plant("layers-mezza", &[(&path, text)]);
            check(&Tree::read(&root).expect("the tree is readable")).len()
        };
        for (path, text) in [
            ("mezza-host/src/api/words.rs", "use crate::process::home::Home;\n"),
            ("mezza-host/src/store.rs", "use crate::tls::Pin;\n"),
            ("mezza-servers/src/mesh/udp.rs", "use crate::relay::Limits;\n"),
            ("mezza/src/carriers/relay.rs", "use crate::node::NodeMessage;\n"),
            ("mezza/src/carriers/relay.rs", "use mezza_servers::relay::Limits;\n"),
            ("mezza/src/node.rs", "use crate::faces::web::Web;\n"),
            ("mezza/src/faces/cli.rs", "use crate::demo;\n"),
            ("mezza/src/utterly_new.rs", "use crate::node;\n"),
        ] {
            assert_eq!(refuses(path, text), 1, "{path}: {text}");
        }
        for (path, text) in [
            ("mezza-host/src/connection/relay.rs", "use crate::tls::Pin;\nuse super::tap;\n"),
            ("mezza-servers/src/relay/server.rs", "use mezza_host::process::lock::Lock;\n"),
            ("mezza/src/carriers/relay.rs", "use super::pace;\n"),
            ("mezza/src/demo.rs", "use crate::faces::cli::CliContext;\n"),
        ] {
            assert_eq!(refuses(path, text), 0, "{path}: {text}");
        }
    }

    #[test]
    fn the_device_has_layers() {
        let refuses = |path: &str, text: &str| {
            let path = format!("crates/mezza-messenger/src/{path}");
            let root = plant("layers-device", &[(&path, text)]);
            check(&Tree::read(&root).expect("the tree is readable")).len()
        };
        for (path, text) in [
            ("note.rs", "use crate::threads::Threads;\n"),
            ("outbox.rs", "use crate::threads::StoredNote;\n"),
            ("carriers/relay.rs", "use crate::contacts::Contact;\n"),
            ("sessions.rs", "use crate::device::Components;\n"),
        ] {
            assert_eq!(refuses(path, text), 1, "{path}: {text}");
        }
        for (path, text) in [
            ("note.rs", "use crate::card::RelayEntry;\n"),
            ("card/relay.rs", "use crate::io::LineId;\n"),
            ("threads/note.rs", "use crate::policy::timer_step;\n"),
            ("device/arrive.rs", "use crate::outbox::Owe;\n"),
        ] {
            assert_eq!(refuses(path, text), 0, "{path}: {text}");
        }
    }

    #[test]
    fn imports_in_the_order_of_the_layers() {
        for (path, text) in [
            ("top.rs", "use crate::{left::a, low, right::{b, top}};\nuse crate::top::deep;\n"),
            ("left/deep.rs", "use super::top;\nuse crate::low;\nuse other_crate::top;\n"),
            ("left.rs", "// crate::top\n#[cfg(test)]\nmod tests {\n    use crate::top;\n}\n"),
            ("lib.rs", "pub use crate::top::Top;\n"),
        ] {
            assert_eq!(refuses("layers-good", path, text), [""; 0], "{text}");
        }
    }
}
