//! Dependencies point down: not up, not sideways. Thirteen crates are the budget.

use super::{Diagnostic, Tree};

/// Every crate there may be, and its floor.
pub const FLOORS: [(&str, u8); 13] = [
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
    ("mezza", 3),
    ("mezza-ffi", 3),
    ("mezza-lab", 4),
];

/// The one crate that any other may use in its tests.
const TEST_WORLD: &str = "mezza-sim";

/// What floors 0-2 may not depend on outside their tests: it brings the world along.
const WORLDLY_CRATES: [&str; 3] = ["tokio", "rusqlite", "getrandom"];

/// The floor of a crate of ours.
pub fn floor(name: &str) -> Option<u8> {
    FLOORS.iter().find(|(known, _)| *known == name).map(|(_, floor)| *floor)
}

/// The crates of floors 0 to 2 that the repository holds.
pub fn pure(tree: &Tree) -> impl Iterator<Item = &str> + use<'_> {
    tree.crates().into_iter().filter(|name| floor(name).is_some_and(|floor| floor <= 2))
}

/// One entry of a manifest's dependency tables.
struct Edge {
    line: usize,
    to: String,
    dev: bool,
}

pub fn check(tree: &Tree) -> Vec<Diagnostic> {
    let mut refused = Vec::new();
    let crates = tree.crates();
    if crates.len() > FLOORS.len() {
        let text =
            format!("{} crates; {} are the budget: one has to go", crates.len(), FLOORS.len());
        refused.push(Diagnostic::new("crates", 0, text));
    }
    for name in crates {
        let path = format!("crates/{name}/Cargo.toml");
        let manifest = tree.get(&path).unwrap_or_default();
        if !manifest.lines().any(|line| line.trim() == format!("name = \"{name}\"")) {
            let text = format!("a crate is named like its folder: name = \"{name}\"");
            refused.push(Diagnostic::new(&path, 0, text));
        }
        let Some(own) = floor(name) else {
            let text = "no floor is known for this crate; argue for one and enter it in xtask";
            refused.push(Diagnostic::new(&path, 0, text));
            continue;
        };
        let edges = edges(manifest);
        refused.extend(edges.iter().filter_map(|edge| refuse(&path, own, edge)));
    }
    refused
}

fn refuse(path: &str, own: u8, edge: &Edge) -> Option<Diagnostic> {
    let to = edge.to.as_str();
    if WORLDLY_CRATES.contains(&to) && own <= 2 && !edge.dev {
        let text = format!("{to} brings the world below floor 3; hand its work in from floor 3");
        return Some(Diagnostic::new(path, edge.line, text));
    }
    if to == "mezza" || to.starts_with("mezza-") {
        let Some(floor) = floor(to) else {
            return Some(Diagnostic::new(path, edge.line, format!("no floor is known for {to}")));
        };
        let way = match floor.cmp(&own) {
            std::cmp::Ordering::Less => return None,
            std::cmp::Ordering::Equal => "sideways",
            std::cmp::Ordering::Greater => "up",
        };
        if edge.dev && to == TEST_WORLD {
            return None;
        }
        let text = format!(
            "the edge to {to} points {way} (floor {own} to {floor}); move what is needed down"
        );
        return Some(Diagnostic::new(path, edge.line, text));
    }
    None
}

/// The dependency entries of a manifest, also of `[target.'..'.dependencies]` and of tables of
/// their own, with `package = ".."` resolved.
fn edges(manifest: &str) -> Vec<Edge> {
    let mut edges: Vec<Edge> = Vec::new();
    let mut section: Option<bool> = None;
    let mut own_table = false;
    for (index, line) in manifest.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if let Some(header) = line.strip_prefix('[') {
            let header = header.trim_end_matches(']').trim();
            let (table, entry) = match header.rsplit_once("dependencies.") {
                Some((before, entry)) => (format!("{before}dependencies"), Some(entry)),
                None => (header.to_owned(), None),
            };
            section = table.ends_with("dependencies").then(|| table.ends_with("dev-dependencies"));
            own_table = entry.is_some();
            if let (Some(dev), Some(entry)) = (section, entry) {
                edges.push(Edge { line: index + 1, to: unquoted(entry), dev });
            }
            continue;
        }
        let Some(dev) = section else { continue };
        if own_table {
            if let (Some(last), Some(name)) = (edges.last_mut(), package(line)) {
                last.to = name;
            }
        } else if let Some((key, value)) = line.split_once('=') {
            let key = key.trim().split('.').next().unwrap_or_default();
            let to = package(value).unwrap_or_else(|| unquoted(key));
            edges.push(Edge { line: index + 1, to, dev });
        }
    }
    edges
}

/// The value of `package = ".."` in a line.
fn package(line: &str) -> Option<String> {
    let at = line.find("package")?;
    let value = line[at + "package".len()..].trim_start().strip_prefix('=')?;
    value.trim_start().strip_prefix('"')?.split('"').next().map(str::to_owned)
}

fn unquoted(text: &str) -> String {
    text.trim().trim_matches('"').to_owned()
}
