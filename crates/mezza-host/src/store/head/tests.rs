//! Another passphrase, on a disk that fails at each step.

use std::path::PathBuf;

use tempfile::TempDir;

use super::*;
use crate::process::home::failing::{Failing, WriteStep};
use crate::process::rng::OsRng;

const OLD: &[u8] = b"the old passphrase";
const NEW: &[u8] = b"the new passphrase";

/// A folder with a head, and a key that comes of its master key.
fn made() -> (TempDir, PathBuf, Secret<32>) {
    let folder = TempDir::new().unwrap();
    let (path, master) = (folder.path().join("head"), MasterKey::draw(&mut OsRng));
    let head = VaultHeader::seal(&master, OLD, Argon2Params::DEMO, &mut OsRng).unwrap();
    private::replace(&path, &head.encode()).unwrap();
    (folder, path, master.derive("a test"))
}

/// Whether this passphrase opens the head, to the same master key.
fn opens(path: &Path, pass: &[u8], key: &Secret<32>) -> bool {
    unlock(path, pass).is_ok_and(|master| master.derive("a test") == *key)
}

#[test]
fn vault_10_after_the_change_the_new_passphrase_opens_and_the_old_one_does_not() {
    let (_folder, path, key) = made();
    let before = private::read(&path, HEAD_BYTES).unwrap();
    let refused = change(&path, b"a wrong passphrase", NEW, &mut OsRng).unwrap_err();
    assert_eq!(refused.code, Exit::Denied);
    assert_eq!(private::read(&path, HEAD_BYTES).unwrap(), before);
    change(&path, OLD, NEW, &mut OsRng).unwrap();
    assert!(opens(&path, NEW, &key) && !opens(&path, OLD, &key));
    let after = private::read(&path, HEAD_BYTES).unwrap();
    assert_eq!(after.len(), before.len());
    assert_ne!(after[20..FRONT_BYTES], before[20..FRONT_BYTES], "the salt is another one");
}

#[test]
fn vault_10_a_crash_at_any_step_leaves_a_head_that_one_of_the_two_opens() {
    let (_folder, path, key) = made();
    let head = private::read(&path, HEAD_BYTES).unwrap();
    for step in WriteStep::REPLACE {
        private::replace(&path, &head).unwrap();
        let failing = Failing::after(0, step, step.errors()[0]);
        let fault = change(&path, OLD, NEW, &mut OsRng).unwrap_err();
        drop(failing);
        assert_eq!(fault.code, Exit::CannotWrite, "{step:?}");
        assert!(fault.next.contains("both passphrases"), "{fault}");
        // As it lies there now, with whatever the attempt left beside it: the old bytes, or new ones.
        let is_old = private::read(&path, HEAD_BYTES).unwrap() == head;
        assert!(is_old || opens(&path, NEW, &key), "{step:?}");
    }
    // A failed write followed by one that succeeds.
    private::replace(&path, &head).unwrap();
    let failing = Failing::after(0, WriteStep::Write, WriteStep::Write.errors()[0]);
    assert!(change(&path, OLD, NEW, &mut OsRng).is_err());
    drop(failing);
    change(&path, OLD, NEW, &mut OsRng).unwrap();
    assert!(opens(&path, NEW, &key));
}

const FORMS: [&str; 3] =
    ["grün-zwölf-straße", "gru\u{308}n-zwo\u{308}lf-straße", "\u{feff}grün-zwölf-straße"];

fn is_opened_by(head: &VaultHeader, pass: &str) -> bool {
    head.open(pass.as_bytes()).unwrap().is_some()
}

#[test]
fn vault_11_a_passphrase_opens_however_it_is_typed() {
    let master = MasterKey::draw(&mut OsRng);
    for made in FORMS {
        let cost = Argon2Params::DEMO;
        let head = VaultHeader::seal(&master, made.as_bytes(), cost, &mut OsRng).unwrap();
        for typed in FORMS {
            assert!(is_opened_by(&head, typed), "{made:?} {typed:?}");
        }
        assert!(
            !is_opened_by(&head, "grun-zwolf-strasse") && !is_opened_by(&head, "Grün-zwölf-straße")
        );
    }
}

#[test]
fn vault_11_a_vault_of_an_older_version_opens_with_what_was_typed_then() {
    let master = MasterKey::draw(&mut OsRng);
    for made in FORMS {
        let (pass, cost) = (made.as_bytes(), Argon2Params::DEMO);
        let head = VaultHeader::seal_as_typed(&master, pass, cost, &mut OsRng).unwrap();
        assert!(is_opened_by(&head, made), "{made:?}");
    }
}
