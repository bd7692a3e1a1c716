//! The vault: every record of the device, sealed, in one folder.
//!
//! ```text
//! vault/           0700
//!   head           0600   the master key under the passphrase           (module `head`)
//!   keyring        0600   a key for each bucket under the master key    (module `keyring`)
//!                         both overwritten where they lie               (module `slots`)
//!   records.db     0600   sealed records under the bucket keys          (modules `rows`, `record`)
//!   records.db-wal 0600   SQLite's log of them while the vault is open
//!   tree.ring      0600   keys of the key tree of the mesh, if there is one (module `tree_ring`)
//!   lock           0600   held by the one process that has the vault    (module `lock`)
//! ```
//!
//! A thief of the folder learns how many records there are, their kinds, order, padded sizes and
//! buckets, and pays one run of Argon2id per guess of the passphrase. Deleted and expired records
//! stay unreadable even with the passphrase once their bucket's key is erased from the small file
//! `keyring` (module `day`), provided that the medium forgets overwritten bytes. The thief can
//! restore an old copy of the whole folder, or delete rows; the vault does not prevent that. An old
//! copy whose mixnet has gone on is detected by a file outside of the folder (module `witness`).
//!
//! The caller has the clock and must call [`Vault::tick`] before any other work once
//! [`Vault::deadline`] has passed.

pub(crate) mod aead;
pub(crate) mod argon;
pub mod bucket;
mod commit;
mod date;
mod day;
#[cfg(test)]
mod failed;
pub mod fill;
pub mod head;
pub mod keyring;
pub mod log_file;
pub mod record;
pub(crate) mod rows;
pub mod tree_folder;
mod tree_ring;
pub mod typed;
pub mod witness;

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use mezza_core::{CryptoRng, Secret, Time, Wiping};
use mezza_messenger::{RecordKind, Unread, WriteBatch};

use crate::clock::WrittenDate;
use crate::process::lock::Lock;
use crate::process::rng::OsRng;
use aead::TAG_BYTES;
pub use argon::Argon2Params;
use bucket::RetentionCode;
pub use date::put_date;
pub use head::MasterKey;
use head::VaultHeader;
use keyring::Keyring;
use record::RecordContent;
pub use record::RecordHeader;
use rows::{Rows, damage_fault};
use tree_ring::TreeRing;

use crate::api::{Exit, Fault, Refused};
use crate::process::home::private;

/// A record as the device stored it: kind, key, value.
pub type Record = (RecordKind, Vec<u8>, Wiping<Vec<u8>>);

/// The names of the files.
const HEAD: &str = "head";
const KEYRING: &str = "keyring";
const RECORDS: &str = "records.db";
const LOCK: &str = "lock";
/// The mark of a vault that was moved to another device: nothing here opens any more.
pub const MOVED: &str = "moved";
/// Row number and kind of the vault's own record, sealed like live state: the keyring's generation
/// (u64) and the tag of its file.
const MEMORY_ID: u64 = 1;
const KIND_MEMORY: u8 = 0;
/// The purpose of the key [`Vault::outside`].
const OUTSIDE: &str = "mezza/vault/outside";

/// The row of a record.
#[derive(Clone, Copy)]
struct Row {
    id: u64,
    bucket: RetentionCode,
}

/// The row of each record by its [`record_name`].
type Index = BTreeMap<Vec<u8>, Row>;

/// The row that stores the keyring's generation and tag.
struct Memory {
    generation: u64,
    /// The tag of the keyring file; older versions stored none.
    tag: Option<[u8; TAG_BYTES]>,
}

impl Memory {
    fn parse_value(value: &[u8]) -> Option<Self> {
        let (generation, tag) = value.split_first_chunk()?;
        let tag = if tag.is_empty() { None } else { Some(tag.try_into().ok()?) };
        Some(Self { generation: u64::from_be_bytes(*generation), tag })
    }
}

/// The files of a vault that is being opened.
struct OpenedFiles {
    rows: Rows,
    ring: Keyring,
    lock: Lock,
}

/// The records of the database, and the unreadable rows.
#[derive(Default)]
struct Loaded {
    index: Index,
    records: Vec<Record>,
    unread: Vec<Unread>,
}

/// An open vault. Dropping it wipes the keys and releases the lock.
pub struct Vault {
    // Fields are dropped in order: the lock must be last.
    rows: Rows,
    ring: Keyring,
    index: Index,
    /// Rows that did not open when they were last read. They are not in the index, so that they are
    /// not overwritten.
    unread: Vec<Unread>,
    /// The highest row number since the vault was opened.
    last_id: u64,
    /// The keyring generation stored in the database.
    remembered: u64,
    /// True if no row has needed a stale key since the last check (module `day`).
    swept: bool,
    /// The hour of the last checkpoint.
    hour: u32,
    deadline: Time,
    /// The key for data about this vault outside of it.
    outside: Secret<32>,
    tree_ring: TreeRing,
    _lock: Lock,
}

impl fmt::Debug for Vault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Vault({} records)", self.index.len())
    }
}

impl Vault {
    /// Returns true if this folder holds a vault.
    pub fn exists(dir: &Path) -> bool {
        dir.join(HEAD).symlink_metadata().is_ok()
    }

    /// Makes an empty vault; see [`Vault::create_with`].
    pub fn create(
        dir: &Path,
        pass: &[u8],
        cost: Argon2Params,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<Self, Fault> {
        Self::create_with(dir, pass, cost, &[], now, rng)
    }

    /// Makes a vault that contains `first` from the beginning: if the disk fails there is no vault,
    /// rather than one without an identity (MSG-65). Files of an earlier attempt without a head are
    /// removed first.
    ///
    /// Errors: 73 if a vault exists already or the disk refuses, 75 if another process uses the
    /// folder, 77 for wrong modes, 78 for a cost outside the limits.
    pub fn create_with(
        dir: &Path,
        pass: &[u8],
        cost: Argon2Params,
        first: &[WriteBatch],
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<Self, Fault> {
        let (mut vault, head) = Self::prepare(dir, pass, cost, now, rng)?;
        vault.commit(first)?;
        Self::write_head(dir, &head)?;
        Ok(vault)
    }

    /// Makes everything of a new vault except its records and its head, which comes last.
    fn prepare(
        dir: &Path,
        pass: &[u8],
        cost: Argon2Params,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<(Self, VaultHeader), Fault> {
        private::make_folder(dir)?;
        let lock = Lock::take(&dir.join(LOCK))?;
        refuse_moved(dir)?;
        if Self::exists(dir) {
            return Err(Fault::new(
                Exit::CannotWrite,
                format!("there is a vault in {} already", dir.display()),
                "open it, or choose another home with `--home DIR`",
            ));
        }
        remove_leftovers(dir)?;
        let master = MasterKey::draw(rng);
        let head = VaultHeader::seal(&master, pass, cost, rng)?;
        let mut ring = Keyring::new(dir.join(KEYRING), &master);
        ring.add_keys(&[RetentionCode::PERMANENT, RetentionCode::rolling(now.as_days())], rng)?;
        let mut rows = Rows::create(&dir.join(RECORDS))?;
        let today = RetentionCode::rolling(now.as_days());
        rows.transaction(|writing| commit::put_memory(writing, &ring, today))?;
        let opened = OpenedFiles { rows, ring, lock };
        Ok((Self::new(dir, opened, &master, now), head))
    }

    /// Writes the head, the last file of a new vault: once it exists, the vault exists.
    fn write_head(dir: &Path, head: &VaultHeader) -> Result<(), Fault> {
        head::create_head(&dir.join(HEAD), head).inspect_err(|_| {
            // The file may exist although its write failed, but the caller is told that there is no
            // vault.
            let _ = fs::remove_file(dir.join(HEAD));
        })
    }

    /// Opens the vault: finishes whatever day change was due, then opens every record. A row that
    /// does not open is quarantined ([`Vault::unread`]), and everything else is there (MSG-66).
    ///
    /// Errors: 65 if a file was changed as a whole, 66 if there is no vault, 75 if the vault is in
    /// use (the text names the process), 77 for a wrong passphrase or wrong modes.
    pub fn open(dir: &Path, pass: &[u8], now: Time) -> Result<(Self, Vec<Record>), Fault> {
        Self::open_by(dir, pass, |_, _| now)
    }

    /// Opens the vault as [`Vault::open`] does, at the time that `date` computes from the vault's
    /// last date and its newest day.
    pub fn open_by(
        dir: &Path,
        pass: &[u8],
        date: impl FnOnce(Option<WrittenDate>, Option<u32>) -> Time,
    ) -> Result<(Self, Vec<Record>), Fault> {
        let lock = Self::take_lock(dir)?;
        let master = head::unlock_master(&dir.join(HEAD), pass)?;
        Self::enter_locked(dir, &master, date, lock)
    }

    /// Opens the vault with a master key from [`head::unlock_master`].
    pub fn open_with_key(
        dir: &Path,
        master: &MasterKey,
        now: Time,
    ) -> Result<(Self, Vec<Record>), Fault> {
        let lock = Self::take_lock(dir)?;
        Self::enter_locked(dir, master, |_, _| now, lock)
    }

    /// Seals the master key under another passphrase (VAULT-10). Nothing else is sealed again, so
    /// an older copy of the folder still opens with the old passphrase. `dir` is the folder of this
    /// vault, which is locked while the vault is open.
    ///
    /// # Errors
    /// See [`head::change_passphrase`].
    pub fn change_passphrase(
        &self,
        dir: &Path,
        old: &[u8],
        new: &[u8],
        rng: &mut dyn CryptoRng,
    ) -> Result<(), Fault> {
        head::change_passphrase(&dir.join(HEAD), old, new, rng)
    }

    /// Opens every record again, to load a device again.
    pub fn reload_records(&mut self) -> Result<Vec<Record>, Fault> {
        let loaded = self.load_rows()?;
        (self.index, self.unread) = (loaded.index, loaded.unread);
        let ring = self.tree_ring.read().map(|ring| (RecordKind::TreeRing, Vec::new(), ring));
        Ok(loaded.records.into_iter().chain(ring).collect())
    }

    /// The rows that are quarantined.
    pub fn unread(&self) -> &[Unread] {
        &self.unread
    }

    /// Returns a record as a thief of the disk has it: its row and sealed body.
    pub fn sealed_row(
        &self,
        kind: RecordKind,
        key: &[u8],
    ) -> Result<Option<(RecordHeader, Vec<u8>)>, Fault> {
        self.index.get(&record_name(kind, key)).map(|row| self.rows.read_row(row.id)).transpose()
    }

    /// Replaces the keyring of the key tree, durably.
    ///
    /// # Errors
    /// Exit code 73 if the disk refuses.
    pub fn store_tree_ring(&self, keyring: &[u8]) -> Result<(), Fault> {
        self.tree_ring.write(keyring, &mut OsRng)
    }

    /// Does the work due at `now`: change of day, end of expiry buckets, hourly checkpoint.
    pub fn tick(&mut self, now: Time) -> Result<(), Fault> {
        while self.step(now)? {}
        if self.hour != now.as_hours() {
            self.rows.checkpoint()?;
            self.hour = now.as_hours();
        }
        self.deadline = next_hour(now);
        Ok(())
    }

    /// Reads ahead for the next commit. Call this while no request waits.
    pub fn prefetch(&mut self) {
        self.rows.prefetch();
    }

    /// Returns the time of the next [`Vault::tick`]: the next full hour, when buckets may end.
    pub fn deadline(&self) -> Time {
        self.deadline
    }

    /// Returns how many days the rolling day of live state is ahead of the clock. It is above 0
    /// only if the clock was once wrong: until the clock has caught up, live state is not sealed
    /// again each day.
    pub fn days_ahead(&self, now: Time) -> u32 {
        self.ring.newest_day().unwrap_or(0).saturating_sub(now.as_days())
    }

    /// Returns the key for data about this vault outside of it (module `witness`).
    pub fn outside_key(&self) -> &Secret<32> {
        &self.outside
    }

    /// Moves the log into the database, wipes the keys and releases the lock.
    pub fn close(self) -> Result<(), Fault> {
        self.rows.close()
    }

    fn new(dir: &Path, opened: OpenedFiles, master: &MasterKey, now: Time) -> Self {
        let OpenedFiles { rows, ring, lock } = opened;
        Self {
            remembered: ring.generation(),
            rows,
            ring,
            index: BTreeMap::new(),
            unread: Vec::new(),
            last_id: MEMORY_ID,
            swept: false,
            hour: now.as_hours(),
            deadline: next_hour(now),
            outside: master.derive(OUTSIDE),
            tree_ring: TreeRing::new(dir, master),
            _lock: lock,
        }
    }

    fn take_lock(dir: &Path) -> Result<Lock, Fault> {
        refuse_moved(dir)?;
        if !Self::exists(dir) {
            return Err(Fault::new(
                Exit::NotFound,
                format!("there is no vault in {}", dir.display()),
                "make one with `mezza init`, or choose another home with `--home DIR`",
            ));
        }
        private::check_folder(dir)?;
        Lock::take(&dir.join(LOCK))
    }

    fn enter_locked(
        dir: &Path,
        master: &MasterKey,
        date: impl FnOnce(Option<WrittenDate>, Option<u32>) -> Time,
        lock: Lock,
    ) -> Result<(Self, Vec<Record>), Fault> {
        // The vault opens even if the disk refuses this; the next change of passphrase repeats it.
        if let Err(fault) = head::settle_head(&dir.join(HEAD)) {
            tracing::warn!(target: "mezza", "the head of the vault is not settled yet: {fault}");
        }
        let ring = Keyring::read(dir.join(KEYRING), master)?;
        let rows = Rows::open(&dir.join(RECORDS))?;
        // Determine the date before the first tick, which erases by it (MSG-103).
        let now = date(date::read_written(&rows, &ring)?, ring.newest_day());
        let mut vault = Self::new(dir, OpenedFiles { rows, ring, lock }, master, now);
        vault.check_generation()?;
        vault.tick(now)?;
        vault.last_id = vault.rows.last_id()?;
        let records = vault.reload_records()?;
        Ok((vault, records))
    }

    /// Refuses a keyring that is older than the one in the database's memory, or of another vault.
    fn check_generation(&mut self) -> Result<(), Fault> {
        let (place, body) = self.rows.read_row(MEMORY_ID)?;
        let own = Some(place).filter(|place| place.kind == KIND_MEMORY);
        let content = own.and_then(|place| self.open_row(place, &body));
        match content.and_then(|content| Memory::parse_value(&content.value)) {
            Some(memory) if !self.is_behind_live_state()? && self.is_of_ring(&memory)? => {
                self.remembered = memory.generation;
                self.ring.mark_used(memory.generation);
                Ok(())
            }
            _ => Err(damage_fault(
                "the vault's keyring is older than its database, or another vault's",
            )),
        }
    }

    /// Checks that the keyring is the remembered one or a newer one. Versions without a tag also
    /// remembered generations of failed writes: their keyring is accepted if it opens every row.
    fn is_of_ring(&self, memory: &Memory) -> Result<bool, Fault> {
        match memory.generation.cmp(&self.ring.generation()) {
            Ordering::Less => Ok(true),
            Ordering::Equal => Ok(memory.tag.is_none_or(|tag| tag == *self.ring.tag())),
            Ordering::Greater => Ok(memory.tag.is_none() && self.load_rows()?.unread.is_empty()),
        }
    }

    /// Returns true if all live state belongs to days that the keyring does not have yet. A damaged
    /// row may name any day, but other rows then name one of the keyring's.
    fn is_behind_live_state(&self) -> Result<bool, Fault> {
        let today = self.ring.newest_day();
        let days = self.rows.live_days(MEMORY_ID)?;
        Ok(days.first().is_some_and(|first| Some(*first) > today))
    }

    /// Opens every row. Of two rows with one name the newer is used: it was written when the older
    /// one did not open, and a session must not go back to an older state.
    fn load_rows(&self) -> Result<Loaded, Fault> {
        let mut loaded = Loaded::default();
        self.rows.for_each_row(|place, body| {
            if place.is_some_and(|place| (place.id, place.kind) == (MEMORY_ID, KIND_MEMORY)) {
                return;
            }
            let kind = place.and_then(|place| RecordKind::from_number(place.kind));
            let content = place.and_then(|place| self.open_row(place, body));
            if let (Some(place), Some(kind), Some(content)) = (place, kind, content)
                && let Entry::Vacant(vacant) = loaded.index.entry(record_name(kind, &content.key))
            {
                vacant.insert(Row { id: place.id, bucket: place.bucket });
                loaded.records.push((kind, content.key, content.value));
            } else {
                loaded.unread.push(Unread { kind, bytes: body.len() });
            }
        })?;
        Ok(loaded)
    }

    fn open_row(&self, place: RecordHeader, body: &[u8]) -> Option<RecordContent> {
        record::open(self.ring.key(place.bucket)?, place, body)
    }

    /// Returns the bucket of live state.
    fn today_bucket(&self) -> Result<RetentionCode, Fault> {
        let day =
            self.ring.newest_day().ok_or_else(|| damage_fault("the vault's keyring has no day"))?;
        Ok(RetentionCode::rolling(day))
    }
}

/// Refuses a vault that was moved to another device, even if a crash left its keys here
/// (BACKUP-31).
fn refuse_moved(dir: &Path) -> Result<(), Fault> {
    let is_moved = dir.join(MOVED).symlink_metadata().is_ok();
    if is_moved { Err(Refused::moved().into()) } else { Ok(()) }
}

/// Returns the name of a record in the index: its kind and its key.
fn record_name(kind: RecordKind, key: &[u8]) -> Vec<u8> {
    [&[kind as u8], key].concat()
}

/// Removes the files of an unfinished [`Vault::create`].
fn remove_leftovers(dir: &Path) -> Result<(), Fault> {
    private::sweep_leftover(&dir.join(HEAD))?;
    private::sweep_leftover(&dir.join(KEYRING))?;
    let files = rows::database_files(&dir.join(RECORDS));
    for file in files.iter().chain([&dir.join(KEYRING), &dir.join(tree_ring::FILE)]) {
        match fs::remove_file(file) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(private::cannot_write(file, &error));
            }
            _ => {}
        }
    }
    Ok(())
}

fn next_hour(now: Time) -> Time {
    Time::from_ms((now.as_ms() / Time::HOUR_MS).saturating_add(1).saturating_mul(Time::HOUR_MS))
}
