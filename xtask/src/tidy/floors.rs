//! Dependencies point down: never up, and sideways only in the order of the program's crates. At
//! most fifteen crates are allowed.

use super::{Diagnostic, Tree};
use toml::{Table, Value};

/// All allowed crates, with their floors.
pub const FLOORS: [(&str, u8); 15] = [
    ("mezza-core", 0),
    ("mezza-lanes", 0),
    ("mezza-hibe", 1),
    ("mezza-mesh", 1),
    ("mezza-ratchet", 1),
    ("mezza-seka", 1),
    ("mezza-mixnet", 1),
    ("mezza-guard", 1),
    ("mezza-sim", 1),
    ("mezza-messenger", 2),
    ("mezza-host", 3),
    ("mezza-servers", 3),
    ("mezza", 3),
    ("mezza-ffi", 3),
    ("mezza-lab", 4),
];

/// The crates of the program, on one floor: each may use those before it.
const PROGRAM: [&str; 3] = ["mezza-host", "mezza-servers", "mezza"];

/// The crates that all others may use in tests.
const TEST_KITS: [&str; 2] = ["mezza-sim", "mezza-testing"];

/// The suffix of a package that lies in a crate's folder and is also used by that crate's peer
/// programs. Peer programs are separate workspaces, so they share code through this package and not
/// by file paths.
const PEERS_PART: &str = "-measuring";

/// Crates that floors 0-2 may neither depend on nor name outside their tests: they use sockets,
/// files or the system's random generator.
pub const WORLDLY_CRATES: [&str; 3] = ["tokio", "rusqlite", "getrandom"];

/// Returns the floor of one of our crates.
pub fn floor(name: &str) -> Option<u8> {
    FLOORS.iter().find(|(known, _)| *known == name).map(|(_, floor)| *floor)
}

/// Returns the crates of floors 0 to 2 in the repository.
pub fn pure_crates(tree: &Tree) -> impl Iterator<Item = &str> + use<'_> {
    let names = tree.crates().map(|(name, _)| name);
    names.filter(|name| floor(name).is_some_and(|floor| floor <= 2))
}

/// The tables of a manifest that name dependencies.
const KINDS: [&str; 3] = ["dependencies", "dev-dependencies", "build-dependencies"];

/// One entry of a manifest's dependency tables.
struct Edge<'a> {
    to: &'a str,
    kind: &'static str,
}

pub fn check(tree: &Tree) -> Vec<Diagnostic> {
    let mut refused = Vec::new();
    let count = tree.crates().count();
    if count > FLOORS.len() {
        let text = format!("{count} crates; {} are the budget: one has to go", FLOORS.len());
        refused.push(Diagnostic::new("crates", 0, text));
    }
    let root = tree.manifest("Cargo.toml");
    for (name, manifest) in tree.crates() {
        let path = format!("crates/{name}/Cargo.toml");
        let named = manifest.get("package").and_then(|package| package.get("name"));
        if named.and_then(Value::as_str) != Some(name) {
            let text = format!("a crate is named like its folder: name = \"{name}\"");
            refused.push(Diagnostic::new(&path, 0, text));
        }
        let Some(own) = floor(name) else {
            let text = "no floor is known for this crate; argue for one and enter it in xtask";
            refused.push(Diagnostic::new(&path, 0, text));
            continue;
        };
        let wrong = list_edges(root, manifest).filter_map(|edge| edge_error(name, own, &edge));
        refused.extend(wrong.map(|text| Diagnostic::new(&path, 0, text)));
    }
    refused
}

/// Returns the error of an edge from the crate `name` of floor `own`. Test code shared with other
/// crates is in the crate's folder, in a package named after it that only tests may use.
fn edge_error(name: &str, own: u8, Edge { to, kind }: &Edge<'_>) -> Option<String> {
    let dev = *kind == "dev-dependencies";
    if WORLDLY_CRATES.contains(to) && own <= 2 && !dev {
        return Some(format!("{to} brings the world below floor 3; hand its work in from floor 3"));
    }
    if (*to != "mezza" && !to.starts_with("mezza-")) || (dev && TEST_KITS.contains(to)) {
        return None;
    }
    let tested = to.strip_suffix("-testing").filter(|_| dev);
    if tested == Some(name) || to.strip_suffix(PEERS_PART) == Some(name) {
        return None;
    }
    let Some(floor) = floor(tested.unwrap_or(to)) else {
        return Some(format!("no floor is known for {to}"));
    };
    let way = match floor.cmp(&own) {
        std::cmp::Ordering::Less => return None,
        std::cmp::Ordering::Equal if stands_before(to, name) => return None,
        std::cmp::Ordering::Equal => "sideways",
        std::cmp::Ordering::Greater => "up",
    };
    let edge = format!("the edge to {to} in {kind}");
    Some(format!("{edge} points {way} (floor {own} to {floor}); move what is needed down"))
}

/// Returns true if both crates belong to the program and `to` precedes `name`.
fn stands_before(to: &str, name: &str) -> bool {
    let place = |name: &str| PROGRAM.iter().position(|known| *known == name);
    matches!((place(to), place(name)), (Some(to), Some(own)) if to < own)
}

/// Returns the dependencies of a manifest, including those of `[target.'..'.dependencies]`.
fn list_edges<'a>(root: Option<&'a Table>, manifest: &'a Table) -> impl Iterator<Item = Edge<'a>> {
    let targets = manifest.get("target").and_then(Value::as_table);
    let targets = targets.into_iter().flat_map(Table::values).filter_map(Value::as_table);
    [manifest].into_iter().chain(targets).flat_map(move |tables| {
        let tables = KINDS.iter().filter_map(|kind| Some((*kind, tables.get(*kind)?.as_table()?)));
        tables.flat_map(move |(kind, entries)| {
            entries
                .iter()
                .map(move |(key, entry)| Edge { to: package_name(root, key, entry), kind })
        })
    })
}

/// Returns the crate of an entry: its `package`, here or in the workspace, else its key.
fn package_name<'a>(root: Option<&'a Table>, key: &'a str, entry: &'a Value) -> &'a str {
    let inherited = || root?.get("workspace")?.get("dependencies")?.get(key)?.get("package");
    let package = if entry.get("workspace").is_some() { inherited() } else { entry.get("package") };
    package.and_then(Value::as_str).unwrap_or(key)
}
