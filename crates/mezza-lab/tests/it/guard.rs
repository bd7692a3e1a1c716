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
fn a_planted_secret_leaks_where_a_variant_is_weak_and_nowhere_else() {
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
fn the_attack_matrix_is_as_expected() {
    let (output, text) = run(&["asa", "--profile", "smoke"]);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("10 open cells read every symbol, 15 closed ones chance"), "{text}");
}

#[test]
fn what_does_not_exist_is_answered_with_what_does() {
    for (args, says) in [
        (&["leak", "--variant", "rsa"][..], "there are: dh, dh-comm, eg"),
        (&["leak", "--firewall", "full"], "there are: none, fw"),
        (&["leak", "--element", "B"], "there are: A"),
        (&["leak", "--group", "p256"], "there are: ristretto255"),
        (&["signal-f6", "--firewall", "fw"], "give them to wire, leak or asa alone"),
        (&["leak", "--lambda", "17"], "17 is not in 1..=16"),
    ] {
        let (output, _) = run(args);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(says), "{said}");
    }
}
