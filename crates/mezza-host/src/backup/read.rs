//! Reading a backup. The first pass goes through the whole file and writes nothing; the second one fills a
//! new vault in one transaction.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use blake2::digest::consts::U32;
use blake2::{Blake2b, Digest};
use data_encoding::HEXLOWER;
use mezza_core::{CryptoRng, Time, Wiping};
use mezza_messenger::backup::{BackupError, BackupNetwork};
use mezza_messenger::device::backup::restore::RestoreRows;
use mezza_messenger::io::NetworkAddress;
use mezza_messenger::{RecordChange, RecordKind, Retention, WriteBatch};
use serde::de::DeserializeOwned;
use zeroize::Zeroizing;

use super::age::{BackupKey, Identity};
use super::auto::key_beside;
use super::chunks::ChunkReader;
use super::lines::{BackupManifest, BudgetLine, ContactLine, IdentityJson, NoteLine, WindowLine};
use super::progress::WorkProgress;
use super::tar::{BLOCK_BYTES, END_BYTES, fill_bytes, read_header};
use super::write::padded_size;
use super::{
    BUDGET_LINE_BYTES_MAX, ENTRIES, FILE_BYTES_MAX, FORMAT, LINE_BYTES_MAX, MANIFEST, PADDING,
    damaged, refused,
};
use crate::api::{Exit, Fault};
use crate::backend::AwsLc;
use crate::process::home::private;
use crate::store::Record;

/// Bytes that are read of an entry at once.
const PIECE_BYTES: usize = 32 << 10;

/// A backup whose header was opened.
pub struct BackupReader<R = File> {
    file: R,
    key: BackupKey,
    progress: WorkProgress,
}

/// Receives the rows of a restored device.
pub type RowSink<'a> = dyn FnMut(RecordChange) -> Result<(), Fault> + 'a;

/// A backup that was read to its end.
pub struct ReadBackup {
    /// Manifest of the backup.
    pub manifest: BackupManifest,
    /// `settings.toml`.
    pub settings: String,
}

impl BackupReader<File> {
    /// Opens a file. With a passphrase this takes about a second and 256 MiB.
    ///
    /// # Errors
    /// Exit code 66 if there is no file, 65 if it is longer than 4 GiB, 77 for a wrong passphrase
    /// or a damaged header.
    pub fn open(path: &Path, identity: &Identity<'_>) -> Result<Self, Fault> {
        let file = File::open(path).map_err(|error| private::cannot_read(path, &error))?;
        let found = file.metadata().map_err(|error| private::cannot_read(path, &error))?;
        if !found.is_file() {
            let text = format!("{} is not a file", path.display());
            return Err(Fault::new(Exit::NotFound, text, "name the file of the backup"));
        }
        if found.len() > FILE_BYTES_MAX {
            return Err(damaged("it is longer than 4 GiB"));
        }
        Self::new(file, identity)
    }

    /// Opens a file with a passphrase: that of the file, or that of the key in the same folder for
    /// an automatic backup.
    ///
    /// # Errors
    /// The errors of [`BackupReader::open`]; exit code 66 if the key is not in the same folder.
    pub fn open_with_passphrase(path: &Path, pass: &[u8]) -> Result<Self, Fault> {
        let mut file = File::open(path).map_err(|error| private::cannot_read(path, &error))?;
        if BackupKey::is_to_key(&mut BufReader::new(&mut file)) {
            let own = key_beside(path, pass)?;
            return Self::open(path, &Identity::Key(&own));
        }
        Self::open(path, &Identity::Passphrase(pass))
    }
}

impl<R: Read + Seek> BackupReader<R> {
    /// Opens a backup from its first byte on.
    ///
    /// # Errors
    /// Exit code 77 for another identity or a damaged header.
    pub fn new(mut file: R, identity: &Identity<'_>) -> Result<Self, Fault> {
        let key = BackupKey::open(&mut BufReader::new(&mut file), identity)?;
        Ok(Self { file, key, progress: WorkProgress::default() })
    }

    /// Reports each byte that is read from now on.
    pub fn report_to(&mut self, progress: WorkProgress) {
        self.progress = progress;
    }

    /// Returns the archive without checking anything in it. For tests of readers.
    ///
    /// # Errors
    /// Exit code 65 if a part of it does not open.
    pub fn read_archive(&mut self) -> Result<Vec<u8>, Fault> {
        let mut chunks = self.open_chunks()?;
        let mut archive = Vec::new();
        let mut block = [0; BLOCK_BYTES];
        while !chunks.is_at_end() {
            chunks.take(&mut block)?;
            archive.extend_from_slice(&block);
        }
        Ok(archive)
    }

    fn open_chunks(&mut self) -> Result<ChunkReader<BufReader<&mut R>>, Fault> {
        let start = self.key.header.len() as u64;
        self.file.seek(SeekFrom::Start(start)).map_err(|_| damaged("it cannot be read"))?;
        ChunkReader::begin(BufReader::new(&mut self.file), &self.key)
    }

    /// Reads the whole backup, and checks every hash and every line. Passes the rows of the
    /// restored device to `sink`, one after another.
    ///
    /// # Errors
    /// Exit code 65 if a device would not write this content; the errors of `sink`.
    pub fn read_rows(
        &mut self,
        now: Time,
        rng: &mut dyn CryptoRng,
        sink: &mut RowSink<'_>,
    ) -> Result<ReadBackup, Fault> {
        let progress = self.progress.clone();
        let chunks = self.open_chunks()?;
        let mut archive = Archive { chunks, used: 0, progress };
        let manifest = read_manifest(&mut archive)?;
        let mut values = Values { rows: None, manifest: &manifest, now, rng, sink };
        let mut settings = String::new();
        for (name, entry) in ENTRIES.into_iter().zip(&manifest.entries) {
            let size = archive.begin_entry(name, manifest.made_ms / 1_000)?;
            if size != entry.bytes {
                return Err(damaged(&format!("{name} has another length")));
            }
            let mut lines = Lines::new(&mut archive, size);
            match name {
                "settings.toml" => settings = lines.read_text()?,
                _ => values.take_entry(name, &mut lines)?,
            }
            let hash = HEXLOWER.encode(&lines.hash.finalize());
            if hash != entry.blake2b256 {
                return Err(damaged(&format!("{name} has another content")));
            }
            archive.skip_zeros(fill_bytes(size) as u64)?;
        }
        archive.end(manifest.made_ms / 1_000)?;
        // Rows that depend on all others are made once the whole file was read.
        values.finish()?;
        Ok(ReadBackup { manifest, settings })
    }
}

fn read_manifest<R: BufRead>(archive: &mut Archive<R>) -> Result<BackupManifest, Fault> {
    let mut block = [0; BLOCK_BYTES];
    archive.take(&mut block)?;
    // The header contains the time of the backup, which is known only from the manifest itself.
    let header = read_header(&block, MANIFEST)?;
    if header.size > LINE_BYTES_MAX as u64 {
        return Err(damaged("the manifest is too long"));
    }
    let mut bytes = vec![0; header.size as usize];
    archive.take(&mut bytes)?;
    archive.skip_zeros(fill_bytes(header.size) as u64)?;
    let version = serde_json::from_slice::<serde_json::Value>(&bytes).ok();
    let format = version.as_ref().and_then(|value| value["format"].as_u64());
    if format.is_some_and(|format| format > u64::from(FORMAT)) {
        let text = "the backup was made by a newer version of the program";
        return Err(Fault::new(Exit::Config, text, "install the newest version"));
    }
    let manifest: BackupManifest = parse(&bytes, "the manifest")?;
    let names = manifest.entries.iter().map(|entry| entry.name.as_str());
    let is_known = manifest.format == FORMAT && names.eq(ENTRIES);
    if !is_known || manifest.made_ms / 1_000 != header.made_s {
        return Err(damaged("the manifest names other entries"));
    }
    Ok(manifest)
}

/// The key of the vault's record of a mixnet that is joined again at the first start.
const REJOIN: &[u8] = b"rejoin";

fn put_rejoin(network: &BackupNetwork) -> RecordChange {
    let value = Wiping::new([network.pin.as_slice(), network.address.as_bytes()].concat());
    let kind = RecordKind::Setting;
    RecordChange::Put { kind, key: REJOIN.to_vec(), bucket: Retention::Permanent, value }
}

/// Returns the mixnet that a restored vault joins again, and the batch that deletes this record.
/// The budget that was spent before the backup still counts (BACKUP-24).
pub fn network_to_rejoin(records: &[Record]) -> Option<(NetworkAddress, WriteBatch)> {
    let kind = RecordKind::Setting;
    let own = records.iter().find(|(of, key, _)| (*of, &key[..]) == (kind, REJOIN))?;
    let (pin, address) = own.2.split_first_chunk()?;
    let address = std::str::from_utf8(address).ok()?.to_owned();
    let forget = WriteBatch(vec![RecordChange::Drop { kind, key: REJOIN.to_vec() }]);
    Some((NetworkAddress { pin: *pin, address }, forget))
}

fn parse<T: DeserializeOwned>(bytes: &[u8], what: &str) -> Result<T, Fault> {
    serde_json::from_slice(bytes).map_err(|_| refused(&format!("{what} cannot be read")))
}

/// The archive in the payload.
struct Archive<R: BufRead> {
    chunks: ChunkReader<R>,
    /// Bytes so far.
    used: u64,
    progress: WorkProgress,
}

impl<R: BufRead> Archive<R> {
    fn take(&mut self, bytes: &mut [u8]) -> Result<(), Fault> {
        self.used += bytes.len() as u64;
        self.progress.add_done(bytes.len() as u64);
        self.chunks.take(bytes)
    }

    /// Reads the header of the entry that must come next. Returns its size.
    fn begin_entry(&mut self, name: &str, made_s: u64) -> Result<u64, Fault> {
        let mut block = [0; BLOCK_BYTES];
        self.take(&mut block)?;
        let header = read_header(&block, name)?;
        if header.made_s == made_s {
            Ok(header.size)
        } else {
            Err(damaged(&format!("{name} is of another time")))
        }
    }

    fn skip_zeros(&mut self, mut bytes: u64) -> Result<(), Fault> {
        let mut piece = vec![0; PIECE_BYTES];
        while bytes > 0 {
            let now = usize::try_from(bytes).map_or(PIECE_BYTES, |left| left.min(PIECE_BYTES));
            self.take(&mut piece[..now])?;
            if piece[..now].iter().any(|byte| *byte != 0) {
                return Err(damaged("there is something where nothing should be"));
            }
            bytes -= now as u64;
        }
        Ok(())
    }

    /// Reads padding and end of the archive. No byte may follow.
    fn end(&mut self, made_s: u64) -> Result<(), Fault> {
        let total = padded_size(self.used + (BLOCK_BYTES + END_BYTES) as u64);
        let padding = self.begin_entry(PADDING, made_s)?;
        if self.used + padding + END_BYTES as u64 != total {
            return Err(damaged("its padding has another length"));
        }
        self.skip_zeros(padding + END_BYTES as u64)?;
        if self.chunks.is_at_end() { Ok(()) } else { Err(damaged("it is too long")) }
    }
}

/// The lines of one entry.
struct Lines<'a, R: BufRead> {
    archive: &'a mut Archive<R>,
    left: u64,
    hash: Blake2b<U32>,
    piece: Zeroizing<Vec<u8>>,
    /// Number of bytes of the buffer that were returned.
    given: usize,
}

impl<'a, R: BufRead> Lines<'a, R> {
    fn new(archive: &'a mut Archive<R>, size: u64) -> Self {
        let piece = Zeroizing::new(Vec::with_capacity(PIECE_BYTES));
        Self { archive, left: size, hash: Blake2b::new(), piece, given: 0 }
    }

    /// Reads the next line, without its end; `None` after the last one.
    fn next_line(&mut self, bytes_max: usize) -> Result<Option<Zeroizing<Vec<u8>>>, Fault> {
        let mut line = Zeroizing::new(Vec::new());
        loop {
            if self.given == self.piece.len() && !self.fill_piece()? {
                let is_whole = line.is_empty();
                return if is_whole { Ok(None) } else { Err(damaged("a line has no end")) };
            }
            let rest = &self.piece[self.given..];
            let end = rest.iter().position(|byte| *byte == b'\n');
            let part = &rest[..end.unwrap_or(rest.len())];
            if line.len() + part.len() > bytes_max {
                return Err(damaged("a line is too long"));
            }
            line.extend_from_slice(part);
            self.given += part.len() + usize::from(end.is_some());
            if end.is_some() {
                return Ok(Some(line));
            }
        }
    }

    /// Reads the rest of the entry as one text.
    fn read_text(&mut self) -> Result<String, Fault> {
        if self.left > LINE_BYTES_MAX as u64 {
            return Err(damaged("the settings are too long"));
        }
        let mut text = Vec::new();
        while self.fill_piece()? {
            text.extend_from_slice(&self.piece);
        }
        String::from_utf8(text).map_err(|_| refused("the settings are no text"))
    }

    fn fill_piece(&mut self) -> Result<bool, Fault> {
        let now = usize::try_from(self.left).map_or(PIECE_BYTES, |left| left.min(PIECE_BYTES));
        self.piece.resize(now, 0);
        self.given = 0;
        self.archive.take(&mut self.piece)?;
        self.hash.update(&*self.piece);
        self.left -= now as u64;
        Ok(now > 0)
    }
}

/// The values of a backup that are being converted to rows.
struct Values<'a> {
    rows: Option<RestoreRows>,
    manifest: &'a BackupManifest,
    now: Time,
    rng: &'a mut dyn CryptoRng,
    sink: &'a mut RowSink<'a>,
}

impl Values<'_> {
    fn take_entry<R: BufRead>(
        &mut self,
        name: &str,
        lines: &mut Lines<'_, R>,
    ) -> Result<(), Fault> {
        let most = if name == "budget.jsonl" { BUDGET_LINE_BYTES_MAX } else { LINE_BYTES_MAX };
        let mut count = 0_u64;
        while let Some(line) = lines.next_line(most)? {
            count += 1;
            let what = || refused(&format!("line {count} of {name} is none of a device"));
            self.take_line(name, &line)?.ok_or_else(what)?;
        }
        let counts = &self.manifest.counts;
        let expected = match name {
            "identity.json" => 1,
            "contacts.jsonl" => counts.contacts,
            "notes.jsonl" => counts.notes,
            "windows.jsonl" => counts.windows,
            _ => counts.networks,
        };
        if count == expected {
            Ok(())
        } else {
            Err(damaged(&format!("lines of {name} are missing")))
        }
    }

    /// Reads one line. Returns `None` if one of its fields is invalid.
    fn take_line(&mut self, name: &str, line: &[u8]) -> Result<Option<()>, Fault> {
        let own = |error: BackupError| refused(&error.to_string());
        if name == "identity.json" {
            let Some(identity) = parse::<IdentityJson>(line, name)?.into_identity() else {
                return Ok(None);
            };
            if self.rows.is_some() {
                return Ok(None);
            }
            let made = Time::from_ms(self.manifest.made_ms);
            let rows = RestoreRows::new::<AwsLc>(identity, made, self.now, self.rng);
            self.rows = Some(rows.map_err(own)?);
            return Ok(Some(()));
        }
        let Some(rows) = &mut self.rows else { return Ok(None) };
        let row = match name {
            "contacts.jsonl" => {
                let contact = parse::<ContactLine>(line, name)?.into_contact();
                contact.map(|contact| rows.add_contact(contact, self.rng))
            }
            "notes.jsonl" => {
                parse::<NoteLine>(line, name)?.into_note().map(|note| rows.add_note(note))
            }
            "windows.jsonl" => {
                parse::<WindowLine>(line, name)?.into_window().map(|window| rows.add_window(window))
            }
            _ => {
                let network = parse::<BudgetLine>(line, name)?.into_network();
                if let Some(joined) = network.as_ref().filter(|network| network.joined) {
                    (self.sink)(put_rejoin(joined))?;
                }
                network.map(|network| rows.add_network(network))
            }
        };
        match row {
            None => Ok(None),
            Some(row) => (self.sink)(row.map_err(own)?).map(Some),
        }
    }

    fn finish(self) -> Result<(), Fault> {
        let rows = self.rows.ok_or_else(|| damaged("there is no identity in it"))?;
        rows.finish().try_for_each(self.sink)
    }
}
