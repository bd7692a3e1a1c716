//! Guardians sign configs, and nobody else does.

use std::path::{Path, PathBuf};

use mezza::mixnet::key::Key;
use mezza::mixnet::written::EXAMPLE;
use mezza::rng::OsRng;

use crate::program::{json, mezza, ok};

/// A key file, and its public half.
fn key(folder: &Path, name: &str) -> (PathBuf, String) {
    let path = folder.join(name);
    let key = Key::make(&path, &mut OsRng).unwrap();
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
    let (toml, first) = (home.join("net.toml"), home.join("net.cfg"));
    std::fs::write(&toml, &text).unwrap();
    ok(home, &["mixnet", "config", "new", path(&toml), "--out", path(&first)]);
    let sign = |file: &Path, key: &Path, more: &[&str]| {
        let args = ["mixnet", "config", "sign", path(file), "--key", path(key)];
        ok(home, &[&args[..], more].concat())
    };
    assert!(sign(&first, &guardians[0], &[]).contains("1 of 2"));
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
    let (toml, second) = (home.join("next.toml"), home.join("next.cfg"));
    std::fs::write(&toml, next).unwrap();
    ok(home, &["mixnet", "config", "new", path(&toml), "--out", path(&second)]);
    for guardian in &guardians[..2] {
        sign(&second, guardian, &["--after", path(&first)]);
    }
    assert!(verify(&[&first, &second]).status.success());
    assert_eq!(verify(&[&second, &first]).status.code(), Some(1), "the first comes first");
}

#[test]
fn a_server_signs_no_config() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    let (server, public) = key(home, "m.key");
    let old = "8139770ea87d175f56a35466c34c7ecccb8d8a91b4ee37a25df60f5b8fc9b394";
    let (toml, cfg) = (home.join("net.toml"), home.join("net.cfg"));
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
