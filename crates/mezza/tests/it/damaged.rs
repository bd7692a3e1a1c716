//! A vault that an older version damaged opens, and what was in it is there.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use nix::sys::signal::Signal;

use mezza::testing::api::json::Health;

use crate::program::{Program, json, mixnet_status, ok, passphrase};

/// How the fixture was made stands in its README.
const FILES: [(&str, &[u8]); 3] = [
    ("head", include_bytes!("../damaged/head")),
    ("keyring", include_bytes!("../damaged/keyring")),
    ("records.db", include_bytes!("../damaged/records.db")),
];

/// A home with the vault in it.
fn unpack(home: &Path) {
    let vault = home.join("vault");
    fs::create_dir_all(&vault).unwrap();
    for folder in [home, &vault] {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).unwrap();
    }
    for (name, bytes) in FILES {
        mezza::testing::process::home::private::replace(&vault.join(name), bytes).unwrap();
    }
}

/// The client reads rows that descend, so that nothing is quarantined: the network is there.
#[test]
fn slow_a_vault_whose_mixnet_rows_are_out_of_order_opens() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("a");
    unpack(&home);
    let pass = passphrase(folder.path(), "correct horse battery staple six");
    let pass = ["--passphrase-file", pass.to_str().unwrap()];
    for _ in 0..2 {
        let mut node = Program::node(&home, &pass, &[]);
        assert!(ok(&home, &["node", "status"]).contains("running as"));
        assert!(ok(&home, &["card"]).starts_with("mezzavoce:"));
        assert_eq!(json(&home, &["contacts"]).len(), 1, "an answer, whoever is in it");
        let health: Health = node.client().unwrap().get("/v1/health").unwrap();
        let aside = health.lines.iter().find(|line| line.text.contains("could not be read"));
        assert!(aside.is_none(), "{}", aside.unwrap().text);
        let network = mixnet_status(&home)["network"].clone();
        assert_eq!(network, "00112233445566778899aabbccddeeff");
        assert_eq!(node.stop(Signal::SIGTERM).0, Some(0), "{}", node.log());
        println!("{}", node.log());
    }
}
