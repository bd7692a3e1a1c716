//! The guide to a mixnet, typed by a guardian. The reader fills in the keys of the guardians.

use super::{Reader, commands, file};

const GUIDE: &str = "docs/guide/mixnet.md";

fn typed(heading: &str) -> Vec<String> {
    let shown = commands(&file(GUIDE), heading).into_iter().map(|(line, _)| line);
    // Asked questions are answered where a person reads them.
    let complete =
        |line: String| if line.contains(" config sign ") { line + " --yes" } else { line };
    shown.map(|line| complete(line.split(" #").next().unwrap().trim_end().to_owned())).collect()
}

#[test]
fn cli_9_the_guide_to_a_config_works() {
    let mut guardian = Reader::new();
    let path = guardian.folder.path().join("net.toml");
    let mut key = String::new();
    for line in typed("## A config") {
        let said = guardian.succeeds(&line);
        if line.contains("keygen") {
            let hex = |word: &&str| word.len() == 64 && word.chars().all(|c| c.is_ascii_hexdigit());
            said.split_whitespace().find(hex).unwrap().clone_into(&mut key);
        }
        if line.contains("config example") {
            let text = std::fs::read_to_string(&path).unwrap();
            let first = text.lines().find_map(|line| line.trim().strip_prefix('"')).unwrap();
            let text = text.replace(&first[..64], &key);
            std::fs::write(&path, text.replace("threshold = 2", "threshold = 1")).unwrap();
        }
    }
    let text = std::fs::read_to_string(&path).unwrap();
    let lines = text.lines().filter(|line| !line.trim().starts_with("base_round"));
    let next = lines.collect::<Vec<_>>().join("\n").replace("seq = 0", "seq = 1");
    let next = next.replace("2026-11-01T00:00:00Z", "2026-12-01T00:00:00Z");
    std::fs::write(guardian.folder.path().join("next.toml"), next).unwrap();
    for line in typed("## Changing a config") {
        guardian.succeeds(&line);
    }
    let chain = guardian.succeeds("mezza mixnet config verify net.cfg next.cfg");
    assert!(!chain.is_empty());
}

/// The commands of `mezza` below a heading, as they run for a user who is not that of the unit.
fn typed_at_home(guide: &str, heading: &str, folders: &[(&str, &str)]) -> Vec<String> {
    let shown = commands(&file(guide), heading).into_iter().map(|(line, _)| line);
    let ours = shown.filter_map(|line| {
        let line = line.strip_prefix("sudo -u mezza-relay ").unwrap_or(&line).to_owned();
        let line = line.strip_prefix("sudo -u mezza-mixnet ").unwrap_or(&line).to_owned();
        line.starts_with("mezza ").then_some(line)
    });
    ours.map(|line| folders.iter().fold(line, |line, (from, to)| line.replace(from, to))).collect()
}

#[test]
fn cli_9_the_guide_to_a_relay_works() {
    const GUIDE: &str = "docs/guide/relay.md";
    let place = format!("127.0.0.1:{}", crate::program::free_port());
    let folders = [
        ("/var/lib/mezza/relay", "relay"),
        ("0.0.0.0:7101", &place),
        ("relay.example:7101", &place),
    ];
    let mut owner = Reader::new();
    let mut addresses = 0;
    for line in typed_at_home(GUIDE, "## On a server with Debian", &folders) {
        let said = owner.succeeds(&line);
        addresses += usize::from(said.starts_with("mezzavoce:r1/"));
        if line.contains("relay init") {
            assert!(said.contains("relay run`"), "{said}");
        }
    }
    assert_eq!(addresses, 2, "of the unit's relay, and of the own one");
    for line in typed_at_home(GUIDE, "## Looking after it", &folders) {
        let output = owner.types(&line);
        let said = String::from_utf8(output.stdout).unwrap();
        // The relay of the unit does not run here, and `doctor` says so.
        assert_eq!(output.status.success(), !line.ends_with("doctor"), "{line}: {said}");
        assert!(said.contains("does not run"), "{said}");
    }
}

#[test]
fn cli_9_the_keys_of_the_guide_to_a_mixnet_are_made() {
    let mut operator = Reader::new();
    let folders = [("/var/lib/mezza/mixnet", "mixnet")];
    std::fs::create_dir(operator.folder.path().join("mixnet")).unwrap();
    let lines = typed_at_home(GUIDE, "## Running the servers", &folders);
    let keys = lines.iter().filter(|line| line.contains("keygen"));
    assert_eq!(
        keys.clone().map(|line| operator.succeeds(line)).filter(|said| !said.is_empty()).count(),
        3
    );
}
