//! Changes of the passphrase on a disk that fails at each step.

use std::path::PathBuf;

use tempfile::TempDir;

use super::*;
use crate::process::home::failing::{Failing, WriteStep};
use crate::process::rng::OsRng;

const OLD: &[u8] = b"the old passphrase";
const NEW: &[u8] = b"the new passphrase";

/// Makes a folder with a head, and a key derived from its master key.
fn made() -> (TempDir, PathBuf, Secret<32>) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("head");
    let master = MasterKey::draw(&mut OsRng);
    let head = VaultHeader::seal(&master, OLD, Argon2Params::OF_TESTS, &mut OsRng).unwrap();
    private::replace(&path, &head.encode()).unwrap();
    (folder, path, master.derive("a test"))
}

/// Returns true if this passphrase opens the head, with the same master key.
fn opens(path: &Path, pass: &[u8], key: &Secret<32>) -> bool {
    unlock_master(path, pass).is_ok_and(|master| master.derive("a test") == *key)
}

#[test]
fn vault_10_after_the_change_the_new_passphrase_opens_and_the_old_one_does_not() {
    let (_folder, path, key) = made();
    let before = read_head(&path).unwrap();
    let refused = change_passphrase(&path, b"a wrong passphrase", NEW, &mut OsRng).unwrap_err();
    assert_eq!(refused.code, Exit::Denied);
    assert_eq!(read_head(&path).unwrap(), before);
    change_passphrase(&path, OLD, NEW, &mut OsRng).unwrap();
    assert!(opens(&path, NEW, &key) && !opens(&path, OLD, &key));
    let after = read_head(&path).unwrap();
    assert_eq!(after.len(), before.len());
    assert_ne!(after[20..FRONT_BYTES], before[20..FRONT_BYTES], "the salt is another one");
}

#[test]
fn vault_10_slow_a_crash_at_any_step_leaves_a_head_that_one_of_the_two_opens() {
    let (_folder, path, key) = made();
    let head = private::read(&path, HEAD_BYTES).unwrap();
    for step in WriteStep::REPLACE {
        private::replace(&path, &head).unwrap();
        let failing = Failing::after(0, step, step.errors()[0]);
        let fault = change_passphrase(&path, OLD, NEW, &mut OsRng).unwrap_err();
        drop(failing);
        assert_eq!(fault.code, Exit::CannotWrite, "{step:?}");
        assert!(fault.next.contains("both passphrases"), "{fault}");
        // The present file, with possible remainders of the attempt: the old bytes, or new ones.
        let is_old = private::read(&path, HEAD_BYTES).unwrap() == head;
        assert!(is_old || opens(&path, NEW, &key), "{step:?}");
    }
    // A failed write, followed by a successful one.
    private::replace(&path, &head).unwrap();
    let failing = Failing::after(0, WriteStep::Write, WriteStep::Write.errors()[0]);
    assert!(change_passphrase(&path, OLD, NEW, &mut OsRng).is_err());
    drop(failing);
    change_passphrase(&path, OLD, NEW, &mut OsRng).unwrap();
    assert!(opens(&path, NEW, &key));
}

/// The head is made by this version, or by an older one with only the 182 bytes. Each write and
/// sync of a change fails once: one of the two passphrases opens the head, and after the next start
/// no byte of the original file is left.
#[test]
fn vault_16_slow_a_passphrase_that_was_changed_leaves_no_head_that_opens_with_the_old_one() {
    for (is_old, step, after) in [false, true].into_iter().flat_map(|is_old| {
        let steps = [WriteStep::Write, WriteStep::Sync].into_iter();
        steps.flat_map(move |step| (0..4).map(move |after| (is_old, step, after)))
    }) {
        let (_folder, path, key) = made();
        let old = read_head(&path).unwrap();
        if !is_old {
            put_head(&path, &old).unwrap();
        }
        let file = std::fs::File::open(&path).unwrap();
        let failing = Failing::after(after, step, step.errors()[0]);
        let changed = change_passphrase(&path, OLD, NEW, &mut OsRng).is_ok();
        drop(failing);
        settle_head(&path).unwrap();
        let [opens_old, opens_new] = [OLD, NEW].map(|pass| opens(&path, pass, &key));
        assert!(opens_old != opens_new, "{is_old} {step:?} {after}");
        assert!(!changed || opens_new, "{is_old} {step:?} {after}: it was acknowledged");
        if opens_old {
            change_passphrase(&path, OLD, NEW, &mut OsRng).unwrap();
        }
        let mut all = vec![0; file.metadata().unwrap().len() as usize];
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut all, 0).unwrap();
        let salt = &old[20..FRONT_BYTES];
        assert!(!all.windows(salt.len()).any(|window| window == salt), "{is_old} {step:?} {after}");
        assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }
}

const FORMS: [&str; 3] =
    ["grün-zwölf-straße", "gru\u{308}n-zwo\u{308}lf-straße", "\u{feff}grün-zwölf-straße"];

fn is_opened_by(head: &VaultHeader, pass: &str) -> bool {
    head.open(pass.as_bytes()).unwrap().is_some()
}

#[test]
fn vault_11_slow_a_passphrase_opens_however_it_is_typed() {
    let master = MasterKey::draw(&mut OsRng);
    for made in FORMS {
        let cost = Argon2Params::OF_TESTS;
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
        let pass = made.as_bytes();
        let cost = Argon2Params::OF_TESTS;
        let head = VaultHeader::seal_as_typed(&master, pass, cost, &mut OsRng).unwrap();
        assert!(is_opened_by(&head, made), "{made:?}");
    }
}
