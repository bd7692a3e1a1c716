//! Writes a backup: every entry is generated twice, once for its hash and once for the file, so
//! that memory does not grow with the notes.

use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use blake2::digest::consts::U32;
use blake2::{Blake2b, Digest};
use data_encoding::HEXLOWER;
use mezza_core::{CryptoRng, Time};
use mezza_messenger::Device;
use mezza_messenger::device::backup::BackupView;
use serde::Serialize;
use zeroize::Zeroizing;

use super::age::BackupKey;
use super::chunks::ChunkWriter;
use super::lines::{
    BackupCounts, BackupManifest, BudgetLine, ContactLine, IdentityJson, ManifestEntry, NoteLine,
    WindowLine,
};
use super::progress::WorkProgress;
use super::tar::{BLOCK_BYTES, END_BYTES, fill_bytes, write_header};
use super::{ENTRIES, FILE_BYTES_MAX, FORMAT, MANIFEST, PADDING};
use crate::api::{Exit, Fault};
use crate::backend::AwsLc;
#[cfg(any(test, feature = "failing-writes"))]
use crate::process::home::failing::{self, WriteStep};

/// The least size of a payload: 4 * 2^4 KiB.
const SIZE_BYTES_MIN: u64 = 64 << 10;
/// Suffix of a file that is being written.
const FRESH: &str = ".part";

/// Contents of a backup.
pub struct BackupContent<'a> {
    /// The device.
    pub device: &'a Device<AwsLc>,
    /// The settings, without paths of this machine.
    pub settings: &'a str,
    /// The time of the backup.
    pub made: Time,
    /// Counts the bytes of the archive as they are written.
    pub progress: WorkProgress,
}

/// Receives the bytes of an entry.
type Sink<'a> = dyn FnMut(&[u8]) -> Result<(), Fault> + 'a;

/// Writes a backup to a new file of mode 0600, durably. Returns its manifest.
///
/// # Errors
/// Exit code 73 if the file already exists, or the disk refuses. No file is left then.
pub fn write_backup(
    path: &Path,
    key: &BackupKey,
    content: &BackupContent<'_>,
    rng: &mut dyn CryptoRng,
) -> Result<BackupManifest, Fault> {
    if path.symlink_metadata().is_ok() {
        let text = format!("{} is there already", path.display());
        return Err(Fault::new(Exit::CannotWrite, text, "choose another name"));
    }
    let fresh = fresh_path(path);
    let written = create_file(&fresh)
        .and_then(|file| write_file(file, key, content, rng))
        .and_then(|manifest| rename_durably(&fresh, path).map(|()| manifest));
    written.inspect_err(|_| drop(fs::remove_file(&fresh)))
}

fn fresh_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(FRESH);
    PathBuf::from(name)
}

fn create_file(path: &Path) -> Result<File, Fault> {
    // A partial file from an interrupted run is useless, so it is deleted.
    let _ = fs::remove_file(path);
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    made.map_err(|error| cannot_write(path, &error))
}

fn rename_durably(fresh: &Path, path: &Path) -> Result<(), Fault> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    fs::rename(fresh, path).map_err(|error| cannot_write(path, &error))?;
    let synced = sync_folder(folder.unwrap_or(Path::new(".")));
    synced.map_err(|error| {
        // Reported as a failure, the backup must not be taken for a good one later (BACKUP-5).
        let _ = fs::remove_file(path);
        cannot_write(path, &error)
    })
}

fn sync_folder(folder: &Path) -> std::io::Result<()> {
    #[cfg(any(test, feature = "failing-writes"))]
    failing::planned_result(WriteStep::SyncFolder)?;
    File::open(folder)?.sync_all()
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Fault {
    let text = format!("{} cannot be written: {error}", path.display());
    Fault::new(Exit::CannotWrite, text, "make room, or choose another folder")
}

fn write_file(
    file: File,
    key: &BackupKey,
    content: &BackupContent<'_>,
    rng: &mut dyn CryptoRng,
) -> Result<BackupManifest, Fault> {
    let manifest = make_manifest(content)?;
    let entries = manifest.entries.iter().map(|entry| whole_blocks(entry.bytes));
    content.progress.set_total(padded_size(entries.sum()));
    let mut chunks = ChunkWriter::begin(BufWriter::new(file), key, rng)?;
    write_payload(&manifest, content, &mut |bytes| {
        #[cfg(any(test, feature = "failing-writes"))]
        failing::planned_result(WriteStep::Write)
            .map_err(|error| cannot_write(Path::new("backup"), &error))?;
        content.progress.add_done(bytes.len() as u64);
        chunks.put(bytes)
    })?;
    let mut out = chunks.finish()?;
    let synced = out.flush().and_then(|()| out.get_ref().sync_all());
    synced.map_err(|error| cannot_write(Path::new("the backup"), &error))?;
    Ok(manifest)
}

/// Seals an archive without checking it. For tests of readers.
///
/// # Errors
/// A bug of this program if the archive cannot be sealed.
pub fn seal_archive(
    archive: &[u8],
    key: &BackupKey,
    rng: &mut dyn CryptoRng,
) -> Result<Vec<u8>, Fault> {
    let mut chunks = ChunkWriter::begin(Vec::new(), key, rng)?;
    chunks.put(archive)?;
    chunks.finish()
}

/// Goes through every entry once, for lengths, hashes and counts.
fn make_manifest(content: &BackupContent<'_>) -> Result<BackupManifest, Fault> {
    let mut counts = BackupCounts::default();
    let mut entries = Vec::new();
    for name in ENTRIES {
        let mut hash = Blake2b::<U32>::new();
        let mut bytes = 0_u64;
        let lines = write_entry(name, content, &mut |part| {
            hash.update(part);
            bytes += part.len() as u64;
            Ok(())
        })?;
        match name {
            "contacts.jsonl" => counts.contacts = lines,
            "notes.jsonl" => counts.notes = lines,
            "windows.jsonl" => counts.windows = lines,
            "budget.jsonl" => counts.networks = lines,
            _ => {}
        }
        let blake2b256 = HEXLOWER.encode(&hash.finalize());
        entries.push(ManifestEntry { name: name.into(), bytes, blake2b256 });
    }
    let program = env!("CARGO_PKG_VERSION").into();
    Ok(BackupManifest { format: FORMAT, made_ms: content.made.as_ms(), program, counts, entries })
}

/// Writes the archive.
fn write_payload(
    manifest: &BackupManifest,
    content: &BackupContent<'_>,
    sink: &mut Sink<'_>,
) -> Result<(), Fault> {
    let made_s = manifest.made_ms / 1_000;
    let first = json_line(manifest)?;
    sink(&write_header(MANIFEST, first.len() as u64, made_s)?)?;
    sink(&first)?;
    sink(&zeros(fill_bytes(first.len() as u64)))?;
    let mut used = whole_blocks(first.len() as u64);
    for entry in &manifest.entries {
        sink(&write_header(&entry.name, entry.bytes, made_s)?)?;
        let mut bytes = 0;
        write_entry(&entry.name, content, &mut |part| {
            bytes += part.len() as u64;
            sink(part)
        })?;
        if bytes != entry.bytes {
            return Err(Fault::bug("an entry of the backup changed while it was written"));
        }
        sink(&zeros(fill_bytes(bytes)))?;
        used += whole_blocks(bytes);
    }
    write_padding(used, made_s, sink)
}

/// Pads the archive to a size of the form (4 to 7) * 2^k KiB, and ends it.
fn write_padding(used: u64, made_s: u64, sink: &mut Sink<'_>) -> Result<(), Fault> {
    let around = (BLOCK_BYTES + END_BYTES) as u64;
    let total = padded_size(used + around);
    if total > FILE_BYTES_MAX - (1 << 20) {
        let text = "there is more than a backup of 4 GiB holds";
        return Err(Fault::new(
            Exit::CannotWrite,
            text,
            "delete conversations that you do not need",
        ));
    }
    let padding = total - used - around;
    sink(&write_header(PADDING, padding, made_s)?)?;
    let piece = zeros(64 << 10);
    let mut left = padding + END_BYTES as u64;
    while left > 0 {
        let now = usize::try_from(left).map_or(piece.len(), |left| left.min(piece.len()));
        sink(&piece[..now])?;
        left -= now as u64;
    }
    Ok(())
}

/// The next size of the form (4 to 7) * 2^k KiB.
pub(super) fn padded_size(bytes: u64) -> u64 {
    let mut step = SIZE_BYTES_MIN / 4;
    while bytes > 7 * step {
        step *= 2;
    }
    bytes.next_multiple_of(step).max(SIZE_BYTES_MIN)
}

fn whole_blocks(bytes: u64) -> u64 {
    BLOCK_BYTES as u64 + bytes + fill_bytes(bytes) as u64
}

fn zeros(bytes: usize) -> Vec<u8> {
    vec![0; bytes]
}

/// Writes the content of an entry. Returns the number of its lines.
fn write_entry(name: &str, content: &BackupContent<'_>, sink: &mut Sink<'_>) -> Result<u64, Fault> {
    let view = BackupView::new(content.device);
    match name {
        "identity.json" => {
            let identity = view.identity();
            put_lines([IdentityJson::of_identity(&identity)].into_iter(), sink)
        }
        "contacts.jsonl" => {
            put_lines(view.contacts().map(|contact| ContactLine::of_contact(&contact)), sink)
        }
        "notes.jsonl" => put_lines(view.notes().map(|note| NoteLine::of_note(&note)), sink),
        "windows.jsonl" => {
            put_lines(view.windows().map(|window| WindowLine::of_window(&window)), sink)
        }
        "budget.jsonl" => {
            put_lines(view.networks().map(|network| BudgetLine::of_network(&network)), sink)
        }
        _ => sink(content.settings.as_bytes()).map(|()| 1),
    }
}

fn put_lines(
    lines: impl Iterator<Item = impl Serialize>,
    sink: &mut Sink<'_>,
) -> Result<u64, Fault> {
    let mut count = 0;
    for line in lines {
        sink(&json_line(&line)?)?;
        count += 1;
    }
    Ok(count)
}

fn json_line(value: &impl Serialize) -> Result<Zeroizing<Vec<u8>>, Fault> {
    let mut line = Zeroizing::new(Vec::with_capacity(1_024));
    serde_json::to_writer(&mut *line, value)
        .map_err(|_| Fault::bug("a value of the backup cannot be written"))?;
    line.push(b'\n');
    Ok(line)
}
