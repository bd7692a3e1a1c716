//! The program as a process.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

mod guard;
mod leak;

fn lab(args: &[&str], out: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mezza-lab"));
    command.args(args).arg("--out").arg(out).output().unwrap()
}

fn values(output: &Output) -> Vec<Value> {
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Every row prints and none breaks; whether speeds hold is no question of a test.
#[test]
fn lab_1_slow_every_row_is_measured_or_says_why_not() {
    let folder = tempfile::tempdir().unwrap();
    let args = ["goals", "node", "--profile", "smoke", "--json"];
    let output = lab(&args, folder.path());
    let rows = values(&output);
    let shown = || format!("{rows:#?}\n{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{}", shown());
    for id in ["M1", "M2", "M3", "M4", "M5", "M6", "M7", "M8", "M9", "M10", "M11"] {
        assert!(rows.iter().any(|row| row["id"] == id), "{id}: {}", shown());
    }
    for row in &rows {
        // An idle node may sleep through a smoke run.
        let least = if row["id"] == "M10" { 0.0 } else { f64::MIN_POSITIVE };
        let measured = row["measured"].as_f64().is_some_and(|figure| figure >= least);
        let excused = row["verdict"] == "NOT MEASURABLE HERE" && row["reason"].is_string();
        assert!(measured != excused, "{row}");
    }
    // What needs nothing but Linux was measured.
    for id in ["M1", "M2", "M4", "M5", "M8", "M11"] {
        let of = |row: &&Value| row["id"] == id;
        assert!(rows.iter().filter(of).all(|row| row["measured"].is_number()), "{id}: {}", shown());
    }
    raw_lines(folder.path());
}

fn raw_lines(out: &Path) {
    let text = std::fs::read_to_string(out.join("raw/node-goals.jsonl")).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let end = lines.last().unwrap();
    assert_eq!(end["lines"], lines.len() - 2);
    assert_eq!(lines[0]["exp"], "node-goals");
    for op in ["delivered", "put", "note_sent", "four_operations", "idle_node"] {
        assert!(lines.iter().any(|line| line["op"] == op), "{op}");
    }
    // Nothing but figures stays behind.
    assert_eq!(std::fs::read_dir(out).unwrap().count(), 1);
}

#[test]
fn what_is_unknown_is_refused_and_what_is_there_is_listed() {
    let folder = tempfile::tempdir().unwrap();
    let output = lab(&["goals", "node", "--only", "M99"], folder.path());
    assert_eq!(output.status.code(), Some(66));
    assert!(String::from_utf8_lossy(&output.stderr).contains("`mezza-lab list`"));
    let listed = lab(&["list", "--kernel", "portable"], folder.path());
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert_eq!(listed.status.code(), Some(0));
    assert!(text.contains("<= 30 kB"), "limits stand below their rows: {text}");
    assert!((1..=10).all(|n| text.contains(&format!("M{n} "))), "{text}");
    assert!(text.contains("not measured yet"), "{text}");
    let only =
        lab(&["goals", "node", "--profile", "smoke", "--only", "m7", "--json"], folder.path());
    assert!(values(&only).iter().all(|row| row["id"] == "M7"));
    let listed = lab(&["list"], folder.path());
    assert!(String::from_utf8_lossy(&listed.stdout).contains("measured, in"));
}

/// Two parts of the goals have all rows together, and a raw file each.
#[test]
fn parts_of_the_goals_add_up() {
    let folder = tempfile::tempdir().unwrap();
    let args = ["goals", "node", "--profile", "smoke", "--only", "M4,M6,M7", "--json", "--shard"];
    let mut ids = Vec::new();
    for part in ["0/2", "1/2"] {
        let output = lab(&[&args[..], &[part]].concat(), folder.path());
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let mut rows = values(&output);
        rows.dedup_by_key(|row| row["id"].clone());
        ids.extend(rows.iter().map(|row| row["id"].as_str().unwrap().to_owned()));
    }
    ids.sort_unstable();
    assert_eq!(ids, ["M4", "M6", "M7"]);
    for name in ["node-goals.0-of-2.jsonl", "node-goals.1-of-2.jsonl"] {
        assert!(folder.path().join("raw").join(name).exists(), "{name}");
    }
    let output = lab(&["run", "signal-f6", "--shard", "2/2"], folder.path());
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("such as 0/4"));
}

/// The rows that need no peer are measured; all of them run in `cargo xtask test lab`.
#[test]
fn lab_1_slow_the_rows_of_the_ratchet() {
    let folder = tempfile::tempdir().unwrap();
    let args = ["goals", "ratchet", "--profile", "smoke", "--only", "T4", "--json"];
    let output = lab(&args, folder.path());
    let rows = values(&output);
    let shown = || format!("{rows:#?}\n{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{}", shown());
    let ids: Vec<_> = rows.iter().map(|row| row["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["T4", "T4", "T4", "T5", "T5"]);
    let measured = |row: &Value| row["measured"].as_f64().is_some_and(|figure| figure > 0.0);
    assert!(rows.iter().all(measured), "{}", shown());
    let text = std::fs::read_to_string(folder.path().join("raw/ratchet-goals.jsonl")).unwrap();
    assert!(text.contains("\"who\":\"ours:b2c20\""));
}

/// Every row of the mixnet is measured over real mixes, without its peer too, or says why not.
#[test]
fn lab_1_slow_the_rows_of_the_mixnet() {
    let folder = tempfile::tempdir().unwrap();
    let output = lab(&["goals", "mixnet", "--profile", "smoke", "--json"], folder.path());
    let rows = values(&output);
    let shown = || format!("{rows:#?}\n{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{}", shown());
    for id in ["T1", "T2", "T3", "T4", "T5", "T6", "T7", "T8", "T9"] {
        let of = |row: &&Value| row["id"] == id;
        assert!(rows.iter().any(|row| of(&row)), "{id}: {}", shown());
        for row in rows.iter().filter(of) {
            let measured = row["measured"].as_f64().is_some_and(f64::is_finite);
            let vectors = row["verdict"] == "NOT MEASURABLE HERE"
                && row["reason"] == "avx512ifma missing"
                && row["details"][0].as_str().is_some_and(|text| text.contains("fallback"));
            let peer = row["verdict"] == "PEER ABSENT" && ["T1", "T3", "T7"].contains(&id);
            let root = row["verdict"] == "NOT MEASURABLE HERE" && id == "T9";
            assert!(measured || vectors || peer || root, "{row}");
        }
    }
    let text = std::fs::read_to_string(folder.path().join("raw/mixnet-goals.jsonl")).unwrap();
    for op in ["round_64", "round_mu4_users10", "work", "entry_per_client", "killed_mix1"] {
        assert!(text.contains(&format!("\"op\":\"{op}\"")), "{op}");
    }
    // Keys, configs and logs of the networks are gone.
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

/// Claims that need no clock decide in a smoke run, too; lines through few rounds do not.
#[test]
fn lab_1_slow_the_paper_on_vuvuzela() {
    let folder = tempfile::tempdir().unwrap();
    let output = lab(&["run", "vuvuzela", "sosp15", "--profile", "smoke"], folder.path());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{text}");
    for words in [
        "printed: network 57 % (Latency breakdown)",
        "mu 300000 lasts so many rounds by the composition of SOSP 2015: 239826",
        "without noise one round tells all: 1",
        "latency = ",
        "entry's links",
        "context: throughput 68000 messages/s (SOSP 2015, abstract)",
        "noise of `standard`: 0.052 messages a mix and kind for each user",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let ours = ["scaling", "breakdown", "noise", "x"].map(|name| format!("vuvuzela-{name}"));
    for name in ours.into_iter().chain(["sosp15-f9".to_owned()]) {
        assert!(folder.path().join(format!("raw/{name}.jsonl")).exists());
        assert!(folder.path().join(format!("tables/{name}.txt")).exists());
    }
    for (name, curves) in [("vuvuzela-scaling", 3), ("vuvuzela-noise", 3), ("sosp15-f9", 2)] {
        let plot = folder.path().join(format!("plots/{name}.svg"));
        let svg = std::fs::read_to_string(plot).unwrap();
        assert_eq!(svg.matches("<polyline").count(), curves, "{name}");
    }
}

/// The portable rows are measured on every CPU; those on vectors are, or say what is missing.
#[test]
fn lab_1_the_rows_of_many_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let args = ["goals", "lanes", "--profile", "smoke", "--json"];
    let output = lab(&args, folder.path());
    let rows = values(&output);
    let shown = || format!("{rows:#?}\n{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{}", shown());
    let ids: std::collections::BTreeSet<_> =
        rows.iter().map(|row| row["id"].as_str().unwrap()).collect();
    assert_eq!(ids.into_iter().collect::<Vec<_>>(), ["L1", "L2", "L3", "L6"]);
    for row in &rows {
        let goal = row["goal"].as_str().unwrap();
        let measured = row["measured"].as_f64().is_some_and(|figure| figure > 0.0);
        let excused = row["reason"].is_string();
        assert!(measured != excused, "{row}");
        assert!(measured || !goal.contains("portable"), "{row}");
        if goal.contains("ifma / dalek") && !measured {
            assert_eq!(row["reason"], "avx512ifma missing");
        }
    }
    assert!(rows.iter().filter(|row| row["measured"].is_number()).count() >= 4, "{}", shown());
}

/// The paper's tables print with the paper's values, ours and what is not here; speeds decide
/// nothing in a smoke run.
#[test]
fn lab_1_the_paper_on_signal() {
    let folder = tempfile::tempdir().unwrap();
    let output = lab(&["run", "signal-t2", "signal-f6", "--profile", "smoke"], folder.path());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{text}");
    let words = [
        "1,826,513 ns",
        "aws-lc, no AES, no SHA instructions",
        "sign test p = 0.055",
        "paper: one number for both",
        "PEER ABSENT jvm: too slow for a smoke run",
    ];
    for word in words {
        assert!(text.contains(word), "{word}: {text}");
    }
    for name in ["t2", "f6"] {
        let table = folder.path().join(format!("tables/signal-{name}.json"));
        let value: Value = serde_json::from_str(&std::fs::read_to_string(table).unwrap()).unwrap();
        assert_eq!(value["holds"], true, "{name}");
        assert!(folder.path().join(format!("raw/signal-{name}.jsonl")).exists());
    }
}

#[test]
fn an_experiment_that_is_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let output = lab(&["run", "signal-t9"], folder.path());
    assert_eq!(output.status.code(), Some(66));
    assert!(String::from_utf8_lossy(&output.stderr).contains("`mezza-lab list`"));
}

#[test]
fn the_doctor_looks_at_this_machine() {
    let output = Command::new(env!("CARGO_BIN_EXE_mezza-lab")).arg("doctor").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{text}");
    for part in ["machine ", "clock ", "load ", "loops "] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

/// The claims of pages are those that their experiments make today. These experiments make the same ones at
/// each profile.
#[test]
fn lab_4_the_claims_of_pages_are_those_of_their_experiments() {
    let folder = tempfile::tempdir().unwrap();
    let names = ["signal-f6", "fosam-t2", "seka-t4", "seka-f10", "vuvuzela-noise"];
    let args = [&["run"], &names[..], &["--profile", "smoke", "--json"]].concat();
    let output = lab(&args, folder.path());
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let reports = values(&output);
    assert_eq!(reports.len(), names.len());
    for report in reports {
        let name = report["exp"].as_str().unwrap();
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../docs/lab/{name}.md"));
        let page = std::fs::read_to_string(page).unwrap();
        for claim in report["shapes"].as_array().unwrap() {
            let text = claim["claim"].as_str().unwrap();
            let has = page.lines().any(|line| {
                ["- holds: ", "- **fails: "].iter().any(|verdict| {
                    line.strip_prefix(verdict)
                        .is_some_and(|line| line.starts_with(&format!("{text}: ")))
                })
            });
            assert!(has, "the page of {name} lacks \"{text}\"");
        }
    }
}
