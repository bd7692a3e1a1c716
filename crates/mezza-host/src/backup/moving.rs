//! A move: the whole vault, sessions included, goes to another device, and the old one destroys its keys
//! before the new one can open it.
//!
//! ```text
//! new:  draws a key (`move-in`), shows its recipient
//! old:  row `moving` with a random key K; writes the file under K; reads all of it back
//! new:  shows eight digits of the file; the user types them on the old device
//! old:  `moved`: K, sealed to the recipient, is durable; head and keyring are overwritten; shows it
//! new:  opens K, makes a vault in one transaction
//! old:  deletes the rest
//! ```
//!
//! Until the file `moved` exists only the old device can run, and afterwards only the new one. Each
//! step can be repeated after a crash.

pub(super) mod offer;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufReader, BufWriter, Read as _, Write as _};
use std::path::{Path, PathBuf};

use blake2::digest::consts::U32;
use blake2::{Blake2b, Digest};
use data_encoding::{BASE64_NOPAD, HEXLOWER};
use mezza_core::{CryptoRng, PublicKey, Reader, Secret, StaticKey, Time, Wiping, Writer};
use mezza_messenger::device::backup::restore::retention_of;
use mezza_messenger::{RecordChange, RecordKind, Retention, WriteBatch};

use super::age::{BackupKey, FILE_KEY_BYTES, Identity, Recipient};
use super::chunks::{ChunkReader, ChunkWriter};
use super::{damaged, wrong_key};
use crate::api::{Exit, Fault};
use crate::backend::AwsLc;
use crate::clock::WrittenDate;
#[cfg(any(test, feature = "failing-writes"))]
use crate::process::home::failing;
use crate::process::home::private;
use crate::store::{Argon2Params, MOVED, Record, Vault};

/// The first line of a file that moves a vault.
const MAGIC: &[u8] = b"mezzavoce move 1\n";
/// The new device's key, in the folder of its vault.
const KEY_FILE: &str = "move-in";
/// The old vault's record of a move that has begun.
const MOVING: &[u8] = b"moving";
/// The key of the record about the vault's witness. The new device has its own witness.
const WITNESS: &[u8] = b"witness";
/// The key of the record about automatic backups, which names a folder of this device.
const BACKUPS: &[u8] = b"backup";
const SETTING: RecordKind = RecordKind::Setting;
/// The beginning of the text by which the user gives the key to the new device.
const TOMBSTONE: &str = "mezza-move:";
/// Digits that a user compares.
const DIGITS: u32 = 8;
const HASH_BYTES: usize = 32;
/// Most bytes of one record in the file.
const RECORD_BYTES_MAX: usize = (1 << 20) + 256;
/// Maximum length of the text that gives the key, bytes.
const TOMBSTONE_BYTES_MAX: usize = 4 << 10;

/// The state of a move on the old device.
struct Moving {
    recipient: PublicKey,
    key: Secret<FILE_KEY_BYTES>,
    /// BLAKE2b-256 of the file, once all of it was read back.
    hash: Option<[u8; HASH_BYTES]>,
}

impl Moving {
    fn row(&self) -> WriteBatch {
        let mut w = Writer::with_capacity(96);
        w.put_u8(1).put_bytes(&self.recipient.0).put_bytes(self.key.expose());
        w.put_bytes(self.hash.as_ref().map_or(&[][..], |hash| hash));
        let value = Wiping::new(w.finish());
        let key = MOVING.to_vec();
        WriteBatch(vec![RecordChange::Put {
            kind: SETTING,
            key,
            bucket: Retention::Permanent,
            value,
        }])
    }

    fn of_records(records: &[Record]) -> Option<Self> {
        let own = records.iter().find(|(kind, key, _)| (*kind, &key[..]) == (SETTING, MOVING))?;
        let mut r = Reader::new(&own.2);
        let version = r.read_u8().ok()?;
        let recipient = PublicKey(r.read_array().ok()?);
        let key = Secret::read_from(&mut r).ok()?;
        let hash = if r.is_empty() { None } else { Some(r.read_array().ok()?) };
        (version == 1).then_some(Self { recipient, key, hash })
    }

    fn file_key(&self) -> BackupKey {
        BackupKey { key: self.key.duplicate(), header: MAGIC.to_vec() }
    }
}

/// Returns true if the identity of this folder has moved to another device.
pub fn is_moved(dir: &Path) -> bool {
    dir.join(MOVED).exists()
}

/// Returns true if the vault is being moved to another device, so that no node may run on it.
pub fn is_moving(records: &[Record]) -> bool {
    records.iter().any(|(kind, key, _)| (*kind, &key[..]) == (SETTING, MOVING))
}

/// Old device, first step: writes the whole vault to a file, under a key that only this vault has.
/// If it was interrupted, it continues.
///
/// # Errors
/// The errors of opening a vault; exit code 65 if a record does not open, 73 if the disk refuses or
/// there is another file.
pub fn write_move(
    dir: &Path,
    pass: &[u8],
    recipient: &PublicKey,
    file: &Path,
    now: Time,
    rng: &mut dyn CryptoRng,
) -> Result<(), Fault> {
    let (mut vault, records) = open_vault(dir, pass, now)?;
    if !vault.unread().is_empty() {
        let text = "some records of the vault do not open, and would stay behind";
        return Err(Fault::new(Exit::Malformed, text, "see `mezza doctor`"));
    }
    let before = Moving::of_records(&records).filter(|moving| moving.recipient == *recipient);
    let mut moving = before.unwrap_or_else(|| Moving {
        recipient: *recipient,
        key: Secret::random(rng),
        hash: None,
    });
    // From here on carriers stay down, also after a crash (BACKUP-30).
    vault.commit(&[moving.row()])?;
    let is_written = moving.hash.is_some_and(|hash| hash_file(file).is_ok_and(|of| of == hash));
    if !is_written {
        write_file(file, &moving, &records, rng)?;
        let mut found = 0;
        let hash = read_file(file, &moving.file_key(), &mut |_, _| {
            found += 1;
            Ok(())
        })?;
        if found != moved_records(&records).count() {
            return Err(damaged("it lacks records that were just written"));
        }
        moving.hash = Some(hash);
        vault.commit(&[moving.row()])?;
    }
    vault.close()
}

/// Old device, second step: destroys the keys of the vault. Returns the text that lets the new device open
/// the file. Run again, it returns the same text.
///
/// # Errors
/// Exit code 1 if the digits differ, 66 if no move has begun.
pub fn finish_move(
    dir: &Path,
    pass: impl FnOnce() -> Result<Wiping<Vec<u8>>, Fault>,
    digits: &str,
    now: Time,
    rng: &mut dyn CryptoRng,
) -> Result<String, Fault> {
    if !dir.join(MOVED).exists() {
        let (vault, records) = open_vault(dir, &pass()?, now)?;
        let moving = Moving::of_records(&records);
        let (moving, hash) = moving
            .and_then(|moving| moving.hash.map(|hash| (moving, hash)))
            .ok_or_else(|| Fault::new(Exit::NotFound, "no move has begun", BEGIN))?;
        if digits.trim() != digits_of(&hash) {
            let text = "these are not the digits of the file that left this device";
            let next = "type what the new device shows; if it is this, the file was changed on its way: copy \
                        it again";
            return Err(Fault::new(Exit::No, text, next));
        }
        let text = seal_tombstone(&moving, &hash, rng)?;
        vault.close()?;
        // Once this file exists, the vault belongs to the new device. All later steps can be
        // repeated.
        private::create(&dir.join(MOVED), text.as_bytes())?;
    }
    count_step();
    Vault::bury(dir)?;
    count_step();
    let text = private::read(&dir.join(MOVED), TOMBSTONE_BYTES_MAX)?;
    String::from_utf8(text).map_err(|_| Fault::bug("the record of the move is no text"))
}

/// The next step where no move has begun.
const BEGIN: &str = "begin with `mezza move out RECIPIENT FILE`";

/// Old device: cancels a move before anything is destroyed.
///
/// # Errors
/// Exit code 66 if no move has begun.
pub fn cancel_move(dir: &Path, pass: &[u8], now: Time) -> Result<(), Fault> {
    let (mut vault, records) = open_vault(dir, pass, now)?;
    if !is_moving(&records) {
        return Err(Fault::new(Exit::NotFound, "no move has begun", BEGIN));
    }
    let key = MOVING.to_vec();
    vault.commit(&[WriteBatch(vec![RecordChange::Drop { kind: SETTING, key }])])?;
    vault.close()
}

/// New device, first step: returns the recipient, which the old device needs. Repeated calls return
/// the same.
///
/// # Errors
/// Exit code 73 if there already is a vault here.
pub fn prepare_move(dir: &Path, rng: &mut dyn CryptoRng) -> Result<PublicKey, Fault> {
    private::make_folder(dir)?;
    if Vault::exists(dir) {
        return Err(crate::api::Refused::exists().into());
    }
    let path = dir.join(KEY_FILE);
    if !path.exists() {
        let key = StaticKey::random::<AwsLc>(rng);
        let text = zeroize::Zeroizing::new(HEXLOWER.encode(key.scalar().expose()));
        private::create(&path, text.as_bytes())?;
    }
    own_key(dir).map(|key| *key.public_key())
}

fn own_key(dir: &Path) -> Result<StaticKey, Fault> {
    let path = dir.join(KEY_FILE);
    let missing = || {
        let text = "this device has shown no recipient yet";
        Fault::new(Exit::NotFound, text, "begin with `mezza move in`")
    };
    if !path.exists() {
        return Err(missing());
    }
    let text = zeroize::Zeroizing::new(private::read(&path, 2 * HASH_BYTES + 1)?);
    let bytes = zeroize::Zeroizing::new(HEXLOWER.decode(&text).map_err(|_| missing())?);
    let bytes: &[u8; 32] = bytes.as_slice().try_into().map_err(|_| missing())?;
    Ok(StaticKey::from_scalar::<AwsLc>(Secret::copy_from(bytes)))
}

/// New device, second step: returns the digits of a file, which the user compares on the old
/// device.
///
/// # Errors
/// Exit code 66 if the file cannot be read, 65 if it is not a moved vault.
pub fn move_digits(file: &Path) -> Result<String, Fault> {
    let mut magic = [0; MAGIC.len()];
    let opened = File::open(file).and_then(|mut opened| opened.read_exact(&mut magic));
    opened.map_err(|error| private::cannot_read(file, &error))?;
    if magic != MAGIC {
        let text = format!("{} is no file of a move", file.display());
        let next = "name the file that `move out` wrote on the old device";
        return Err(Fault::new(Exit::Malformed, text, next));
    }
    hash_file(file).map(|hash| digits_of(&hash))
}

/// File, key and parameters of a move, for the new device.
pub struct ReceivedMove<'a> {
    /// The folder of the vault that is made.
    pub dir: &'a Path,
    /// The file.
    pub file: &'a Path,
    /// The text by which the user gives the key.
    pub tombstone: &'a str,
    /// The cost of one guess of the new passphrase.
    pub cost: Argon2Params,
    /// The present time.
    pub now: Time,
}

/// New device, third step: makes the vault, in one transaction.
///
/// # Errors
/// Exit code 65 if text or file are damaged, or do not belong together; 77 if the text is for
/// another device.
pub fn receive_move(
    received: &ReceivedMove<'_>,
    new_pass: impl FnOnce() -> Result<Wiping<Vec<u8>>, Fault>,
    rng: &mut dyn CryptoRng,
) -> Result<(), Fault> {
    let ReceivedMove { dir, file, tombstone, cost, now } = *received;
    if Vault::exists(dir) {
        // Both files exist only if this step was interrupted at its end.
        let is_made = dir.join(KEY_FILE).exists();
        let exists = || crate::api::Refused::exists().into();
        return if is_made { private::wipe(&dir.join(KEY_FILE)) } else { Err(exists()) };
    }
    let own = own_key(dir)?;
    let (key, hash) = open_tombstone(tombstone, &own)?;
    if hash_file(file)? != hash {
        return Err(damaged("it is not the file that belongs to this key"));
    }
    // The whole file is read before anything is made, to find the keys that notes with a timer
    // need.
    let mut buckets = BTreeSet::new();
    read_file(file, &key, &mut |_, bucket| {
        buckets.insert(bucket);
        Ok(())
    })?;
    let pass = new_pass()?;
    let buckets: Vec<Retention> = buckets.into_iter().collect();
    Vault::create_filled_with(dir, &pass, cost, &buckets, now, rng, |_, put| {
        read_file(file, &key, &mut |(kind, key, value), bucket| {
            put(RecordChange::Put { kind, key, bucket, value })
        })
        .map(drop)
    })?;
    private::wipe(&dir.join(KEY_FILE))
}

fn open_vault(dir: &Path, pass: &[u8], now: Time) -> Result<(Vault, Vec<Record>), Fault> {
    // If the date is in doubt, nothing is erased by it (MSG-99): the vault keeps its own date.
    let date = |written: Option<WrittenDate>, _: Option<u32>| {
        let own = written.map_or(now, |written| written.at.wall);
        let away = now.as_ms().abs_diff(own.as_ms());
        if away > Time::DAY_MS { own } else { now.max(own) }
    };
    Vault::open_by(dir, pass, date)
}

/// Returns the records that move to the new device. The records about the move and the witness
/// belong to this device. A copy of the key tree would outlive the keys that the tree erases, so
/// the new device makes its own tree (HIBE-93).
fn moved_records(records: &[Record]) -> impl Iterator<Item = &Record> {
    let is_own = |key: &[u8]| [MOVING, WITNESS, BACKUPS].contains(&key);
    let stays = move |kind: RecordKind, key: &[u8]| match kind {
        RecordKind::Tree | RecordKind::TreeRing => true,
        kind => kind == SETTING && is_own(key),
    };
    records.iter().filter(move |(kind, key, _)| !stays(*kind, key))
}

fn write_file(
    path: &Path,
    moving: &Moving,
    records: &[Record],
    rng: &mut dyn CryptoRng,
) -> Result<(), Fault> {
    let fresh = fresh_path(path);
    let _ = fs::remove_file(&fresh);
    private::create(&fresh, &[])?;
    let cannot_write = |error: std::io::Error| private::cannot_write(path, &error);
    let file = fs::OpenOptions::new().write(true).open(&fresh).map_err(cannot_write)?;
    let mut chunks = ChunkWriter::begin(BufWriter::new(file), &moving.file_key(), rng)?;
    for (kind, key, value) in moved_records(records) {
        count_step();
        let retention = retention_of(*kind, value)
            .ok_or_else(|| damaged("a note of the vault cannot be read"))?;
        chunks.put(&encode_record(*kind, key, retention, value))?;
    }
    chunks.put(&0_u32.to_be_bytes())?;
    let mut out = chunks.finish()?;
    let synced = out.flush().and_then(|()| out.get_ref().sync_all());
    count_step();
    synced.and_then(|()| fs::rename(&fresh, path)).map_err(cannot_write)?;
    count_step();
    private::sync_folder(path.parent().unwrap_or(Path::new(".")))
}

/// A point at which tests kill the process.
fn count_step() {
    #[cfg(any(test, feature = "failing-writes"))]
    failing::pass_step();
}

fn fresh_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".part");
    PathBuf::from(name)
}

/// Encodes a record: `length u32 | kind u8 | class u8 | number u32 | key_len u8 | key | value`.
fn encode_record(kind: RecordKind, key: &[u8], keep: Retention, value: &[u8]) -> Wiping<Vec<u8>> {
    let mut w = Writer::with_capacity(16 + key.len() + value.len());
    let (class, number) = match keep {
        Retention::Permanent => (0, 0),
        Retention::Rolling => (1, 0),
        Retention::Hour(hour) => (2, hour),
        Retention::Day(day) => (3, day),
    };
    w.put_u32((7 + key.len() + value.len()) as u32)
        .put_u8(kind as u8)
        .put_u8(class)
        .put_u32(number);
    w.put_var8(key).put_bytes(value);
    Wiping::new(w.finish())
}

fn decode_record(bytes: &[u8]) -> Option<(Record, Retention)> {
    let mut r = Reader::new(bytes);
    let kind = RecordKind::from_number(r.read_u8().ok()?)?;
    let keep = match (r.read_u8().ok()?, r.read_u32().ok()?) {
        (0, 0) => Retention::Permanent,
        (1, 0) => Retention::Rolling,
        (2, hour) => Retention::Hour(hour),
        (3, day) => Retention::Day(day),
        _ => return None,
    };
    let key = r.read_var8().ok()?.to_vec();
    let value = Wiping::new(r.read_rest().to_vec());
    kind.accepts_key(&key, keep).then_some(((kind, key, value), keep))
}

/// Opens every record of a file. Returns the hash of the file.
fn read_file(
    path: &Path,
    key: &BackupKey,
    each: &mut dyn FnMut(Record, Retention) -> Result<(), Fault>,
) -> Result<[u8; HASH_BYTES], Fault> {
    let file = File::open(path).map_err(|error| private::cannot_read(path, &error))?;
    let mut input = BufReader::new(file);
    let mut magic = [0; MAGIC.len()];
    input.read_exact(&mut magic).map_err(|_| damaged("it ends too early"))?;
    let mut chunks = ChunkReader::begin(input, key)?;
    loop {
        let mut length = [0; 4];
        chunks.take(&mut length)?;
        let length = u32::from_be_bytes(length) as usize;
        if length == 0 {
            break;
        }
        if length > RECORD_BYTES_MAX {
            return Err(damaged("a record is too long"));
        }
        let mut bytes = Wiping::new(vec![0; length]);
        chunks.take(&mut bytes)?;
        let (record, keep) =
            decode_record(&bytes).ok_or_else(|| damaged("a record is none of this version"))?;
        each(record, keep)?;
    }
    if !chunks.is_at_end() {
        return Err(damaged("it is too long"));
    }
    hash_file(path)
}

fn hash_file(path: &Path) -> Result<[u8; HASH_BYTES], Fault> {
    let cannot_read = |error: std::io::Error| private::cannot_read(path, &error);
    let mut file = File::open(path).map_err(cannot_read)?;
    let mut hash = Blake2b::<U32>::new();
    let mut piece = vec![0; 64 << 10];
    loop {
        let count = file.read(&mut piece).map_err(cannot_read)?;
        if count == 0 {
            return Ok(hash.finalize().into());
        }
        hash.update(&piece[..count]);
    }
}

/// Returns eight digits of a hash.
fn digits_of(hash: &[u8; HASH_BYTES]) -> String {
    let number = hash[..8].iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    format!("{:08}", number % 10_u64.pow(DIGITS))
}

/// Seals key and hash of the file to the new device. Returns `mezza-move:` and base64.
fn seal_tombstone(
    moving: &Moving,
    hash: &[u8; HASH_BYTES],
    rng: &mut dyn CryptoRng,
) -> Result<String, Fault> {
    let key = BackupKey::draw(&Recipient::Key(&moving.recipient), rng)?;
    let mut chunks = ChunkWriter::begin(Vec::new(), &key, rng)?;
    chunks.put(moving.key.expose())?;
    chunks.put(hash)?;
    Ok(format!("{TOMBSTONE}{}", BASE64_NOPAD.encode(&chunks.finish()?)))
}

fn open_tombstone(text: &str, own: &StaticKey) -> Result<(BackupKey, [u8; HASH_BYTES]), Fault> {
    let malformed = || {
        let next = "copy all of it from the old device, beginning with `mezza-move:`";
        Fault::new(Exit::Malformed, "this is no key of a move", next)
    };
    let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let sealed = text.strip_prefix(TOMBSTONE).filter(|text| text.len() <= TOMBSTONE_BYTES_MAX);
    let sealed = sealed.and_then(|text| BASE64_NOPAD.decode(text.as_bytes()).ok());
    let sealed = sealed.ok_or_else(malformed)?;
    let mut input = &sealed[..];
    let header = BackupKey::open(&mut input, &Identity::Key(own)).map_err(|_| wrong_device())?;
    let mut chunks = ChunkReader::begin(input, &header)?;
    let mut key = zeroize::Zeroizing::new([0; FILE_KEY_BYTES]);
    chunks.take(&mut *key)?;
    let mut hash = [0; HASH_BYTES];
    chunks.take(&mut hash)?;
    if !chunks.is_at_end() {
        return Err(wrong_key());
    }
    let key = BackupKey { key: Secret::copy_from(&key), header: MAGIC.to_vec() };
    Ok((key, hash))
}

fn wrong_device() -> Fault {
    let next = "use the device that showed the recipient, with the folder that it had then";
    Fault::new(Exit::Denied, "this key is for another device, or was changed", next)
}

#[cfg(test)]
mod tests;
