//! The shape of files and crates.

use super::{Diagnostic, Tree};

/// Above this nobody holds a file in mind.
const LINES_MAX: usize = 600;

pub fn check(tree: &Tree) -> Vec<Diagnostic> {
    let mut refused = Vec::new();
    // `.d.ts` files are made by tools from what people wrote.
    let written = tree.ending(&["rs", "ts", "svelte"]).filter(|(path, _)| !path.ends_with(".d.ts"));
    for (path, text) in written {
        let lines = text.lines().count();
        if lines > LINES_MAX {
            let text =
                format!("{lines} lines; {LINES_MAX} are the limit: give a noun its own file");
            refused.push(Diagnostic::new(path, 0, text));
        }
        if path.ends_with("/mod.rs") {
            let text = "`foo.rs` beside the folder `foo/`, never `mod.rs`";
            refused.push(Diagnostic::new(path, 0, text));
        }
    }
    for name in tree.crates() {
        let path = format!("crates/{name}/Cargo.toml");
        let manifest = tree.get(&path).unwrap_or_default();
        let mut lines = manifest.lines().map(str::trim).skip_while(|line| *line != "[lints]");
        let common = lines.any(|line| line == "workspace = true");
        if !common && !denies_unsafe(tree, name, manifest) {
            let text = "add the common lints: [lints] workspace = true";
            refused.push(Diagnostic::new(&path, 0, text));
        }
    }
    for (path, text) in tree.iter().filter(|(path, _)| path.ends_with("package-lock.json")) {
        let named =
            text.lines().position(|line| line.trim_start().starts_with("\"resolved\": \"http"));
        if let Some(index) = named {
            let text = "the lock names a host; write `omit-lockfile-registry-resolved=true` to \
                        .npmrc and lock again";
            refused.push(Diagnostic::new(path, index + 1, text));
        }
    }
    refused
}

/// Cargo takes all lints of the workspace or none. A crate with `unsafe` code repeats them, `forbid`
/// being `deny`, so that one file can say why it is different.
fn denies_unsafe(tree: &Tree, name: &str, manifest: &str) -> bool {
    let common = tree.get("Cargo.toml").unwrap_or_default();
    let common = common.lines().skip_while(|line| !line.starts_with("[workspace.lints"));
    let common = common.take_while(|line| !line.starts_with("[profile"));
    let mut wanted = common
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| line.replace("workspace.", "").replace("\"forbid\"", "\"deny\""))
        .peekable();
    name == "mezza-lanes"
        && wanted.peek().is_some()
        && wanted.all(|wanted| manifest.lines().any(|line| line == wanted))
}
