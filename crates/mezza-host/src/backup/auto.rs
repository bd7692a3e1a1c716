//! Backups that a running node makes by itself.
//!
//! ```text
//! DIR/key.age             the private key of the backups, an age file under the passphrase
//! DIR/mezza-TIME.age      backups to its public key, which the vault has
//! ```
//!
//! The node can write such backups, and with the vault's disk alone nobody can read them.
//! `age -d -i key.age mezza-TIME.age` opens them without this program.

use std::fs;
use std::path::{Path, PathBuf};

use mezza_core::{CryptoRng, PublicKey, StaticKey, Time, Wiping};
use mezza_messenger::{RecordChange, RecordKind, Retention, WriteBatch};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::age::{BackupKey, Identity, Recipient};
use super::bech32::{read_recipient, read_secret, recipient_text, secret_text};
use super::chunks::{ChunkReader, ChunkWriter};
use super::wrong_key;
use crate::api::{Exit, Fault};
use crate::backend::AwsLc;
use crate::process::home::private;
use crate::store::Record;

/// The file with the key, beside the backups.
const KEY_FILE: &str = "key.age";
/// Begin and end of the name of a backup.
const PREFIX: &str = "mezza-";
const SUFFIX: &str = ".age";
/// The key of the vault's record that stores the state of the backups.
const ROW: &[u8] = b"backup";
/// Most bytes of that record, and of a file with a key.
const ROW_BYTES_MAX: usize = 16 << 10;
/// Time until the next attempt after a failure, ms.
const AGAIN_MS: u64 = Time::HOUR_MS;
/// The age above which the newest backup causes a warning, ms.
const OLD_MS: u64 = 30 * Time::DAY_MS;

/// The state of the backups of a vault.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackupState {
    /// Time of the last backup, in milliseconds since 1970.
    pub made_ms: Option<u64>,
    /// The settings of automatic backups, if they are on.
    pub auto: Option<AutoBackup>,
}

/// Automatic backups: their folder, key and schedule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AutoBackup {
    /// The folder, absolute.
    pub folder: String,
    /// Seconds between two backups.
    pub every_s: u64,
    /// Number of backups to keep.
    pub keep: usize,
    /// The public key, `age1..`.
    pub recipient: String,
    /// Time of the newest backup, milliseconds since 1970.
    pub made_ms: u64,
    /// The newest backup.
    pub last: Option<AutoFile>,
    /// Time and reason of the last failure, if the last attempt failed.
    pub failed: Option<AutoFailure>,
}

/// A backup that the node has made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AutoFile {
    /// File name of the backup in the folder.
    pub name: String,
    /// Length of the file, bytes.
    pub bytes: u64,
}

/// A failed attempt to make a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AutoFailure {
    /// Time of the attempt, milliseconds since 1970.
    pub at_ms: u64,
    /// Reason of the failure, as a sentence for the user.
    pub text: String,
}

impl BackupState {
    /// Reads the state of a vault. A record that cannot be read counts as none.
    pub fn of_records(records: &[Record]) -> Self {
        let own = |(kind, key, _): &&Record| (*kind, &key[..]) == (RecordKind::Setting, ROW);
        let row = records.iter().find(own).filter(|(_, _, value)| value.len() <= ROW_BYTES_MAX);
        row.and_then(|(_, _, value)| serde_json::from_slice(value).ok()).unwrap_or_default()
    }

    /// The batch that stores the state.
    ///
    /// # Errors
    /// A bug of this program if the state cannot be encoded.
    pub fn put_row(&self) -> Result<WriteBatch, Fault> {
        let value = serde_json::to_vec(self).map_err(|_| Fault::bug("the state has no form"))?;
        let kind = RecordKind::Setting;
        let bucket = Retention::Permanent;
        let value = Wiping::new(value);
        Ok(WriteBatch(vec![RecordChange::Put { kind, key: ROW.to_vec(), bucket, value }]))
    }

    /// Returns true if the node has to make a backup now.
    pub fn is_due(&self, now: Time) -> bool {
        let Some(auto) = &self.auto else { return false };
        // If the clock was set back, a backup is delayed by no more than the interval.
        let is_over = |since_ms: u64, pause_ms: u64| now.as_ms().abs_diff(since_ms) >= pause_ms;
        let is_paused = auto.failed.as_ref().is_some_and(|failed| !is_over(failed.at_ms, AGAIN_MS));
        !is_paused && is_over(auto.made_ms, auto.every_s.saturating_mul(Time::SECOND_MS))
    }

    /// Returns the problem with the backups and the next step, or `None`. A device without a backup
    /// is warned once a note without a timer is more than 30 days old.
    pub fn warning(&self, now: Time, oldest_note: Option<Time>) -> Option<(String, &'static str)> {
        if let Some(auto) = &self.auto {
            let folder = &auto.folder;
            if let Some(failed) = &auto.failed {
                let next = "make room or mount the disk; the node tries again every hour";
                return Some((format!("the last one into {folder} failed: {}", failed.text), next));
            }
            let is_whole = |file: &AutoFile| {
                let found = fs::metadata(Path::new(folder).join(&file.name));
                found.is_ok_and(|found| found.len() == file.bytes)
            };
            if !auto.last.as_ref().is_none_or(is_whole) {
                let next = "mount the disk, or name another folder with `mezza backup auto`";
                return Some((
                    format!("the newest one in {folder} is missing or was changed"),
                    next,
                ));
            }
        }
        let Some(made_ms) = self.made_ms else {
            let is_old = oldest_note.is_some_and(|at| now.since_ms(at) > OLD_MS);
            let text = "there is none of this device yet";
            return is_old.then(|| (text.into(), "make one with `mezza backup make`"));
        };
        let days = now.as_ms().saturating_sub(made_ms) / Time::DAY_MS;
        let is_old = now.as_ms().saturating_sub(made_ms) > OLD_MS;
        is_old.then(|| {
            (format!("the last one is {days} days old"), "make one with `mezza backup make`")
        })
    }
}

impl AutoBackup {
    /// Prepares a folder: draws a key, and stores it there under the passphrase. If the folder
    /// already has a key, the passphrase must open it, and it is used again.
    ///
    /// # Errors
    /// Exit code 77 if the passphrase does not open the key in the folder, 73 if the disk refuses.
    pub fn prepare(
        folder: &Path,
        pass: &[u8],
        every_s: u64,
        keep: usize,
        rng: &mut dyn CryptoRng,
    ) -> Result<Self, Fault> {
        fs::create_dir_all(folder).map_err(|error| private::cannot_write(folder, &error))?;
        let path = folder.join(KEY_FILE);
        let own = if path.exists() {
            open_key(&path, pass)?
        } else {
            let own = StaticKey::random::<AwsLc>(rng);
            let key = BackupKey::draw(&Recipient::Passphrase(pass), rng)?;
            let mut chunks = ChunkWriter::begin(Vec::new(), &key, rng)?;
            let text = Zeroizing::new(secret_text(&own));
            chunks.put(text.as_bytes())?;
            chunks.put(b"\n")?;
            private::create(&path, &chunks.finish()?)?;
            own
        };
        Ok(Self {
            folder: folder.display().to_string(),
            every_s,
            keep,
            recipient: recipient_text(own.public_key()),
            made_ms: 0,
            last: None,
            failed: None,
        })
    }

    /// Returns the path of the next backup, and a fresh key for it.
    ///
    /// # Errors
    /// A bug if the stored recipient is not a public key.
    pub fn next_file(
        &self,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<(PathBuf, BackupKey), Fault> {
        let recipient: PublicKey =
            read_recipient(&self.recipient).ok_or_else(|| Fault::bug("the recipient is none"))?;
        let key = BackupKey::draw(&Recipient::Key(&recipient), rng)?;
        // File names have the order of their times. Minutes suffice to distinguish them.
        let name = format!("{PREFIX}{:013}{SUFFIX}", now.as_ms());
        Ok((Path::new(&self.folder).join(name), key))
    }

    /// Deletes the backups above the number that is kept, the oldest first. Called once a new one is
    /// durable; a file that cannot be deleted stays until the next time. The last one stays, also if a
    /// clock that was ahead gave later names to others.
    pub fn delete_surplus(&self) {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let is_own = |name: &str| {
            let time = name.strip_prefix(PREFIX).and_then(|name| name.strip_suffix(SUFFIX));
            time.is_some_and(|time| time.len() == 13 && time.bytes().all(|b| b.is_ascii_digit()))
        };
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let last = self.last.as_ref().map(|last| last.name.as_str());
        let (newest, mut own): (Vec<String>, Vec<String>) =
            names.filter(|name| is_own(name)).partition(|name| Some(name.as_str()) == last);
        own.sort();
        let surplus = own.len().saturating_sub(self.keep.max(1) - newest.len());
        for name in &own[..surplus] {
            let _ = fs::remove_file(Path::new(&self.folder).join(name));
        }
    }
}

/// Reads the private key for an automatic backup, which lies in the same folder.
pub(super) fn key_beside(backup: &Path, pass: &[u8]) -> Result<StaticKey, Fault> {
    let path = backup.with_file_name(KEY_FILE);
    if !path.exists() {
        let text = format!("the backup needs the file {KEY_FILE} from its folder");
        return Err(Fault::new(Exit::NotFound, text, "copy both files into one folder"));
    }
    open_key(&path, pass)
}

fn open_key(path: &Path, pass: &[u8]) -> Result<StaticKey, Fault> {
    let file = fs::read(path).map_err(|error| private::cannot_read(path, &error))?;
    if file.len() > ROW_BYTES_MAX {
        return Err(wrong_key());
    }
    let mut input = &file[..];
    let key = BackupKey::open(&mut input, &Identity::Passphrase(pass))?;
    let mut chunks = ChunkReader::begin(input, &key)?;
    let mut text = Zeroizing::new(Vec::with_capacity(128));
    let mut byte = [0];
    while !chunks.is_at_end() && text.len() < 128 {
        chunks.take(&mut byte)?;
        text.push(byte[0]);
    }
    let text = std::str::from_utf8(&text).ok().and_then(|text| read_secret(text.trim()));
    text.map(StaticKey::from_scalar::<AwsLc>).ok_or_else(wrong_key)
}
