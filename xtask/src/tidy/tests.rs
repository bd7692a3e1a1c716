//! One planted tree per refusal: a valid one with one fault.

use super::source::{has_word, is_part};
use super::{Tree, collect_refusals};
use std::fs;
use std::path::{Path, PathBuf};

const CORE: &str = "[package]\nname = \"mezza-core\"\n\n[lints]\nworkspace = true\n";
const LIB: &str = "//! Talks about std::fs and unsafe.\n#![no_std]\n";

fn manifest(name: &str, rest: &str) -> String {
    format!("[package]\nname = \"{name}\"\n\n[lints]\nworkspace = true\n\n{rest}")
}

/// Writes a small valid repository with `extra` over it. Returns its path.
pub fn plant(name: &str, extra: &[(&str, &str)]) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = target.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../target"));
    let root = target.join("xtask-planted").join(name);
    let _ = fs::remove_dir_all(&root);
    let sim = manifest("mezza-sim", "[dependencies]\nmezza-core.workspace = true\n");
    let ratchet = manifest(
        "mezza-ratchet",
        "[dependencies]\nmezza-core.workspace = true\n\n[dev-dependencies]\nmezza-sim.workspace = true\n",
    );
    let good = [
        ("crates/mezza-core/Cargo.toml", CORE),
        ("crates/mezza-core/src/lib.rs", LIB),
        ("crates/mezza-sim/Cargo.toml", sim.as_str()),
        ("crates/mezza-sim/src/lib.rs", "use std::collections::BTreeMap;\n"),
        ("crates/mezza-ratchet/Cargo.toml", ratchet.as_str()),
        ("crates/mezza-ratchet/src/lib.rs", LIB),
        ("docs/protocols/ratchet.md", "In force: RATCHET-1\n\n**RATCHET-1** A key is a key.\n"),
        ("crates/mezza-ratchet/tests/it/rules.rs", "#[test]\nfn ratchet_1_a_key() {}\n"),
    ];
    for (path, text) in good.iter().chain(extra) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().expect("a file lies in a folder")).expect("folder");
        fs::write(path, text).expect("file");
    }
    root
}

/// Returns the diagnostics of the planted tree as strings.
fn said(name: &str, extra: &[(&str, &str)]) -> Vec<String> {
    let root = plant(name, extra);
    collect_refusals(&root).expect("the tree is readable").iter().map(ToString::to_string).collect()
}

/// Checks that there is exactly one refusal, at this place, with these words.
fn refuses_once(name: &str, extra: &[(&str, &str)], place: &str, words: &str) {
    let said = said(name, extra);
    assert_eq!(said.len(), 1, "{said:#?}");
    assert!(said[0].starts_with(place) && said[0].contains(words), "{said:#?}");
}

#[test]
fn the_good_tree_passes() {
    assert_eq!(said("good", &[]), [""; 0]);
}

#[test]
fn this_repository_passes() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let said = collect_refusals(&root).expect("readable");
    assert!(said.is_empty(), "{said:#?}");
}

#[test]
fn an_edge_up() {
    let core =
        format!("{CORE}\n[dependencies]\nmezza-ratchet = {{ path = \"../mezza-ratchet\" }}\n");
    let place = "crates/mezza-core/Cargo.toml: ";
    refuses_once("up", &[("crates/mezza-core/Cargo.toml", &core)], place, "points up");
}

/// The lab is above the program, and only the lab may name its attacks and weak variants.
#[test]
fn guard_10_the_attacks_are_the_labs_alone() {
    let program = manifest("mezza", "[dependencies]\nmezza-lab.workspace = true\n");
    let files = [
        ("crates/mezza/Cargo.toml", program.as_str()),
        ("crates/mezza/src/main.rs", "fn main() {}\n"),
    ];
    refuses_once("lab", &files, "crates/mezza/Cargo.toml: ", "points up");
    let tree = Tree::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).expect("readable");
    let of_lab = |path: &str| {
        ["asa", "thesis"]
            .iter()
            .any(|part| path.starts_with(&format!("crates/mezza-lab/src/{part}/")))
    };
    let declared = |code: &str| -> Vec<String> {
        let names = code.split("pub struct ").skip(1).chain(code.split("pub enum ").skip(1));
        names
            .filter_map(|name| name.split(|c: char| !is_part(c)).next().map(str::to_owned))
            .collect()
    };
    let weak = tree.code().filter(|(path, _)| of_lab(path)).flat_map(|(_, code)| declared(code));
    // `Element` is a word of every group.
    let weak: Vec<String> = weak.filter(|name| name != "Element").collect();
    assert!(weak.iter().any(|name| name == "BasicFirewall") && weak.len() > 10, "{weak:?}");
    for (path, code) in tree.code().filter(|(path, _)| path.starts_with("crates/mezza-guard/src/"))
    {
        let named = weak.iter().find(|name| code.lines().any(|line| has_word(line, name)));
        assert_eq!(named, None, "{path}");
    }
}

/// The crates of the program are on one floor, in an order.
#[test]
fn an_edge_against_the_order_of_the_program() {
    let edge = |from, to| manifest(from, &format!("[dependencies]\n{to}.workspace = true\n"));
    for (name, from, to) in [
        ("program-1", "mezza-host", "mezza-servers"),
        ("program-2", "mezza-servers", "mezza"),
        ("program-3", "mezza-ffi", "mezza-host"),
    ] {
        let path = format!("crates/{from}/Cargo.toml");
        let text = edge(from, to);
        let lib = format!("crates/{from}/src/lib.rs");
        let files = [(path.as_str(), text.as_str()), (lib.as_str(), "//! A\n")];
        refuses_once(name, &files, &path, "points sideways");
    }
    let servers = edge("mezza-servers", "mezza-host");
    let program = edge("mezza", "mezza-servers");
    let files = [
        ("crates/mezza-servers/Cargo.toml", servers.as_str()),
        ("crates/mezza-servers/src/lib.rs", "//! A\n"),
        ("crates/mezza/Cargo.toml", program.as_str()),
        ("crates/mezza/src/main.rs", "fn main() {}\n"),
    ];
    assert_eq!(said("program-4", &files), [""; 0]);
}

#[test]
fn an_edge_sideways_in_every_spelling() {
    for (name, table) in [
        ("side-1", "[dependencies]\nmezza-sim.workspace = true\n"),
        ("side-2", "[dependencies.mezza-sim]\nworkspace = true\n"),
        ("side-3", "[target.'cfg(unix)'.dependencies]\nmezza-sim = { workspace = true }\n"),
        ("side-4", "[build-dependencies]\nworld = { package = \"mezza-sim\", path = \"..\" }\n"),
        ("side-5", "[dependencies.world]\npackage = \"mezza-sim\"\n"),
    ] {
        let ratchet = manifest("mezza-ratchet", table);
        let file = ("crates/mezza-ratchet/Cargo.toml", ratchet.as_str());
        refuses_once(name, &[file], "crates/mezza-ratchet/Cargo.toml:", "points sideways");
    }
    let root = ("Cargo.toml", "[workspace.dependencies]\nworld = { package = \"mezza-sim\" }\n");
    let ratchet = manifest("mezza-ratchet", "[dependencies]\nworld.workspace = true\n");
    let file = ("crates/mezza-ratchet/Cargo.toml", ratchet.as_str());
    refuses_once("side-6", &[root, file], "crates/mezza-ratchet/Cargo.toml:", "to mezza-sim in");
}

#[test]
fn a_manifest_that_cargo_cannot_read() {
    let root = plant("no-toml", &[("crates/mezza-core/Cargo.toml", "[package\n")]);
    let text = collect_refusals(&root).expect_err("no TOML");
    assert!(text.starts_with("crates/mezza-core/Cargo.toml: TOML parse error"), "{text}");
}

#[test]
fn dev_dependencies_may_be_the_sim_and_nothing_else_of_that_floor() {
    let sim = manifest("mezza-sim", "[dev-dependencies]\nmezza-ratchet.workspace = true\n");
    let file = ("crates/mezza-sim/Cargo.toml", sim.as_str());
    refuses_once(
        "dev",
        &[file],
        "crates/mezza-sim/Cargo.toml",
        "mezza-ratchet in dev-dependencies",
    );
}

#[test]
fn what_tests_share_is_for_the_tests_of_its_crate_and_of_those_above() {
    for (name, table, problem) in [
        ("shared-1", "dependencies", "no floor is known for mezza-mixnet-testing"),
        ("shared-2", "dev-dependencies", "points sideways"),
    ] {
        let table = format!("[{table}]\nmezza-mixnet-testing.workspace = true\n");
        let ratchet = manifest("mezza-ratchet", &table);
        let file = ("crates/mezza-ratchet/Cargo.toml", ratchet.as_str());
        refuses_once(name, &[file], "crates/mezza-ratchet/Cargo.toml", problem);
    }
}

#[test]
fn the_world_in_a_manifest_of_a_pure_crate() {
    let core =
        format!("{CORE}\n[dependencies]\ngetrandom = \"0.4\"\n[dev-dependencies]\ntokio = \"1\"\n");
    let file = ("crates/mezza-core/Cargo.toml", core.as_str());
    refuses_once("world-crate", &[file], "crates/mezza-core/Cargo.toml: ", "getrandom");
}

#[test]
fn unknown_crates_and_wrong_names() {
    let other = manifest("mezza-extra", "");
    let file = ("crates/mezza-extra/Cargo.toml", other.as_str());
    refuses_once("unknown", &[file], "crates/mezza-extra/Cargo.toml", "no floor is known");
    let named = CORE.replace("mezza-core", "mezza-kernel");
    let file = ("crates/mezza-core/Cargo.toml", named.as_str());
    refuses_once("named", &[file], "crates/mezza-core/Cargo.toml", "named like its folder");
}

#[test]
fn sixteen_crates() {
    let names = super::floors::FLOORS.map(|(name, _)| name).into_iter().chain(["mezza-extra"]);
    let files =
        names.map(|n| (format!("crates/{n}/Cargo.toml"), manifest(n, ""))).collect::<Vec<_>>();
    let files = files.iter().map(|(p, t)| (p.as_str(), t.as_str())).collect::<Vec<_>>();
    let said = said("sixteen", &files);
    assert!(said.iter().any(|line| line.contains("16 crates; 15 are the budget")), "{said:#?}");
}

#[test]
fn worldly_words_below_floor_3() {
    for (i, line) in [
        "use std::fs;",
        "use std::{collections::BTreeMap, net::TcpStream};",
        "use std::{\n    collections::BTreeMap,\n    net::TcpStream,\n};",
        "let x = std::env::var(\"X\");",
        "use std::time::Instant;",
        "std::thread::spawn(f);",
        "std::process::exit(1);",
        "tokio::spawn(f);",
        "use rusqlite as sql;",
        "getrandom::fill(&mut x);",
    ]
    .into_iter()
    .enumerate()
    {
        let text = format!("{LIB}{line}\n");
        let file = ("crates/mezza-ratchet/src/lib.rs", text.as_str());
        refuses_once(
            &format!("word-{i}"),
            &[file],
            "crates/mezza-ratchet/src/lib.rs:3",
            "is the world",
        );
    }
    let sim = ("crates/mezza-sim/src/lib.rs", "use std::panic;\nuse std::time::Duration;\n");
    refuses_once("word-sim", &[sim], "crates/mezza-sim/src/lib.rs:2", "std::time");
}

#[test]
fn a_pure_crate_without_no_std() {
    let file = ("crates/mezza-core/src/lib.rs", "//! Core.\n");
    refuses_once("no-std", &[file], "crates/mezza-core/src/lib.rs", "#![no_std]");
}

#[test]
fn floor_3_may_know_the_world() {
    let node = manifest("mezza", "[dependencies]\nmezza-core.workspace = true\ntokio = \"1\"\n");
    let files = [
        ("crates/mezza/Cargo.toml", node.as_str()),
        ("crates/mezza/src/lib.rs", "use std::fs;\nuse tokio::net::TcpStream;\n"),
    ];
    assert_eq!(said("floor-3", &files), [""; 0]);
}

#[test]
fn long_files() {
    let long = "const X: u8 = 1;\n".repeat(601);
    for path in ["crates/mezza-sim/src/long.rs", "ui/src/long.ts", "ui/src/Long.svelte"] {
        refuses_once("long", &[(path, &long)], path, "601 lines");
    }
    let just = "const X: u8 = 1;\n".repeat(600);
    assert_eq!(said("long", &[("crates/mezza-sim/src/long.rs", &just)]), [""; 0]);
}

#[test]
fn mod_rs_and_lints() {
    let path = "crates/mezza-sim/src/world/mod.rs";
    refuses_once("mod", &[(path, "//! World.\n")], path, "never `mod.rs`");
    let bare = "[package]\nname = \"mezza-core\"\n";
    let path = "crates/mezza-core/Cargo.toml";
    refuses_once("lints", &[(path, bare)], path, "common lints");
}

#[test]
fn rules_in_force_without_a_test() {
    let path = "docs/protocols/ratchet.md";
    let text = "In force: RATCHET-1 RATCHET-10\n\n**RATCHET-1** x. **RATCHET-10** y.\n";
    // The test of RATCHET-1 does not count for RATCHET-10, nor the reverse.
    refuses_once("rule", &[(path, text)], "docs/protocols/ratchet.md:1", "RATCHET-10 is in force");
    let rules = "crates/mezza-ratchet/tests/it/rules.rs";
    let only = "#[test]\nfn ratchet_10_y() {}\n";
    refuses_once("rule", &[(path, text), (rules, only)], path, "RATCHET-1 is in force");
    let no_test = "fn ratchet_1_a() {}\n\n#[test]\nfn ratchet_10_y() {}\n";
    refuses_once("rule", &[(path, text), (rules, no_test)], path, "RATCHET-1 is in force");
    let undefined = "In force: RATCHET-1, RATCHET-2\n\n**RATCHET-1** x.\n";
    refuses_once("rule", &[(path, undefined)], path, "has no **RATCHET-2**");
}

#[test]
fn rules_of_the_page_are_tested_by_the_page() {
    let doc = ("docs/protocols/messenger.md", "In force: WEB-3\n\n**WEB-3** x.\n");
    refuses_once("web", &[doc], "docs/protocols/messenger.md:1", "WEB-3 is in force");
    let test = ("ui/tests/csp.test.ts", "test('web_3 no violation', () => {});\n");
    assert_eq!(said("web", &[doc, test]), [""; 0]);
    let suite = ("ui/tests/browser/csp.mjs", "export const web_3_none = async () => {};\n");
    let gone = ("ui/tests/csp.test.ts", "\n");
    assert_eq!(said("web", &[doc, gone, suite]), [""; 0]);
}

#[test]
fn citations_of_what_is_not_there() {
    let document =
        ("docs/protocols/messenger.md", "## 5 States\n\n### 5.2 Notes\n- MSG-4 (caller) x.\n");
    let path = "crates/mezza-sim/src/a.rs";
    for (name, cited) in [
        ("cite-1", format!("{}-2", "RATCHET")),
        ("cite-2", format!("See {}-4: a list (MSG-4, {0}-14).", "MSG")),
        ("cite-3", format!("A crate without a document ({}-1).", "HIBE")),
        ("cite-4", "A heading that is gone (messenger 5.3).".to_owned()),
        ("cite-5", "A list of them (`messenger` 5.2, 5.4).".to_owned()),
        ("cite-6", "A document without numbers, ratchet 1.1".to_owned()),
    ] {
        let text = format!("\n/// {cited}\n");
        refuses_once(name, &[document, (path, &text)], "crates/mezza-sim/src/a.rs:2", "cite");
    }
    let text = "// MSG-4, RATCHET-1's; messenger 5.2, 600 of them; SHA-256; a ratchet 1.5x as fast;\n\
                // over the messenger (5.9); a messenger: 5.9 (5.9)\n";
    assert_eq!(said("cite", &[document, (path, text)]), [""; 0]);
}

#[test]
fn unsafe_outside_its_crates() {
    let path = "crates/mezza-sim/src/fast.rs";
    let text = "fn f() { unsafe { g() } }\n";
    refuses_once("unsafe", &[(path, text)], path, "unsafe code lives");
    let lanes = manifest("mezza-lanes", "");
    let files = [
        ("crates/mezza-lanes/Cargo.toml", lanes.as_str()),
        ("crates/mezza-lanes/src/lib.rs", LIB),
        ("crates/mezza-lanes/src/avx512.rs", text),
    ];
    assert_eq!(said("unsafe-lanes", &files), [""; 0]);
}

#[test]
fn lanes_1_unsafe_code_in_one_file() {
    let text = "#![no_std]\nfn f() { unsafe { g() } }\n";
    let lanes = manifest("mezza-lanes", "");
    let files = [
        ("crates/mezza-lanes/Cargo.toml", lanes.as_str()),
        ("crates/mezza-lanes/src/lib.rs", text),
    ];
    refuses_once("unsafe-lanes-lib", &files, "crates/mezza-lanes/src/lib.rs:2", "avx512.rs");
    // The crate's lints are the workspace's, with `deny` for `forbid`.
    let root = "[workspace.lints.rust]\nunsafe_code = \"forbid\"\nmissing_docs = \"warn\"\n";
    let own = "[package]\nname = \"mezza-lanes\"\n\n[lints.rust]\nunsafe_code = \"deny\"\n";
    let whole = format!("{own}missing_docs = \"warn\"\n");
    let lib = ("crates/mezza-lanes/src/lib.rs", LIB);
    let files = |manifest| [("Cargo.toml", root), ("crates/mezza-lanes/Cargo.toml", manifest), lib];
    assert_eq!(said("lints-lanes", &files(&whole)), [""; 0]);
    let weak = whole.replace("deny", "warn");
    for manifest in [own, weak.as_str()] {
        let place = "crates/mezza-lanes/Cargo.toml";
        refuses_once("lints-lanes", &files(manifest), place, "common lints");
    }
}

#[test]
fn lanes_4_arithmetic_without_classes_or_without_proof() {
    let lanes = manifest("mezza-lanes", "");
    let path = "crates/mezza-lanes/src/eight/field.rs";
    let silent = "/// Sum.\npub fn sum<L: Lanes>(l: L) {\n    l.add(a, b)\n}\n";
    let named = silent.replace("Sum.", "Sum. Classes: R -> R.");
    let proof = ("crates/mezza-lanes/src/tests/bounds.rs", "fn f() { field::sum(l) }\n");
    let files = |text| {
        let lib = ("crates/mezza-lanes/src/lib.rs", LIB);
        [("crates/mezza-lanes/Cargo.toml", lanes.as_str()), lib, (path, text)]
    };
    refuses_once("classes", &files(silent), &format!("{path}:2"), "say `Classes:`");
    refuses_once("classes", &files(&named), &format!("{path}:2"), "does not prove");
    let proven = files(&named).into_iter().chain([proof]).collect::<Vec<_>>();
    assert_eq!(said("classes", &proven), [""; 0]);
    let driver = files("pub fn all<L: Lanes>(l: L) {\n    sum(l)\n}\n");
    assert_eq!(said("classes-driver", &driver), [""; 0]);
}

#[test]
fn names_that_say_nothing() {
    for path in
        ["crates/mezza-sim/src/utils.rs", "ui/src/helpers.ts", "crates/mezza-sim/src/common/x.rs"]
    {
        refuses_once("names", &[(path, "\n")], path, "says nothing");
        fs::remove_file(plant("names", &[]).join(path)).unwrap_or_default();
    }
    let path = "crates/mezza-sim/src/a.rs";
    refuses_once("getter", &[(path, "pub fn get_name() {}\n")], path, "without `get_`");
    let peer = [("lab/peers/x/src/store.rs", "async fn get_name() {}\n")];
    assert_eq!(said("getter-of-others", &peer), [""; 0]);
    refuses_once("manager", &[(path, "pub struct LinkManager;\n")], path, "`LinkManager`");
}

#[test]
fn paths_of_one_machine() {
    for own in own_paths() {
        let text = format!("const X: &str = \"{own}notes\";\n");
        let path = "crates/mezza-sim/tests/it/a.rs";
        refuses_once("paths", &[(path, &text)], path, "the path of one machine");
        refuses_once("paths-md", &[("README.md", &text)], "README.md:1", "the path of one machine");
    }
}

fn own_paths() -> [String; 3] {
    ["work", "root", "tmp"].map(|folder| format!("/{folder}/"))
}

#[test]
fn leftovers() {
    let path = "crates/mezza-sim/src/a.rs";
    for (name, word) in
        [("left-1", concat!("TO", "DO")), ("left-2", concat!("unimple", "mented!()"))]
    {
        refuses_once(name, &[(path, &format!("// {word}\n"))], path, "finish it");
    }
}

#[test]
fn locks_that_name_a_host() {
    let lock = |line: &str| format!("{{\"packages\": {{\"node_modules/x\": {{{line}}}}}}}");
    let path = "ui/package-lock.json";
    let text = lock("\"resolved\": \"https://mirror.example/x.tgz\"");
    refuses_once("lock", &[(path, &text)], path, "names a host");
    let text = lock("\"resolved\": \"../x\", \"funding\": \"https://x.example\"");
    assert_eq!(said("lock", &[(path, &text)]), [""; 0]);
    refuses_once("lock", &[(path, "{")], path, "cannot be read");
}

#[test]
fn ratchet_46_the_papers_suite_is_imported_by_the_lab_alone() {
    let messenger = manifest("mezza-messenger", "");
    let source = "#![no_std]\nuse mezza_ratchet::suite::paper::Paper;\n";
    let files = [
        ("crates/mezza-messenger/Cargo.toml", messenger.as_str()),
        ("crates/mezza-messenger/src/lib.rs", source),
    ];
    refuses_once("paper", &files, "crates/mezza-messenger/src/lib.rs:2", "RATCHET-46");
    let lab = manifest("mezza-lab", "");
    let files =
        [("crates/mezza-lab/Cargo.toml", lab.as_str()), ("crates/mezza-lab/src/main.rs", source)];
    assert_eq!(said("paper-lab", &files), [""; 0]);
}
