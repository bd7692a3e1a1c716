//! Guardians sign configs, and nobody else does.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use mezza::testing::process::rng::OsRng;
use mezza::testing::servers::mixnet::key::ServerKey;
use mezza::testing::servers::mixnet::written::EXAMPLE;

use crate::program::{json, mezza, ok};

/// A key file, and its public half.
fn key(folder: &Path, name: &str) -> (PathBuf, String) {
    let path = folder.join(name);
    let key = ServerKey::make(&path, &mut OsRng).unwrap();
    (path, data_encoding::HEXLOWER.encode(&key.public()))
}

/// The example with three guardians of our own, and their files.
fn written(folder: &Path) -> (String, [PathBuf; 3]) {
    let keys = ["a.key", "b.key", "c.key"].map(|name| key(folder, name));
    let mut text = EXAMPLE.to_owned();
    let old: Vec<&str> = EXAMPLE
        .lines()
        .filter_map(|line| line.trim().strip_prefix('"'))
        .map(|l| &l[..64])
        .collect();
    assert_eq!(old.len(), 3);
    for (old, (_, new)) in old.iter().zip(&keys) {
        text = text.replace(old, new);
    }
    (text, keys.map(|(path, _)| path))
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn mix_2_two_of_three_guardians_sign_and_a_successor_follows() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    let (text, guardians) = written(home);
    let toml = home.join("net.toml");
    let first = home.join("net.cfg");
    std::fs::write(&toml, &text).unwrap();
    ok(home, &["mixnet", "config", "new", path(&toml), "--out", path(&first)]);
    let sign = |file: &Path, key: &Path, more: &[&str]| {
        let args = ["mixnet", "config", "sign", path(file), "--key", path(key), "--yes"];
        ok(home, &[&args[..], more].concat())
    };
    let shown = sign(&first, &guardians[0], &[]);
    assert!(shown.contains("guardian ") && shown.contains("1 of 2"), "{shown}");
    let verify = |files: &[&Path]| {
        let files = files.iter().map(|file| path(file));
        mezza(home, &["mixnet", "config", "verify"].into_iter().chain(files).collect::<Vec<_>>())
    };
    let refused = verify(&[&first]);
    assert_eq!(refused.status.code(), Some(1));
    let expected = "mezza: config: 1 of 2 needed guardian signatures is valid; ask another \
                    guardian to run `mezza mixnet config sign net.cfg`\n";
    assert_eq!(String::from_utf8(refused.stderr).unwrap(), expected);
    sign(&first, &guardians[2], &[]);
    assert!(verify(&[&first]).status.success());

    let shown = json(home, &["mixnet", "config", "show", path(&first)]);
    let hash = shown[0]["hash"].as_str().unwrap();
    let next = text
        .replace("seq = 0", "seq = 1")
        .replace("# prev = \"..\"", &format!("prev = \"{hash}\""))
        .replace("2026-11-01T00:00:00Z", "2026-12-01T00:00:00Z")
        .replace("base_round = 1", "base_round = 1_000_000");
    let toml = home.join("next.toml");
    let second = home.join("next.cfg");
    std::fs::write(&toml, next).unwrap();
    ok(home, &["mixnet", "config", "new", path(&toml), "--out", path(&second)]);
    for guardian in &guardians[..2] {
        sign(&second, guardian, &["--after", path(&first)]);
    }
    assert!(verify(&[&first, &second]).status.success());
    assert_eq!(verify(&[&second, &first]).status.code(), Some(1), "the first comes first");
}

/// The network of the example, and its successor: later, with another operator of the third mix. The
/// files of both, the hash of the first one, and a guardian's key.
fn two_configs(home: &Path) -> ([PathBuf; 2], String, PathBuf) {
    let (text, [guardian, ..]) = written(home);
    let make = |name: &str, text: &str| {
        let toml = home.join(format!("{name}.toml"));
        let file = home.join(format!("{name}.cfg"));
        std::fs::write(&toml, text).unwrap();
        ok(home, &["mixnet", "config", "new", path(&toml), "--out", path(&file)]);
        file
    };
    let first = make("first", &text);
    let hash = hash(home, &first);
    let next = text
        .replace("seq = 0", "seq = 1")
        .replace("# prev = \"..\"", &format!("prev = \"{hash}\""))
        .replace("2026-11-01T00:00:00Z", "2026-12-01T00:00:00Z")
        .replace("base_round = 1", "base_round = 1_000_000")
        .replace("Cleo", "Eve");
    ([first, make("next", &next)], hash, guardian)
}

fn hash(home: &Path, file: &Path) -> String {
    let shown = json(home, &["mixnet", "config", "show", path(file)]);
    shown[0]["hash"].as_str().unwrap().into()
}

#[test]
fn mix_48_a_guardian_sees_what_a_config_changes_and_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    let ([first, next], before, key) = two_configs(home);
    let unsigned = std::fs::read(&next).unwrap();
    let blind = ["mixnet", "config", "sign", path(&next), "--key", path(&key)];
    let seeing = [&blind[..], &["--after", path(&first)]].concat();
    let says = |args: &[&str], code, expected: &str| {
        let output = mezza(home, args);
        assert_eq!(output.status.code(), Some(code));
        assert_eq!(String::from_utf8(output.stderr).unwrap(), expected);
        assert_eq!(std::fs::read(&next).unwrap(), unsigned, "it is as it was");
        String::from_utf8(output.stdout).unwrap()
    };
    let file = next.display();
    let expected = format!(
        "mezza: {file} changes another config, and only what it changes is shown; name the config \
         before it with `--after`\n"
    );
    assert_eq!(says(&blind, 2, &expected), "");
    // The test has no terminal.
    let expected = "mezza: nobody is here to say whether this is to be signed; read it, then say \
                    so with `--yes`\n";
    let shown = says(&seeing, 2, expected);
    let expected = format!(
        "\
hash     {}
changes  config 0, {before}
- config   0, the first of its network
- from     2026-11-01 00:00Z (1793491200000 ms)
- mix 2    operator \"Cleo\"
- talk     round 1 opens 2026-11-01 00:00Z (1793491200000 ms), then one every 5000 ms
- call     round 1 opens 2026-11-01 00:00Z (1793491200000 ms), then one every 60000 ms
- invite   round 1 opens 2026-11-01 00:00Z (1793491200000 ms), then one every 3600000 ms
+ config   1, behind {before}
+ from     2026-12-01 00:00Z (1796083200000 ms)
+ mix 2    operator \"Eve\"
+ talk     round 1000000 opens 2026-12-01 00:00Z (1796083200000 ms), then one every 5000 ms
+ call     round 1000000 opens 2026-12-01 00:00Z (1796083200000 ms), then one every 60000 ms
+ invite   round 1000000 opens 2026-12-01 00:00Z (1796083200000 ms), then one every 3600000 ms
as before: the other 34 lines of `mezza mixnet config show`
",
        hash(home, &next)
    );
    let changes: String = shown.split_inclusive('\n').take(15).collect();
    assert_eq!(changes, expected);
    assert!(shown.lines().nth(15).unwrap().ends_with("MB a client and day"), "{shown}");
    let signed = ok(home, &[&seeing[..], &["--yes"]].concat());
    assert_eq!(signed, format!("{shown}signed: 1 of 2 needed guardian signatures\n"));
}

#[test]
fn mix_48_what_a_person_says_on_a_terminal_decides() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    let ([first, _], _, key) = two_configs(home);
    let unsigned = std::fs::read(&first).unwrap();
    let program = env!("CARGO_BIN_EXE_mezza");
    let sign = format!("{program} mixnet config sign {} --key {}", path(&first), path(&key));
    let answered = |answer: &str| {
        let mut script = Command::new("script")
            .args(["-qec", &sign, "/dev/null"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        script.stdin.as_mut().unwrap().write_all(answer.as_bytes())?;
        script.wait_with_output()
    };
    let Ok(output) = answered("n\n") else {
        println!("SKIPPED a question on a terminal: no `script`; apt install bsdutils");
        return;
    };
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("Sign this? [y/N]") && said.contains("nothing was signed"), "{said}");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(std::fs::read(&first).unwrap(), unsigned);
    let said = String::from_utf8(answered("y\n").unwrap().stdout).unwrap();
    assert!(said.contains("signed: 1 of 2"), "{said}");
    assert_ne!(std::fs::read(&first).unwrap(), unsigned);
}

/// A successor that begins in the past and has longer intervals would use numbers of rounds again that
/// were run meanwhile. Both commands refuse it by name, and the first one computes what goes on.
#[test]
fn mix_86_a_late_successor_with_longer_intervals_counts_on() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    let (text, [guardian, other, _]) = written(home);
    let text = text.replace("2026-11-01", "2020-01-01").replace("2027-11-01", "2099-11-01");
    let put = |name: &str, text: &str| {
        let toml = home.join(format!("{name}.toml"));
        std::fs::write(&toml, text).unwrap();
        (toml, home.join(format!("{name}.cfg")))
    };
    let (toml, first) = put("first", &text);
    ok(home, &["mixnet", "config", "new", path(&toml), "--out", path(&first)]);
    let sign = |file: &Path, key: &Path, more: &[&str]| {
        let args = ["mixnet", "config", "sign", path(file), "--key", path(key), "--yes"];
        mezza(home, &[&args[..], more].concat())
    };
    for key in [&guardian, &other] {
        assert!(sign(&first, key, &[]).status.success());
    }
    // In February 2020 the one before was at 535,681, and now it is beyond 41 million.
    let slower = text
        .replace("seq = 0", "seq = 1")
        .replace("valid_from = 2020-01-01", "valid_from = 2020-02-01")
        .replace("interval = 5_000", "interval = 20_000");
    let prev = format!("prev = \"{}\"", hash(home, &first));
    let low = slower.replace("# prev = \"..\"", &prev);
    let low = low.replace("base_round = 1\n", "base_round = 1_000_000\n");
    let (toml, file) = put("low", &low);
    ok(home, &["mixnet", "config", "new", path(&toml), "--out", path(&file)]);
    let after = ["--after", path(&first)];
    let refused = sign(&file, &guardian, &after);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("as it begins in the past; set `base_round = 4"), "{said}");
    let set = said.split('`').find(|part| part.starts_with("base_round")).unwrap();
    let refused = mezza(home, &[&["mixnet", "config", "new", path(&toml)], &after[..]].concat());
    assert_eq!(refused.status.code(), Some(1));

    // The value that was named, once; or none at all, and `prev` neither.
    let named = low.replacen("base_round = 1_000_000", set, 1);
    let none = slower.replace("base_round = 1\n", "");
    for (name, text) in [("named", &named), ("none", &none)] {
        let (toml, file) = put(name, text);
        let new = ["mixnet", "config", "new", path(&toml), "--out", path(&file)];
        ok(home, &[&new[..], &after[..]].concat());
        for key in [&guardian, &other] {
            let signed = sign(&file, key, &after);
            assert!(signed.status.success(), "{}", String::from_utf8_lossy(&signed.stderr));
        }
        ok(home, &["mixnet", "config", "verify", path(&first), path(&file)]);
        let made = std::fs::metadata(&file).unwrap().modified().unwrap();
        let since = made.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() - 1_577_836_800;
        let shown = json(home, &["mixnet", "config", "show", path(&file)]);
        let first = shown[0]["services"][0]["base_round"].as_u64().unwrap();
        assert!(first > 1 + since / 5, "{first}");
    }
    // Without the config before nothing can be computed.
    let (toml, _) = put("alone", &none);
    let refused = mezza(home, &["mixnet", "config", "new", path(&toml)]);
    assert_eq!(refused.status.code(), Some(65));
    assert!(String::from_utf8(refused.stderr).unwrap().contains("`--after`"));
}

#[test]
fn a_server_signs_no_config() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    let (server, public) = key(home, "m.key");
    let old = "8139770ea87d175f56a35466c34c7ecccb8d8a91b4ee37a25df60f5b8fc9b394";
    let toml = home.join("net.toml");
    let cfg = home.join("net.cfg");
    std::fs::write(&toml, EXAMPLE.replace(old, &public)).unwrap();
    // To standard output, as the guide says: the bytes there, the words elsewhere.
    let made = mezza(home, &["mixnet", "config", "new", path(&toml)]);
    assert!(String::from_utf8(made.stderr).unwrap().contains("hash     "));
    std::fs::write(&cfg, made.stdout).unwrap();
    let args = ["mixnet", "config", "sign", path(&cfg), "--key", path(&server)];
    let refused = mezza(home, &args);
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8(refused.stderr).unwrap().contains("the key of a server"));
}
