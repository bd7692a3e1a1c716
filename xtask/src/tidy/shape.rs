//! The shape of files and crates.

use super::{Diagnostic, Tree};
use serde_json::Value as Json;
use toml::{Table, Value};

/// Crates with one file of `unsafe` code (`words`).
const HOLDS_UNSAFE: [&str; 2] = ["mezza-hibe", "mezza-lanes"];
/// Maximum number of lines of a file.
const LINES_MAX: usize = 600;

pub fn check(tree: &Tree) -> Vec<Diagnostic> {
    let mut refused = Vec::new();
    // `.d.ts` files are generated.
    let written =
        tree.files_ending(&["rs", "ts", "svelte"]).filter(|(path, _)| !path.ends_with(".d.ts"));
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
    for (name, manifest) in tree.crates() {
        let lints = manifest.get("lints");
        let common = lints.and_then(|lints| lints.get("workspace")).is_some();
        let own = HOLDS_UNSAFE.contains(&name) && denies_unsafe(tree.manifest("Cargo.toml"), lints);
        if !common && !own {
            let text = "add the common lints: [lints] workspace = true";
            refused.push(Diagnostic::new(&format!("crates/{name}/Cargo.toml"), 0, text));
        }
    }
    for (path, text) in tree.iter().filter(|(path, _)| path.ends_with("package-lock.json")) {
        let text = match serde_json::from_str::<Json>(text) {
            Err(e) => format!("the lock cannot be read: {e}; lock again"),
            Ok(lock) if !names_host(&lock) => continue,
            Ok(_) => "the lock names a host; write `omit-lockfile-registry-resolved=true` to \
                      .npmrc and lock again"
                .to_owned(),
        };
        refused.push(Diagnostic::new(path, 0, text));
    }
    refused
}

/// Returns true if any table of a lock file contains the address of a package.
fn names_host(lock: &Json) -> bool {
    lock.as_object().into_iter().flatten().any(|(key, value)| {
        let place = value.as_str().filter(|_| key == "resolved");
        place.is_some_and(|place| place.starts_with("http")) || names_host(value)
    })
}

/// Returns true if the crate denies `unsafe`. Cargo inherits all lints of the workspace or none, so
/// a crate with `unsafe` code repeats them, with `deny` instead of `forbid`, so that one file can
/// state its exception.
fn denies_unsafe(root: Option<&Table>, lints: Option<&Value>) -> bool {
    let common = root.and_then(|root| root.get("workspace")?.get("lints"));
    let Some(mut wanted) = common.cloned() else { return false };
    if let Some(level) = wanted.get_mut("rust").and_then(|rust| rust.get_mut("unsafe_code")) {
        *level = "deny".into();
    }
    lints == Some(&wanted)
}
