//! Reverse firewalls and the attacks they stop, by the command line.

use std::process::Output;

use super::lab;

fn run(args: &[&str]) -> (Output, String) {
    let folder = tempfile::tempdir().unwrap();
    let output = lab(&[&["run"], args].concat(), folder.path());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (output, text)
}

/// Initiator, firewall, observer and responder are processes; both ends agree, and no message is on the
/// wire as it was inside.
#[test]
fn a_handshake_passes_a_firewall_between_processes() {
    for variant in ["dh", "dh-comm", "eg"] {
        let (output, text) = run(&["wire", "--variant", variant]);
        assert_eq!(output.status.code(), Some(0), "{text}");
        assert_eq!(text.matches("holds  both ends agree").count(), 2, "{text}");
        assert!(text.contains("  inside -->") && text.contains("  wire   <--"), "{text}");
    }
}

/// Without a firewall the observer reads all 128 bits; with the right one nothing; with those of the
/// thesis that leave a channel open, all again. 200 handshakes each, and the ends agree every time.
#[test]
fn slow_a_planted_secret_leaks_where_a_variant_is_weak_and_nowhere_else() {
    let all = "32 of 32 blocks of 4 bits are those of the secret; 200 of 200 symbols hit";
    for (variant, firewall, reads) in [
        ("dh", "none", true),
        ("dh", "fw", false),
        ("dh-comm", "none", true),
        ("dh-comm", "basic", true),
        ("dh-comm", "full", false),
        ("eg", "maul", true),
        ("eg", "rerand", false),
        ("eg", "remaul", false),
    ] {
        let how = ["--lambda", "4", "--stateful"];
        let what = ["leak", "--variant", variant, "--firewall", firewall];
        let (output, text) = run(&[&what[..], &how[..]].concat());
        assert_eq!(output.status.code(), Some(0), "{text}");
        assert_eq!(text.contains(all), reads, "{variant} {firewall}: {text}");
        assert!(text.contains("holds  both ends agree each time"), "{text}");
    }
}

#[test]
fn slow_the_attack_matrix_is_as_expected() {
    let (output, text) = run(&["asa", "--profile", "smoke"]);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("A3: 10 open cells read each symbol, 15 closed ones chance"), "{text}");
}

/// Every row prints and none breaks; whether speeds hold is no question of a test.
#[test]
fn lab_1_slow_the_rows_of_reverse_firewalls() {
    let folder = tempfile::tempdir().unwrap();
    let args = ["goals", "guard", "--profile", "smoke", "--json"];
    let output = lab(&args, folder.path());
    let rows = super::values(&output);
    assert_eq!(output.status.code(), Some(0), "{rows:#?}");
    for id in ["T1", "T2", "T4", "T5", "T6", "T8"] {
        assert!(rows.iter().any(|row| row["id"] == id), "{id}: {rows:#?}");
    }
    for row in &rows {
        let measured = row["measured"].as_f64().is_some_and(f64::is_finite);
        let goal = row["goal"].as_str().unwrap();
        assert!(measured || (row["verdict"] == "PEER ABSENT" && goal.contains("OpenSSL")), "{row}");
    }
    let primes = rows.iter().find(|row| row["id"] == "T8").unwrap();
    assert_eq!(primes["verdict"], "holds", "no clock decides it: {primes}");
}

/// Thesis, Sage, uniform and fast stand side by side, with the errors of the print beside them.
#[test]
fn guard_42_the_tables_show_the_thesis_beside_ours() {
    let folder = tempfile::tempdir().unwrap();
    let what = ["run", "thesis-t55", "thesis-t56", "thesis-f54", "--profile", "smoke"];
    let output = lab(&what, folder.path());
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{text}");
    for words in [
        "thesis PC",
        "EC_DH_Comm_FW         137.1    +63 %",
        "printed: EC_EG            PC 35.5",
        "   text: EC_EG            PC 35.3",
        "erratum 17: both columns repeat table 5.5",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    // Where Sage is not installed its column says so, with the next step.
    assert_eq!(text.contains("not here"), text.contains("column Sage: "), "{text}");
    let page = std::fs::read_to_string(folder.path().join("pages/thesis-f54.md")).unwrap();
    assert!(page.contains("![Figure 5.4: table 5.5](thesis-f54.svg)"), "{page}");
    assert!(folder.path().join("plots/thesis-f54.svg").exists());
}

/// A search gives what its seed decides, writes it, and the check of the file says so.
#[test]
fn slow_a_safe_prime_is_found_kept_and_checked() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("prime");
    let program = || std::process::Command::new(env!("CARGO_BIN_EXE_mezza-lab"));
    let args = ["safe-prime", "--bits", "128", "--seed", "6f6e65", "--jobs", "2", "--out"];
    let output = program().args(args).arg(&file).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let vector = concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/guard/safe-prime-128-one.txt");
    let wanted = std::fs::read_to_string(vector).unwrap();
    let found = std::fs::read_to_string(&file).unwrap();
    assert_eq!(found, wanted.trim_start_matches("kind: safe-prime\n"));
    let check = |file: &std::path::Path| {
        program().arg("check-prime").arg(file).output().unwrap().status.code()
    };
    assert_eq!(check(&file), Some(0));
    for (text, code) in [
        (found.replace("seed: 6f6e65", "seed: 6f6e66"), 1),
        ("p: ffffffffffffffff\n".to_owned(), 1),
        ("p: xyz\n".to_owned(), 65),
        ("nothing\n".to_owned(), 65),
    ] {
        std::fs::write(&file, text).unwrap();
        assert_eq!(check(&file), Some(code));
    }
    assert_eq!(check(&folder.path().join("none")), Some(66));
    for bits in ["60", "8200", "100"] {
        let output = program().args(["safe-prime", "--bits", bits]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{bits}");
    }
}

#[test]
fn what_does_not_exist_is_answered_with_what_does() {
    for (args, says) in [
        (&["leak", "--variant", "rsa"][..], "there are: dh, dh-comm, eg"),
        (&["leak", "--firewall", "full"], "there are: none, fw"),
        (&["leak", "--element", "B"], "there are: A"),
        (&["asa", "--element", "B"], "there are: A, X, C1, C2, r, s, c1, c0"),
        (&["asa", "--variant", "eg", "--element", "X"], "there are: c1, c0"),
        (&["leak", "--group", "p256"], "there are: ristretto255, modp3072"),
        (&["signal-f6", "--firewall", "fw"], "give them to wire, leak or asa alone"),
        (&["leak", "--lambda", "17"], "17 is not in 1..=16"),
    ] {
        let (output, _) = run(args);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(says), "{said}");
    }
}
