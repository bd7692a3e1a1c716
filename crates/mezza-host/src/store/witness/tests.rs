//! Tests which events the witness detects, and which it takes for a crash.

use std::fs;

use super::super::failed::{Folder, faults, fresh, noon, put};
use super::*;
use crate::process::home::failing::{Failing, WriteStep};
use nix::errno::Errno;

/// A vault with its witness in a separate folder.
struct Life {
    folder: Folder,
    state: tempfile::TempDir,
    vault: Option<Vault>,
    witness: Witness,
}

impl Life {
    fn new() -> Self {
        let (folder, vault) = fresh();
        let state = tempfile::tempdir().unwrap();
        let witness = Witness::open_for(&state.path().join("mezza"), &vault, &[]);
        Self { folder, state, vault: Some(vault), witness }
    }

    fn commit(&mut self, batch: WriteBatch) -> Result<(), Fault> {
        let vault = self.vault.as_mut().unwrap();
        let mut batches = vec![batch];
        batches.extend(self.witness.before_commit(&batches)?);
        vault.commit(&batches)?;
        self.witness.after_commit()
    }

    /// Stores a row like a round of the mixnet's client.
    fn round(&mut self) -> Result<(), Fault> {
        let kind = RecordKind::NetworkRow;
        let value = Wiping::new(vec![7]);
        let bucket = Retention::Rolling;
        self.commit(WriteBatch(vec![RecordChange::Put { kind, key: vec![1], bucket, value }]))
    }

    /// Ends the process and opens the vault from `folder`, or from its old place.
    fn reopen(&mut self, folder: Option<Folder>) {
        self.vault = None;
        if let Some(folder) = folder {
            self.folder = folder;
        }
        let (vault, records) = self.folder.open(noon());
        self.witness = Witness::open_for(&self.state.path().join("mezza"), &vault, &records);
        self.vault = Some(vault);
    }

    fn is_doubted_with(&mut self, folder: Folder) -> bool {
        self.reopen(Some(folder));
        self.witness.is_doubted()
    }

    fn file(&self) -> PathBuf {
        self.witness.path.clone()
    }
}

#[test]
fn msg_63_an_older_vault_is_noticed_and_the_newest_is_not() {
    let mut life = Life::new();
    let before = life.folder.copy();
    life.commit(put(1, Retention::Permanent, b"no round")).unwrap();
    assert!(!life.file().exists(), "nothing is left of a home without a mixnet");
    life.round().unwrap();
    let first = life.folder.copy();
    for _ in 0..BLOCK {
        life.round().unwrap();
    }
    let second = life.folder.copy();
    life.reopen(None);
    assert!(!life.witness.is_doubted());
    life.round().unwrap();
    let newest = life.folder.copy();
    for older in [before, first, second] {
        assert!(life.is_doubted_with(older));
        // Without the user's decision the doubt stays.
        life.round().unwrap();
        life.reopen(None);
        assert!(life.witness.is_doubted());
    }
    assert!(!life.is_doubted_with(newest));
}

/// The relay issues keys that an older copy lacks.
#[test]
fn msg_91_new_prekeys_move_the_witness_on() {
    let mut life = Life::new();
    life.round().unwrap();
    life.reopen(None);
    let older = life.folder.copy();
    let kind = RecordKind::Prekey;
    let value = Wiping::new(vec![7]);
    let bucket = Retention::Rolling;
    life.commit(WriteBatch(vec![RecordChange::Put { kind, key: vec![1], bucket, value }])).unwrap();
    assert!(life.is_doubted_with(older));
}

#[test]
fn msg_63_the_person_decides_once() {
    let mut life = Life::new();
    life.round().unwrap();
    let older = life.folder.copy();
    life.reopen(None);
    life.round().unwrap();
    let newest = life.folder.copy();
    assert!(life.is_doubted_with(older));
    let claim = life.witness.accept_doubt().unwrap().expect("there is a doubt");
    life.vault.as_mut().unwrap().commit(&[claim]).unwrap();
    life.witness.after_commit().unwrap();
    assert!(!life.witness.is_doubted() && life.witness.accept_doubt().unwrap().is_none());
    life.reopen(None);
    assert!(!life.witness.is_doubted());
    // The vault in the old folder is now the older copy.
    assert!(life.is_doubted_with(newest));
}

#[test]
fn a_block_is_so_many_commits_of_rows() {
    let mut life = Life::new();
    let row = || {
        let value = Wiping::new(vec![7]);
        let kind = RecordKind::NetworkRow;
        let key = vec![1];
        let bucket = Retention::Rolling;
        [WriteBatch(vec![RecordChange::Put { kind, key, bucket, value }])]
    };
    for commit in 0..=2 * BLOCK {
        let claim = life.witness.before_commit(&row()).unwrap();
        assert_eq!(claim.is_some(), commit % BLOCK == 0, "{commit}");
        life.witness.after_commit().unwrap();
        // Rows of other kinds do not count towards a block.
        assert!(
            life.witness.before_commit(&[put(1, Retention::Permanent, b"none")]).unwrap().is_none()
        );
        life.witness.after_commit().unwrap();
    }
    assert_eq!(life.witness.block, 3);
}

#[test]
fn an_open_claim_is_no_doubt_and_the_block_behind_it_is() {
    let mut life = Life::new();
    life.round().unwrap();
    assert_eq!(life.witness.block, 1);
    let cases =
        [(1, true, false), (1, false, false), (2, false, false), (2, true, true), (3, false, true)];
    for (block, settled, doubted) in cases {
        life.witness.write_block(block, settled).unwrap();
        life.reopen(None);
        assert_eq!(life.witness.is_doubted(), doubted, "{block} {settled}");
        assert_eq!(life.witness.block, 1);
    }
}

#[test]
fn a_vault_without_its_witness_is_doubted() {
    let mut life = Life::new();
    life.round().unwrap();
    let bytes = fs::read(life.file()).unwrap();
    let mut damaged = bytes.clone();
    damaged[30] ^= 1;
    let longer = [bytes.as_slice(), &[0]].concat();
    for wrong in [&damaged[..], &longer, &bytes[1..], b""] {
        fs::write(life.file(), wrong).unwrap();
        life.reopen(None);
        assert!(life.witness.is_doubted());
    }
    fs::remove_file(life.file()).unwrap();
    life.reopen(None);
    assert!(life.witness.is_doubted());
    fs::write(life.file(), bytes).unwrap();
    private::replace(&life.file(), &fs::read(life.file()).unwrap()).unwrap();
    life.reopen(None);
    assert!(!life.witness.is_doubted());
}

#[test]
fn slow_failed_witness_is_no_doubt_and_hides_none() {
    let commits = [(WriteStep::Commit, Errno::ENOSPC)];
    for ((step, error), after) in faults().chain(commits).flat_map(|fault| [(fault, 0), (fault, 1)])
    {
        let mut life = Life::new();
        life.round().unwrap();
        let older = life.folder.copy();
        life.reopen(None);
        let failing = Failing::after(after, step, error);
        let failed = life.round().is_err();
        assert!(failed || (step, after) == (WriteStep::Commit, 1), "{step:?} {after}");
        drop(failing);
        life.reopen(None);
        assert!(!life.witness.is_doubted(), "{step:?} {error} {after}");
        life.round().unwrap();
        life.reopen(None);
        assert!(!life.witness.is_doubted(), "{step:?} {error} {after}");
        assert!(life.is_doubted_with(older), "{step:?} {error} {after}");
    }
}
