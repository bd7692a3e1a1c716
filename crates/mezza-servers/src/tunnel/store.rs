//! The state folder: one file of two slots for each pairing, and the thread that writes them.
//!
//! ```text
//! STATE/           0700
//!   lock                one daemon, or one `pair`, at a time (SEKA-51)
//!   store.key    0600   32 bytes: opens the records
//!   id           0600   6 bytes: our name on links
//!   peers/ID.st  0600   two slots, at 0 and 4,096: 256 sealed bytes each
//!   peers/ID.next       the same of a pairing that replaces it, until that one stands
//!   peers/ID.toml       interface and carrier of the pairing, for people
//! ```
//!
//! With `state = "ram"` there is no folder: key, name and pairings end with the process, and writes
//! succeed at once.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc;

use data_encoding::HEXLOWER;
use mezza_core::{CryptoRng, Secret};
use mezza_seka::record::SEALED_BYTES;
use mezza_seka::{LinkId, PeerRecord, StoreKey};

use mezza_host::api::{Exit, Fault};
use mezza_host::process::home::private;
use mezza_host::process::lock::Lock;

/// The offset of the second slot, bytes.
const SLOT_BYTES: u64 = 4_096;
const FILE_BYTES: usize = 2 * SLOT_BYTES as usize;
/// Maximum number of writes that wait for the thread.
const WRITES_MAX: usize = 256;

/// The state folder and its lock, or the state in memory.
#[derive(Debug)]
pub struct StateFolder {
    /// The path; `None`: in memory.
    root: Option<PathBuf>,
    key: StoreKey,
    id: LinkId,
    _lock: Option<Lock>,
}

/// A pairing that was read, or the reason why it could not be read. It is quarantined then, and
/// other pairings still run.
pub(crate) enum StoredPeer {
    /// The record opened.
    Sound(Box<(u64, PeerRecord)>, PeerFile),
    /// The record did not open.
    Damaged(DamagedPeer),
}

/// A pairing whose record does not open.
#[derive(Clone, Debug)]
pub struct DamagedPeer {
    /// The file name of the record.
    pub file: String,
    /// The device, as the file name states it.
    pub peer: Option<LinkId>,
}

impl StateFolder {
    /// Opens the folder, and makes missing parts.
    ///
    /// # Errors
    /// Exit code 75 if another process uses the folder, 77 for wrong modes, 73 if the folder cannot
    /// be written.
    pub(crate) fn open(root: &Path, rng: &mut dyn CryptoRng) -> Result<Self, Fault> {
        let root = Self::make_folder(root)?;
        private::make_folder(&root.join("peers"))?;
        let next = "stop that process, or name another --state";
        let lock = Lock::take_of(&root.join("lock"), "the state folder", next)?;
        let key = StoreKey::new(load_or_draw(&root.join("store.key"), rng)?);
        let id = load_id(&root.join("id"), rng)?;
        Ok(Self { root: Some(root), key, id, _lock: Some(lock) })
    }

    /// Makes the folder if it is missing. Returns its path without symbolic links.
    ///
    /// # Errors
    /// Exit code 77 for wrong modes, 73 if the folder cannot be made.
    pub fn make_folder(root: &Path) -> Result<PathBuf, Fault> {
        if let Some(above) = root.parent().filter(|above| !above.exists()) {
            fs::create_dir_all(above).map_err(|error| private::cannot_write(above, &error))?;
        }
        // The service manager may have made the folder a symbolic link.
        let root = fs::canonicalize(root).unwrap_or_else(|_| root.to_path_buf());
        private::make_folder(&root)?;
        Ok(root)
    }

    /// Draws a key and a name for the lifetime of this value.
    pub(crate) fn in_memory(rng: &mut dyn CryptoRng) -> Self {
        let key = StoreKey::new(Secret::random(rng));
        let id = LinkId::random(rng);
        Self { root: None, key, id, _lock: None }
    }

    /// Returns the key of the records.
    pub(crate) fn key(&self) -> StoreKey {
        self.key.duplicate()
    }

    /// Returns our name on links.
    pub(crate) fn id(&self) -> LinkId {
        self.id
    }

    /// Loads all pairings.
    ///
    /// # Errors
    /// If the folder cannot be read, or a finished pairing cannot replace its old file.
    pub(crate) fn load_peers(&self) -> Result<Vec<StoredPeer>, Fault> {
        for path in self.list_files("next")? {
            let sealed = private::read(&path, FILE_BYTES).unwrap_or_default();
            let stands =
                self.newest_record(&path, &sealed).is_some_and(|((_, record), _)| record.accepted);
            // A crash came before the file was renamed, or the pairing was never completed.
            if stands {
                put_in_place(&path).map_err(|error| private::cannot_write(&path, &error))?;
            } else {
                private::wipe(&path)?;
            }
        }
        let paths = self.list_files("st")?;
        for path in paths.iter().filter(|path| is_empty(path)) {
            // A full disk left an empty file, which never held a pairing.
            fs::remove_file(path).map_err(|error| private::cannot_write(path, &error))?;
        }
        Ok(self.list_files("st")?.iter().map(|path| self.load_peer(path)).collect())
    }

    /// Returns the files with this extension, in order.
    fn list_files(&self, ending: &str) -> Result<Vec<PathBuf>, Fault> {
        let Some(root) = &self.root else { return Ok(Vec::new()) };
        let folder = root.join("peers");
        let entries =
            fs::read_dir(&folder).map_err(|error| private::cannot_read(&folder, &error))?;
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.retain(|path| path.extension().is_some_and(|found| found == ending));
        paths.sort();
        Ok(paths)
    }

    fn load_peer(&self, path: &Path) -> StoredPeer {
        match private::read(path, FILE_BYTES)
            .ok()
            .and_then(|bytes| self.newest_record(path, &bytes))
        {
            Some((stored, file)) => StoredPeer::Sound(Box::new(stored), file),
            None => StoredPeer::Damaged(DamagedPeer {
                file: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
                peer: peer_of(path),
            }),
        }
    }

    fn newest_record(&self, path: &Path, bytes: &[u8]) -> Option<((u64, PeerRecord), PeerFile)> {
        let slot = |at: usize| bytes.get(at..at + SEALED_BYTES).unwrap_or_default();
        let slots = [slot(0), slot(SLOT_BYTES as usize)];
        let (seq, place, record) = PeerRecord::open_newest(&self.key, slots).ok()?;
        let file = OpenOptions::new().write(true).open(path).ok()?;
        let file = PeerFile { file: Some(file), path: Some(path.to_path_buf()), newest: place };
        Some(((seq, record), file))
    }

    /// Returns the file for a pairing in progress. An existing record of the same device stays as
    /// it is until [`StateFolder::promote_pairing`] replaces it (SEKA-31).
    pub(crate) fn fresh_file(&self, peer: LinkId) -> PeerFile {
        let next = || self.file_path(peer, "next");
        let path = self.file_path(peer, "st");
        let path = path.and_then(|path| if path.exists() { next() } else { Some(path) });
        PeerFile { file: None, path, newest: 1 }
    }

    /// Returns the path for the note of a pairing in progress, or `None` if an older pairing with
    /// this device has one.
    pub(crate) fn fresh_note(&self, peer: LinkId) -> Option<PathBuf> {
        let path = self.file_path(peer, "st")?;
        if path.exists() { None } else { self.notes_path(peer) }
    }

    /// Makes the file of a completed pairing replace the older record of the device.
    ///
    /// # Errors
    /// Exit code 73 if the file cannot be replaced.
    pub(crate) fn promote_pairing(&self, peer: LinkId) -> Result<(), Fault> {
        let Some(path) = self.file_path(peer, "next").filter(|path| path.exists()) else {
            return Ok(());
        };
        put_in_place(&path).map_err(|error| private::cannot_write(&path, &error))
    }

    /// Removes the file of a failed pairing with this device.
    pub(crate) fn discard_pairing(&self, peer: LinkId) {
        let (Some(next), Some(path)) = (self.file_path(peer, "next"), self.file_path(peer, "st"))
        else {
            return;
        };
        if next.exists() {
            // The keys are overwritten too; a file that cannot be wiped now is removed at the next
            // start.
            let _ = private::wipe(&next);
        } else {
            // An empty file is the remainder of a first write to a full disk.
            let is_ours = match self.load_peer(&path) {
                StoredPeer::Sound(stored, _) => !stored.1.accepted,
                StoredPeer::Damaged(_) => is_empty(&path),
            };
            if is_ours {
                let _ = private::wipe(&path);
                let _ = fs::remove_file(path.with_extension("toml"));
            }
        }
    }

    /// Returns the path of the note of a pairing; `None` in memory.
    pub(crate) fn notes_path(&self, peer: LinkId) -> Option<PathBuf> {
        self.file_path(peer, "toml")
    }

    fn file_path(&self, peer: LinkId, ending: &str) -> Option<PathBuf> {
        let name = HEXLOWER.encode(peer.as_bytes());
        Some(self.root.as_ref()?.join("peers").join(format!("{name}.{ending}")))
    }

    /// Erases a pairing: overwrites both slots, then removes the file (SEKA-53).
    ///
    /// # Errors
    /// Exit code 73 if the file cannot be overwritten.
    pub(crate) fn forget_pairing(&self, peer: LinkId) -> Result<(), Fault> {
        let Some(path) = self.file_path(peer, "st") else { return Ok(()) };
        let wiped = OpenOptions::new().write(true).open(&path).and_then(|file| {
            file.write_all_at(&[0; FILE_BYTES], 0)?;
            file.sync_all()?;
            fs::remove_file(&path)?;
            sync_folder(&path)
        });
        wiped.map_err(|error| private::cannot_write(&path, &error))?;
        let _ = fs::remove_file(path.with_extension("toml"));
        Ok(())
    }
}

/// Returns true if a file is empty or all zeros, so that no record was ever written.
fn is_empty(path: &Path) -> bool {
    private::read(path, FILE_BYTES).is_ok_and(|bytes| bytes.iter().all(|byte| *byte == 0))
}

/// Returns the device named by a file name.
fn peer_of(path: &Path) -> Option<LinkId> {
    let name = HEXLOWER.decode(path.file_stem()?.as_encoded_bytes()).ok()?;
    LinkId::from_bytes(name.try_into().ok()?)
}

fn load_or_draw(path: &Path, rng: &mut dyn CryptoRng) -> Result<Secret<32>, Fault> {
    if !path.exists() {
        let key = Secret::<32>::random(rng);
        private::replace(path, key.expose())?;
        return Ok(key);
    }
    let bytes = mezza_core::Wiping::new(private::read(path, 33)?);
    <&[u8; 32]>::try_from(bytes.as_slice()).map(Secret::copy_from).map_err(|_| damage_fault(path))
}

fn load_id(path: &Path, rng: &mut dyn CryptoRng) -> Result<LinkId, Fault> {
    if !path.exists() {
        let id = LinkId::random(rng);
        private::replace(path, id.as_bytes())?;
        return Ok(id);
    }
    let bytes = private::read(path, 7)?;
    let id = <[u8; 6]>::try_from(bytes).ok().and_then(LinkId::from_bytes);
    id.ok_or_else(|| damage_fault(path))
}

fn damage_fault(path: &Path) -> Fault {
    let text = format!("{} is damaged", path.display());
    Fault::new(Exit::Malformed, text, "restore it, or move the whole folder away and pair again")
}

/// Overwrites the old record, and renames the new one to its name.
fn put_in_place(next: &Path) -> io::Result<()> {
    let path = next.with_extension("st");
    if let Ok(old) = OpenOptions::new().write(true).open(&path) {
        old.write_all_at(&[0; FILE_BYTES], 0)?;
        old.sync_all()?;
    }
    fs::rename(next, &path)?;
    sync_folder(&path)
}

fn sync_folder(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

/// The file of a pairing, with two slots.
#[derive(Debug)]
pub(crate) struct PeerFile {
    /// The open file; `None` until the first write.
    file: Option<File>,
    /// The path; `None`: in memory.
    path: Option<PathBuf>,
    /// The slot with the newest record.
    newest: usize,
}

impl PeerFile {
    /// Writes a record into the older slot, durably. After a failure the next write goes to the same
    /// slot (SEKA-24).
    fn write(&mut self, sealed: &[u8; SEALED_BYTES]) -> io::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        let slot = 1 - self.newest;
        let file = match self.file.take() {
            Some(file) => file,
            None => make_slots(path)?,
        };
        let written =
            file.write_all_at(sealed, slot as u64 * SLOT_BYTES).and_then(|()| file.sync_data());
        self.file = Some(file);
        written?;
        self.newest = slot;
        Ok(())
    }
}

/// Creates a file of zeros; file and name are durable when this returns.
fn make_slots(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(&[0; FILE_BYTES])?;
    file.sync_all()?;
    sync_folder(path)?;
    Ok(file)
}

/// A record for the writing thread.
pub(crate) struct RecordWrite {
    /// The link of the record.
    pub link: u16,
    /// The number of the write.
    pub seq: u64,
    /// The sealed record.
    pub sealed: Box<[u8; SEALED_BYTES]>,
}

/// An order to the writing thread.
enum Order {
    /// Opens the file of a pairing.
    Open(u16, PeerFile),
    Write(RecordWrite),
    /// Closes the file of a pairing, and notifies the caller.
    Close(u16, mpsc::SyncSender<()>),
}

/// The handle of the thread that writes to the disk.
#[derive(Clone)]
pub(crate) struct StoreThread(mpsc::SyncSender<Order>);

impl StoreThread {
    /// Starts the thread; `done` is called after each write, in order: link, number, success.
    pub(crate) fn start(done: impl Fn(u16, u64, bool) + Send + 'static) -> io::Result<Self> {
        let (sender, orders) = mpsc::sync_channel(WRITES_MAX);
        std::thread::Builder::new().name("link store".into()).spawn(move || {
            let mut files = std::collections::BTreeMap::<u16, PeerFile>::new();
            for order in orders {
                match order {
                    Order::Open(link, file) => {
                        files.insert(link, file);
                    }
                    Order::Write(RecordWrite { link, seq, sealed }) => {
                        let written = files.get_mut(&link).map(|file| file.write(&sealed));
                        let ok = matches!(written, Some(Ok(())));
                        if let Some(Err(error)) = written {
                            tracing::error!(%error, "a record of a link cannot be written");
                        }
                        done(link, seq, ok);
                    }
                    Order::Close(link, told) => {
                        files.remove(&link);
                        let _ = told.send(());
                    }
                }
            }
        })?;
        Ok(Self(sender))
    }

    /// Registers the file of a pairing.
    pub(crate) fn open(&self, link: u16, file: PeerFile) {
        let _ = self.0.send(Order::Open(link, file));
    }

    /// Queues a write. Blocks only if 256 writes wait, which one write per link never causes.
    pub(crate) fn write(&self, write: RecordWrite) {
        let _ = self.0.send(Order::Write(write));
    }

    /// Closes the file of a pairing after all its writes are done.
    pub(crate) fn close_file(&self, link: u16) {
        let (told, closed) = mpsc::sync_channel(1);
        if self.0.send(Order::Close(link, told)).is_ok() {
            let _ = closed.recv();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mezza_host::process::rng::OsRng;
    use std::io::Read;

    #[test]
    fn seka_53_a_record_that_is_forgotten_is_overwritten_before_its_file_goes() {
        let folder = tempfile::tempdir().expect("a folder");
        let state = StateFolder::open(&folder.path().join("link"), &mut OsRng).expect("open");
        let peer = LinkId::random(&mut OsRng);
        let mut file = state.fresh_file(peer);
        for byte in [1, 2, 3] {
            file.write(&[byte; SEALED_BYTES]).expect("written");
        }
        let path = state.file_path(peer, "st").expect("a file");
        let mut held = File::open(&path).expect("there");
        let mut before = Vec::new();
        held.read_to_end(&mut before).expect("read");
        assert!(before.contains(&3) && before.contains(&2) && !before.contains(&1));
        state.forget_pairing(peer).expect("forgotten");
        assert!(!path.exists());
        let mut after = vec![9; FILE_BYTES];
        held.read_exact_at(&mut after, 0).expect("the content is still held");
        assert!(after.iter().all(|byte| *byte == 0));
    }

    #[test]
    fn seka_53_a_pairing_that_came_to_nothing_is_overwritten_before_its_file_goes() {
        let folder = tempfile::tempdir().expect("a folder");
        let state = StateFolder::open(&folder.path().join("link"), &mut OsRng).expect("open");
        let peer = LinkId::random(&mut OsRng);
        for restarted in [false, true] {
            state.fresh_file(peer).write(&[1; SEALED_BYTES]).expect("written");
            state.fresh_file(peer).write(&[2; SEALED_BYTES]).expect("written");
            let path = state.file_path(peer, "next").expect("a file");
            let held = File::open(&path).expect("there");
            if restarted {
                drop(state.load_peers());
            } else {
                state.discard_pairing(peer);
            }
            let mut after = vec![9; FILE_BYTES];
            held.read_exact_at(&mut after, 0).expect("the content is still held");
            assert!(!path.exists() && after.iter().all(|byte| *byte == 0), "{restarted}");
            state.forget_pairing(peer).expect("the one that stands");
        }
    }

    #[test]
    fn a_pairing_that_is_replaced_stays_until_the_new_one_stands() {
        let folder = tempfile::tempdir().expect("a folder");
        let state = StateFolder::open(&folder.path().join("link"), &mut OsRng).expect("open");
        let peer = LinkId::random(&mut OsRng);
        let path = state.file_path(peer, "st").expect("a file");
        let slot = || fs::read(&path).expect("there")[..SEALED_BYTES].to_vec();
        state.fresh_file(peer).write(&[1; SEALED_BYTES]).expect("written");
        state.fresh_file(peer).write(&[2; SEALED_BYTES]).expect("written");
        assert_eq!(slot(), [1; SEALED_BYTES]);
        state.promote_pairing(peer).expect("in its place");
        assert_eq!(slot(), [2; SEALED_BYTES]);
        // A pairing that was never completed is removed at the next start; the older one stays.
        state.fresh_file(peer).write(&[3; SEALED_BYTES]).expect("written");
        assert_eq!(state.load_peers().expect("read").len(), 1);
        assert!(!state.file_path(peer, "next").expect("a file").exists());
        assert_eq!(slot(), [2; SEALED_BYTES]);
    }

    #[test]
    fn in_memory_nothing_is_written_and_everything_counts_as_written() {
        let state = StateFolder::in_memory(&mut OsRng);
        let peer = LinkId::random(&mut OsRng);
        state.fresh_file(peer).write(&[1; SEALED_BYTES]).expect("as if written");
        assert!(state.notes_path(peer).is_none() && state.load_peers().expect("none").is_empty());
        state.promote_pairing(peer).expect("as if in its place");
        state.discard_pairing(peer);
        state.forget_pairing(peer).expect("as if forgotten");
    }

    #[test]
    fn a_folder_is_opened_by_one_process_and_keeps_key_and_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("link");
        let state = StateFolder::open(&path, &mut OsRng).expect("open");
        let id = state.id();
        let key = fs::read(path.join("store.key")).expect("a key");
        let refused = StateFolder::open(&path, &mut OsRng).expect_err("locked");
        assert_eq!(refused.code, Exit::Busy);
        drop(state);
        let again = StateFolder::open(&path, &mut OsRng).expect("open");
        assert_eq!((again.id(), fs::read(path.join("store.key")).expect("a key")), (id, key));
    }
}
