//! Input as people type it and as their editors change it: one form of it counts.

use std::path::Path;
use std::process::Output;

use crate::program::{Program, mezza, ok, passphrase};

/// Runs a command with the passphrase `text`.
fn with_passphrase(folder: &Path, home: &Path, args: &[&str], text: &str) -> Output {
    let file = passphrase(folder, text);
    mezza(home, &[args, &["--passphrase-file", file.to_str().unwrap()]].concat())
}

#[test]
fn vault_11_slow_a_file_with_a_byte_order_mark_and_a_keyboard_open_one_vault() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    let with = |args: &[&str], text| with_passphrase(folder.path(), &home, args, text);
    let made = with(&["init", "--name", "Nora"], "\u{feff}grün-zwölf-straße\r\n");
    assert!(made.status.success(), "{made:?}");
    let _node = Program::node(&home, &[], &[]);
    for typed in
        ["grün-zwölf-straße", "gru\u{308}n-zwo\u{308}lf-straße\n", "\u{feff}grün-zwölf-straße"]
    {
        let opened = with(&["unlock"], typed);
        assert!(opened.status.success(), "{typed:?}: {opened:?}");
        ok(&home, &["lock"]);
    }
    let wrong = with(&["unlock"], "grün-zwölf-strasse");
    assert_eq!(wrong.status.code(), Some(77));
    let said = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(said.contains("the passphrase is wrong") && !said.contains("head"), "{said}");
    std::fs::write(home.join("vault/head"), "no head").unwrap();
    let damaged = with(&["unlock"], "grün-zwölf-straße");
    assert_eq!(damaged.status.code(), Some(65));
    let said = String::from_utf8_lossy(&damaged.stderr).into_owned();
    assert!(said.contains("put the file `head` back"), "{said}");
}

#[test]
fn cli_8_a_card_is_read_from_whatever_file_an_editor_makes() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    let card = crate::cli::card_of("Zoë");
    let utf_16 = |order: fn(u16) -> [u8; 2]| -> Vec<u8> {
        format!("\u{feff}{card}\r\n").encode_utf16().flat_map(order).collect()
    };
    let files = [
        ("mark", format!("\u{feff}{card}\r\n").into_bytes()),
        ("little", utf_16(u16::to_le_bytes)),
        ("big", utf_16(u16::to_be_bytes)),
        ("spaces", format!("\u{a0}{}\u{200b}\n {}", &card[..40], &card[40..]).into_bytes()),
    ];
    for (name, bytes) in files {
        let file = folder.path().join(name);
        std::fs::write(&file, bytes).unwrap();
        let shown = ok(&home, &["card", "show", file.to_str().unwrap()]);
        assert!(shown.starts_with("name     Zoë (its own claim)"), "{name}: {shown}");
    }
    let settings = folder.path().join("settings");
    std::fs::create_dir(&settings).unwrap();
    std::fs::write(settings.join("config.toml"), "\u{feff}web_port = 7333\n").unwrap();
    assert!(ok(&settings, &["config", "print"]).contains("web_port = 7333"));
}
