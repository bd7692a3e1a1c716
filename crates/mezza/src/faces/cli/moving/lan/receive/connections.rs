//! The connections of a wait, each on a thread of its own.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{self, Read, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use mezza_core::Time;
use mezza_host::backup::{
    MoveNonce, MoveOffer, MoveStep, OFFER_BYTES_MAX, PROOF_BYTES, commit_to_nonce,
};
use mezza_host::clock::Moment;
use mezza_host::process::home::private;
use mezza_host::process::rng::OsRng;
use rand_core::Rng as _;

use super::super::{COMPARING, HELLO, KEY_BYTES_MAX, SILENCE};
use super::kept::{part_path, whole_files, whole_path};
use super::{ChosenFile, LanWait, WaitEvent, WaitLimits};

/// Connections without an offer that opens. One more closes the oldest of them.
const STRANGERS_MAX: usize = 16;
/// Connections with an offer, and files of moves on the disk.
const FILES_MAX: usize = 8;
/// Connections whose threads have not ended yet.
const OPEN_MAX: usize = 2 * STRANGERS_MAX + FILES_MAX;
/// Bytes of a file that are read at once.
const PIECE_BYTES: usize = 64 << 10;

/// Everything that the threads of a wait share.
pub(super) struct Book {
    folder: PathBuf,
    vault: PathBuf,
    limits: WaitLimits,
    room: fn(&Path) -> u64,
    entries: Mutex<Entries>,
    /// True once no further connection is accepted.
    is_over: AtomicBool,
    events: SyncSender<WaitEvent>,
}

#[derive(Default)]
struct Entries {
    next: u64,
    /// The open connections by number, the oldest first.
    open: BTreeMap<u64, Entry>,
    /// Bytes that were accepted and are not written yet.
    promised: u64,
}

struct Entry {
    stream: TcpStream,
    /// True once its offer has opened.
    is_offered: bool,
}

impl Book {
    /// Makes the state of a wait. Returns it with the socket.
    pub(super) fn open(wait: LanWait, events: SyncSender<WaitEvent>) -> (Arc<Self>, TcpListener) {
        let LanWait { listener, vault, folder, limits, room } = wait;
        let entries = Mutex::default();
        let is_over = AtomicBool::new(false);
        (Arc::new(Self { folder, vault, limits, room, entries, is_over, events }), listener)
    }

    /// Returns true once no further connection is accepted.
    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves a connection on a thread of its own.
    pub(super) fn serve(self: &Arc<Self>, stream: TcpStream) {
        let Ok(handle) = stream.try_clone() else { return };
        let mut entries = self.lock();
        let strangers = entries.open.iter().filter(|(_, entry)| !entry.is_offered);
        // The newest connection is served: otherwise silent ones would keep the old device out.
        if strangers.clone().count() >= STRANGERS_MAX
            && let Some((_, oldest)) = strangers.clone().next()
        {
            let _ = oldest.stream.shutdown(Shutdown::Both);
        }
        // Shutting down ends a thread soon; until then its entry counts, so that threads stay bounded.
        if entries.open.len() >= OPEN_MAX {
            return;
        }
        let id = entries.next;
        entries.next += 1;
        entries.open.insert(id, Entry { stream: handle, is_offered: false });
        drop(entries);
        let place = Place { book: Arc::clone(self), id };
        let thread = thread::Builder::new().name("move".into()).spawn(move || {
            let end = Self::deadline(place.book.limits.offer_ms);
            place.book.run_connection(Connection { id, stream, end });
        });
        // Dropping the closure has freed its place, and the next connection may find a thread.
        if let Err(error) = thread {
            self.report(WaitEvent::Dropped(format!("a connection was dropped: {error}")));
        }
    }

    fn deadline(after_ms: u64) -> Time {
        Moment::now().boot.plus_ms(after_ms)
    }

    fn report(&self, event: WaitEvent) {
        // The wait may have ended: then there is nothing to report to.
        let _ = self.events.send(event);
    }

    /// Ends the wait: closes all connections but the chosen one.
    pub(super) fn end_but_for(&self, chosen: Option<u64>) {
        self.is_over.store(true, Ordering::Release);
        for (_, entry) in self.lock().open.iter().filter(|(id, _)| Some(**id) != chosen) {
            let _ = entry.stream.shutdown(Shutdown::Both);
        }
    }

    /// Runs a connection to its end.
    fn run_connection(&self, mut connection: Connection) {
        let mut nonce: MoveNonce = [0; PROOF_BYTES];
        OsRng.fill_bytes(&mut nonce);
        // Other traffic of the network is dropped without a line: it is not about the move.
        let Some(offer) = connection.read_offer(&nonce, &self.vault) else { return };
        let stored = self.accept_claim(connection.id, &offer).and_then(|promise| {
            connection.end = Self::deadline(self.limits.whole_file_ms(promise.left));
            self.store_file(&mut connection, &offer, promise)
        });
        let file = match stored {
            Ok(file) => file,
            Err(text) => return self.report(WaitEvent::Dropped(text)),
        };
        let digits = offer.digits(&nonce);
        let proof = offer.prove(MoveStep::Stored, &nonce);
        if connection.stream.write_all(&[nonce, proof].concat()).is_err() {
            return self.report(WaitEvent::Dropped("the connection broke after its file".into()));
        }
        let Connection { id, stream, .. } = connection;
        let Ok(mut reading) = stream.try_clone() else { return };
        self.report(WaitEvent::Stored { id, digits });
        let proof = offer.prove(MoveStep::Made, &nonce);
        let key = read_key(&mut reading);
        let key = key.map(|key| ChosenFile { file, key, id, stream, proof });
        let is_broken = key.is_none();
        self.report(WaitEvent::Key { id, key });
        // A connection with a key counts as open until the wait ends.
        if !is_broken {
            let _ = reading.set_read_timeout(Some(COMPARING));
            let _ = reading.read(&mut [0]);
        }
    }

    /// Checks the claim of an offer before a byte of the file is stored.
    fn accept_claim(&self, id: u64, offer: &MoveOffer) -> Result<Promise<'_>, String> {
        let kept = whole_files(&self.folder).map_err(|fault| fault.text)?;
        let own = whole_path(&self.folder, offer);
        let mut entries = self.lock();
        let files = entries.open.values().filter(|entry| entry.is_offered).count();
        if files >= FILES_MAX || (kept.len() >= FILES_MAX && !kept.contains(&own)) {
            return Err(format!(
                "a file was refused: {FILES_MAX} are here already; delete those that no old device waits for"
            ));
        }
        let Some(bytes) = offer.file_bytes() else {
            return Err("a file was refused: it is longer than any vault".into());
        };
        // Room that another connection will fill is not free.
        let free = (self.room)(&self.folder).saturating_sub(entries.promised);
        if bytes > free {
            return Err(format!(
                "a file was refused: it has {bytes} bytes, and {free} are free here; make room, and send it again"
            ));
        }
        entries.promised += bytes;
        entries.open.entry(id).and_modify(|entry| entry.is_offered = true);
        drop(entries);
        Ok(Promise { book: self, left: bytes })
    }

    /// Stores the file of a connection. Returns its path once it is durable.
    fn store_file(
        &self,
        connection: &mut Connection,
        offer: &MoveOffer,
        promise: Promise<'_>,
    ) -> Result<PathBuf, String> {
        let path = whole_path(&self.folder, offer);
        let part = part_path(&self.folder, connection.id);
        let stored = connection.write_file(&part, promise).and_then(|()| {
            let same = offer.is_of_file(&part).map_err(|fault| fault.text)?;
            if !same {
                return Err("a file was dropped: it was changed on its way".into());
            }
            let renamed = std::fs::rename(&part, &path);
            renamed.map_err(|error| private::cannot_write(&path, &error).text)?;
            private::sync_folder(&self.folder).map_err(|fault| fault.text)
        });
        if stored.is_err() {
            let _ = std::fs::remove_file(&part);
        }
        stored.map(|()| path)
    }
}

/// The place of an open connection. It is free again when its thread ends, a panic included, or never began.
struct Place {
    book: Arc<Book>,
    id: u64,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.book.lock().open.remove(&self.id);
    }
}

/// Room on the disk that a connection may still fill.
struct Promise<'a> {
    book: &'a Book,
    left: u64,
}

impl Promise<'_> {
    fn use_bytes(&mut self, count: u64) {
        self.left -= count;
        self.book.lock().promised -= count;
    }
}

impl Drop for Promise<'_> {
    fn drop(&mut self) {
        self.book.lock().promised -= self.left;
    }
}

/// A connection up to its file.
struct Connection {
    id: u64,
    stream: TcpStream,
    /// Boot time at which the present step must have ended.
    end: Time,
}

impl Connection {
    /// Reads hello and offer, with the commitment between them. Returns `None` if the other side does not
    /// know the recipient of this device, or breaks off.
    fn read_offer(&mut self, nonce: &MoveNonce, vault: &Path) -> Option<MoveOffer> {
        self.stream.set_write_timeout(Some(SILENCE)).ok()?;
        let mut hello = [0; HELLO.len()];
        self.fill(&mut hello).ok()?;
        if hello != *HELLO {
            return None;
        }
        self.stream.write_all(&commit_to_nonce(nonce)).ok()?;
        let mut length = [0; 2];
        self.fill(&mut length).ok()?;
        let length = usize::from(u16::from_be_bytes(length));
        if length > OFFER_BYTES_MAX {
            return None;
        }
        let mut sealed = vec![0; length];
        self.fill(&mut sealed).ok()?;
        MoveOffer::open(vault, &sealed)
    }

    fn write_file(&mut self, path: &Path, mut promise: Promise<'_>) -> Result<(), String> {
        let cannot_write = |error: io::Error| private::cannot_write(path, &error).text;
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        let mut file = file.map_err(cannot_write)?;
        let mut piece = vec![0; PIECE_BYTES];
        while promise.left > 0 {
            let most =
                usize::try_from(promise.left).map_or(PIECE_BYTES, |left| left.min(PIECE_BYTES));
            let count = match self.read_some(&mut piece[..most]) {
                Ok(count @ 1..) => count,
                Ok(0) => return Err("a file was dropped: its connection broke".into()),
                Err(error) => return Err(format!("a file was dropped: {}", describe_end(&error))),
            };
            file.write_all(&piece[..count]).map_err(cannot_write)?;
            promise.use_bytes(count as u64);
        }
        file.sync_all().map_err(cannot_write)
    }

    fn fill(&mut self, mut bytes: &mut [u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.read_some(bytes)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => bytes = &mut bytes[count..],
            }
        }
        Ok(())
    }

    /// Reads within the limit of one read and that of the whole step.
    fn read_some(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let left = self.end.since_ms(Moment::now().boot);
        if left == 0 {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(SILENCE.min(Duration::from_millis(left))))?;
        self.stream.read(bytes)
    }
}

fn describe_end(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "it came too slowly".into(),
        _ => format!("its connection broke: {error}"),
    }
}

/// Reads the key of a stored file. Returns `None` if the connection breaks.
fn read_key(stream: &mut TcpStream) -> Option<String> {
    stream.set_read_timeout(Some(COMPARING)).ok()?;
    let mut length = [0; 2];
    stream.read_exact(&mut length).ok()?;
    let length = usize::from(u16::from_be_bytes(length));
    if length > KEY_BYTES_MAX {
        return None;
    }
    let mut key = vec![0; length];
    stream.read_exact(&mut key).ok()?;
    String::from_utf8(key).ok()
}
