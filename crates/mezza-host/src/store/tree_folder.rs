//! A key tree of `hibe` in its own folder, without a device.
//!
//! ```text
//! DIR/         0700
//!   head       0600   the master key under the passphrase, as a vault's       (module `head`)
//!   keyring    0600   two slots (module `slots`) of
//!                     generation u64 | nonce[24] | XChaCha20-Poly1305(ring key, keyring of hibe)
//!   rec/       0700   a record an entry of the stack: GENERATION-START-KIND
//!   card       0600   the card block, public
//!   lock       0600
//! STATE/hibe/PKH      0600   the last generation that was stored, outside of the folder
//! ```
//!
//! The ring key is keyed BLAKE2b-256(MK, "mezza/hibe/ring"), the additional data "mezza/hibe/ring"
//! and the generation. A keyring older than the generation in STATE is refused (HIBE-31).

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use mezza_core::{CryptoRng, Secret};
use mezza_hibe::wire::card::CARD_BLOCK_BYTES;
use mezza_hibe::{
    BlockPolicy, CardBlock, Delta, EntryKind, Epoch, ImportError, KeyTree, RecordName, Shape,
    System, Tick, TreeError, TreeProfile,
};

use super::aead::{self, NONCE_BYTES, SEAL_BYTES};
use super::argon::Argon2Params;
use super::head::{self, MasterKey, VaultHeader};
use crate::api::{Exit, Fault};
use crate::process::folder::{Folder, FolderLimits, FolderStep};
use crate::process::home::private;
use crate::process::slots::{Overwriting, SlotFile};

const HEAD: &str = "head";
const RING: &str = "keyring";
const CARD: &str = "card";
/// The subfolder of the state folder for generations.
const STATE: &str = "hibe";
/// The purpose of the ring key, and the label of the additional data.
const PURPOSE: &str = "mezza/hibe/ring";
/// Free bytes that a disk needs for the records of an expansion.
const ROOM_BYTES: u64 = 1 << 20;
/// Bytes of a generation.
const GENERATION_BYTES: usize = 8;

/// Returns the limits of the folder of a tree. The keyring of a tree with several lives is longer.
const fn limits_of(shape: Shape) -> FolderLimits {
    let index_bytes = GENERATION_BYTES + SEAL_BYTES + shape.ring_bytes();
    FolderLimits { record_bytes: 4_096, index_bytes }
}

/// Returns the limits of an existing folder. The length of its keyring shows which kind of tree it
/// has.
fn found_limits(dir: &Path) -> FolderLimits {
    let lives = limits_of(Shape::Lives);
    let length = dir.join(RING).symlink_metadata().map_or(0, |found| found.len());
    let has_lives = SlotFile::is_slot_length(length, lives.index_bytes);
    if has_lives { lives } else { limits_of(Shape::Wide) }
}

/// A tree and its folder.
pub struct TreeFolder {
    folder: Folder,
    ring_key: Secret<32>,
    witness: PathBuf,
    /// The last stored generation, until the state folder has it.
    unremembered: Option<u64>,
    tree: KeyTree,
}

impl fmt::Debug for TreeFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TreeFolder")
    }
}

/// Parameters of a new tree.
#[derive(Clone, Copy, Debug)]
pub struct NewTree {
    /// One life or three.
    pub shape: Shape,
    /// The length of the epochs of a tree of one life.
    pub profile: TreeProfile,
    /// The earliest possible present tick.
    pub earliest: Tick,
    /// The Argon2id cost of the passphrase.
    pub cost: Argon2Params,
}

impl TreeFolder {
    /// Returns true if this folder holds a tree.
    pub fn exists(dir: &Path) -> bool {
        dir.join(HEAD).symlink_metadata().is_ok()
    }

    /// Returns the fault that this folder holds no tree.
    pub fn missing(dir: &Path) -> Fault {
        let text = format!("there is no tree in {}", dir.display());
        Fault::new(Exit::NotFound, text, "make one with `mezza hibe keygen --dir DIR`")
    }

    /// Returns the fault that this folder holds a tree already.
    pub fn occupied(dir: &Path) -> Fault {
        let text = format!("there is a tree in {} already", dir.display());
        Fault::new(Exit::CannotWrite, text, "choose another folder")
    }

    /// Makes a tree; the head is written last, and with it the tree exists. Remainders of an
    /// earlier attempt are deleted first.
    ///
    /// # Errors
    /// Exit code 73 if there is a tree already or the disk refuses, 75 and 77 as [`Folder::make`],
    /// 1 if the time is outside of every card's life.
    pub fn create(
        dir: &Path,
        state: &Path,
        pass: &[u8],
        new: NewTree,
        rng: &mut dyn CryptoRng,
    ) -> Result<Self, Fault> {
        let NewTree { shape, profile, earliest, cost } = new;
        let mut left = Folder::make(dir, RING, found_limits(dir))?;
        if Self::exists(dir) {
            return Err(Self::occupied(dir));
        }
        // Without a head there is no tree: the files were left by an earlier attempt, perhaps for a
        // tree of another size.
        left.delete_all()?;
        drop(left);
        let folder = Folder::make(dir, RING, limits_of(shape))?;
        let tree = KeyTree::create(&System::new(), shape, profile, earliest, rng);
        let tree = tree.map_err(tree_fault)?;
        let master = MasterKey::draw(rng);
        let head = VaultHeader::seal(&master, pass, cost, rng)?;
        let witness = witness_path(state, tree.card());
        let ring_key = master.derive(PURPOSE);
        let mut made = Self { folder, ring_key, witness, unremembered: None, tree };
        private::replace(&made.folder.path_beside(CARD), made.tree.card().as_bytes())?;
        made.store(rng)?;
        private::replace(&made.folder.path_beside(HEAD), &head.encode()).inspect_err(|_| {
            // The file may exist although its write failed, but the caller is told that there is no
            // tree.
            let _ = fs::remove_file(made.folder.path_beside(HEAD));
        })?;
        Ok(made)
    }

    /// Opens a tree.
    ///
    /// # Errors
    /// Exit code 66 if there is no tree, 65 if the tree is damaged or was replaced by an older
    /// copy, 75 if another process uses it, 77 for a wrong passphrase or wrong modes.
    pub fn open(dir: &Path, state: &Path, pass: &[u8]) -> Result<Self, Fault> {
        if !Self::exists(dir) {
            return Err(Self::missing(dir));
        }
        let folder = Folder::open(dir, RING, found_limits(dir))?;
        private::sweep_leftover(&folder.path_beside(HEAD))?;
        let master = head::unlock_master(&folder.path_beside(HEAD), pass)?;
        let ring_key = master.derive(PURPOSE);
        let card = private::read(&folder.path_beside(CARD), CARD_BLOCK_BYTES + 1)?;
        let card = CardBlock::decode(&card, BlockPolicy::Product)
            .map_err(|error| damage_fault(&format!("its card is damaged: {error}")))?;
        let witness = witness_path(state, &card);
        let ring = folder.read_index()?;
        let ring = ring.split_first_chunk::<GENERATION_BYTES>();
        let ring = ring.and_then(|(generation, sealed)| {
            let opened = aead::open(&ring_key, &aad(*generation), sealed)?;
            Some((u64::from_be_bytes(*generation), opened))
        });
        let (generation, ring) = ring.ok_or_else(|| damage_fault("its keyring is damaged"))?;
        let records = records_of(&folder, generation)?;
        let last = read_generation(&witness)?;
        let mut tree = KeyTree::import(&card, &ring, &records, last).map_err(import_fault)?;
        // The keyring is authoritative: records that it does not name are remainders of failed
        // steps and are deleted now, however many there are (HIBE-76).
        let orphans: Vec<String> = tree.take_orphans().iter().map(file_name).collect();
        folder.delete_records(&orphans);
        Ok(Self { folder, ring_key, witness, unremembered: None, tree })
    }

    /// Returns the tree.
    pub fn tree(&self) -> &KeyTree {
        &self.tree
    }

    /// Returns the tree for changes; [`store`](Self::store) makes them durable.
    pub fn tree_mut(&mut self) -> &mut KeyTree {
        &mut self.tree
    }

    /// Makes every change durable. After a failure the disk holds the old or the new state, and the
    /// next call includes the missing changes.
    ///
    /// # Errors
    /// Exit code 73 if the disk refuses.
    pub fn store(&mut self, rng: &mut dyn CryptoRng) -> Result<(), Fault> {
        let Some(Delta { generation, put, keyring, drop }) = self.tree.pending_delta() else {
            self.remember_generation();
            return Ok(());
        };
        let mut nonce = [0; NONCE_BYTES];
        rng.fill_bytes(&mut nonce);
        let number = generation.to_be_bytes();
        let sealed = aead::seal(&self.ring_key, &nonce, &aad(number), &keyring)?;
        let index = [number.as_slice(), &sealed].concat();
        let put: Vec<_> = put.into_iter().map(|(name, bytes)| (file_name(&name), bytes)).collect();
        let drop: Vec<_> = drop.iter().map(file_name).collect();
        self.folder.apply_step(&FolderStep { put: &put, index: &index, drop: &drop })?;
        self.tree.confirm_stored(generation);
        self.unremembered = Some(generation);
        self.remember_generation();
        Ok(())
    }

    /// Writes the generation to the state folder after the tree is on disk, so that a missing
    /// generation is never required. A failure does not fail the step, and is repeated with the
    /// next one.
    fn remember_generation(&mut self) {
        let Some(generation) = self.unremembered else { return };
        let folder = self.witness.parent().unwrap_or(Path::new("."));
        let number = generation.to_be_bytes();
        let done =
            private::make_folder(folder).and_then(|()| private::replace(&self.witness, &number));
        match done {
            Ok(()) => self.unremembered = None,
            Err(fault) => tracing::warn!(target: "mezza", "the last generation of a tree: {fault}"),
        }
    }

    /// Returns true if the disk has room for more records. Without room early expansion waits,
    /// since its records would delay the step that erases.
    pub fn has_room(&self) -> bool {
        self.folder.has_room(ROOM_BYTES)
    }

    /// Returns how the file system of a folder handles an overwritten keyring.
    pub fn overwriting(dir: &Path) -> Overwriting {
        Overwriting::from_path(dir)
    }

    /// Overwrites the keyring and deletes the folder.
    ///
    /// # Errors
    /// Exit code 73 if the disk refuses.
    pub fn wipe(dir: &Path) -> Result<(), Fault> {
        if !Self::exists(dir) {
            return Err(Self::missing(dir));
        }
        Folder::open(dir, RING, found_limits(dir))?.wipe_all(&[CARD, HEAD])
    }
}

/// Returns the path of the file with the generation of a tree.
fn witness_path(state: &Path, card: &CardBlock) -> PathBuf {
    state.join(STATE).join(HEXLOWER.encode(&card.hash().0[..16]))
}

/// Reads the remembered generation; 0 if there is none.
fn read_generation(witness: &Path) -> Result<u64, Fault> {
    if witness.symlink_metadata().is_err() {
        return Ok(0);
    }
    let bytes = private::read(witness, GENERATION_BYTES + 1)?;
    let number =
        bytes.try_into().map_err(|_| damage_fault("what is remembered of it is damaged"))?;
    Ok(u64::from_be_bytes(number))
}

/// Reads the records that a keyring of this generation may name, with their bytes. Records of later
/// generations, from a failed step, get only their names.
fn records_of(folder: &Folder, generation: u64) -> Result<BTreeMap<RecordName, Vec<u8>>, Fault> {
    let mut records = BTreeMap::new();
    for name in folder.record_names()? {
        let Some(parsed) = parse_name(&name) else { continue };
        let is_named = parsed.generation <= generation;
        records.insert(parsed, if is_named { folder.read_record(&name)? } else { Vec::new() });
    }
    Ok(records)
}

fn aad(generation: [u8; GENERATION_BYTES]) -> Vec<u8> {
    [PURPOSE.as_bytes(), &generation].concat()
}

/// Formats a name as `GENERATION-START-KIND`, in decimal digits.
fn file_name(name: &RecordName) -> String {
    format!("{}-{}-{}", name.generation, name.start.0, name.kind.byte())
}

/// Parses the name of a record. Returns `None` for a foreign file.
fn parse_name(name: &str) -> Option<RecordName> {
    let mut parts = name.split('-');
    let mut next = || parts.next();
    let generation = next()?.parse().ok()?;
    let start = Epoch(next()?.parse().ok()?);
    let kind = EntryKind::from_byte(next()?.parse().ok()?)?;
    let parsed = RecordName { generation, start, kind };
    (file_name(&parsed) == name).then_some(parsed)
}

fn damage_fault(text: &str) -> Fault {
    let text = format!("this tree cannot be read: {text}");
    Fault::new(Exit::Malformed, text, NEW_CARD)
}

const NEW_CARD: &str = "restore nothing from backups, make a new card with `mezza hibe keygen`";

fn import_fault(error: ImportError) -> Fault {
    let text = match error {
        ImportError::Missing(epoch) => format!("record {} is missing", epoch.0),
        ImportError::Unsealed(epoch) => format!("record {} is damaged", epoch.0),
        ImportError::Older => "this tree is older than it was; somebody put a copy back".into(),
        other @ (ImportError::Keyring(_) | ImportError::Card | ImportError::Gap) => {
            format!("this tree cannot be read: {other}")
        }
    };
    Fault::new(Exit::Malformed, text, NEW_CARD)
}

/// Converts the error of a tree into a fault.
pub fn tree_fault(error: TreeError) -> Fault {
    let (code, next) = match error {
        TreeError::Erased => (Exit::No, "ask the sender to send again"),
        TreeError::Over => (Exit::No, "make a new card with `mezza hibe keygen`"),
        TreeError::NotYet => (
            Exit::Config,
            "set the clock of this machine; if it is right, the one that made this card was ahead: make a new \
             card with `mezza hibe keygen`",
        ),
        TreeError::Leaf => (Exit::No, "ask for fewer epochs, or for later ones"),
        TreeError::NoLife => (Exit::No, "choose a life that `mezza hibe card` lists"),
        TreeError::Damaged => (Exit::Malformed, NEW_CARD),
    };
    Fault::new(code, error.to_string(), next)
}

#[cfg(test)]
mod tests;
