//! The new device: waits for the old one, while others of the network may connect as well.
//!
//! ```text
//! connection:  hello -> offer opened -> file durable -> key received
//! user:        types the digits that the old device accepted: one connection is chosen
//! end:         the chosen connection has sent its key
//! ```
//!
//! Without the recipient no party can make an offer that opens, so that its connection writes nothing to the
//! disk. A party that knows the recipient can store files. None of them ends the wait or becomes a vault
//! before the user has typed its digits (BACKUP-34).

mod connections;
mod kept;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use mezza_host::api::{Exit, Fault};
use mezza_host::backup::PROOF_BYTES;
use mezza_host::process::files;

use connections::Book;
use kept::clear_parts;
pub(in super::super) use kept::delete_files;

/// Room that must be left on the disk of the new device.
const SPARE_BYTES: u64 = 16 << 20;
/// Reports that wait to be shown. A thread with one more waits.
const EVENTS_MAX: usize = 64;
/// Pause after a connection that could not be accepted, for example without a free descriptor.
const AGAIN: Duration = Duration::from_secs(1);

/// The limits of time of a wait.
#[derive(Clone, Copy)]
pub(in super::super) struct WaitLimits {
    /// From the connection to the end of its offer, milliseconds.
    pub offer_ms: u64,
    /// For a file of any length, milliseconds.
    pub file_ms: u64,
    /// The slowest rate of a file, bytes per millisecond.
    pub slowest_rate: u64,
}

impl WaitLimits {
    /// The limits of the program: a file needs at least 64 KiB a second.
    pub(in super::super) const DEFAULT: Self =
        Self { offer_ms: 20_000, file_ms: 60_000, slowest_rate: 64 };

    fn whole_file_ms(self, bytes: u64) -> u64 {
        self.file_ms.saturating_add(bytes / self.slowest_rate.max(1))
    }
}

/// A line for the user of the new device.
pub(in super::super) enum LanNotice {
    /// A whole file is on the disk.
    Stored {
        /// The digits of its connection.
        digits: String,
    },
    /// A connection was dropped, or the typed digits are those of no connection.
    Text(String),
}

/// The file that the user has chosen, with its key.
pub(in super::super) struct ChosenFile {
    /// The file on the disk of this device.
    pub file: PathBuf,
    /// The text that opens it.
    pub key: String,
    id: u64,
    stream: TcpStream,
    proof: [u8; PROOF_BYTES],
}

impl ChosenFile {
    /// Proves to the old device that the vault is made. If this is lost on the way, the move is complete
    /// anyway.
    pub(in super::super) fn confirm(mut self) {
        let _ = self.stream.write_all(&self.proof);
    }
}

/// The address, the folders and the limits of a wait.
pub(in super::super) struct LanWait {
    /// The socket to listen at.
    pub listener: TcpListener,
    /// The folder of the vault, with the key of the recipient.
    pub vault: PathBuf,
    /// The folder for files that are received.
    pub folder: PathBuf,
    /// The limits of time.
    pub limits: WaitLimits,
    /// Returns the bytes that may be written to the folder.
    pub room: fn(&Path) -> u64,
}

/// Returns the bytes that files of moves may take of the disk of a folder.
pub(in super::super) fn measure_room(folder: &Path) -> u64 {
    files::free_bytes(folder).unwrap_or(u64::MAX).saturating_sub(SPARE_BYTES)
}

/// A change that a thread reports to the wait.
enum WaitEvent {
    Dropped(String),
    Stored {
        id: u64,
        digits: String,
    },
    Key {
        id: u64,
        key: Option<ChosenFile>,
    },
    /// A line of the user; `None` if none can come any more.
    Typed(Option<String>),
}

/// Listens at an address of this machine.
///
/// # Errors
/// 75 if that is not possible.
pub(in super::super) fn listen(address: &str) -> Result<TcpListener, Fault> {
    TcpListener::bind(address).map_err(|error| {
        let text = format!("{address} cannot be listened at: {error}");
        Fault::new(Exit::Busy, text, "name an address of this machine and a free port")
    })
}

impl LanWait {
    /// Waits until the user has typed the digits of a connection, and its key has come. `read_line` returns
    /// a line that the user typed, or `None` after the last one. It is called once a file is stored, and
    /// after each line that chose no connection.
    ///
    /// # Errors
    /// 2 if a file is stored and no digits can be typed, 73 if the folder cannot be read.
    pub(in super::super) fn wait_for_choice(
        self,
        read_line: impl FnMut() -> Option<String> + Send + 'static,
        show: &mut dyn FnMut(LanNotice),
    ) -> Result<ChosenFile, Fault> {
        for file in clear_parts(&self.folder)? {
            show(LanNotice::Text(format!(
                "{} came earlier; if the old device shows a key: `mezza move in {} --key KEY`",
                file.display(),
                file.display()
            )));
        }
        let (events, reports) = sync_channel(EVENTS_MAX);
        let typing = Typing::begin(read_line, events.clone());
        let stop = self.listener.local_addr();
        let (book, listener) = Book::open(self, events);
        let accepting = Arc::clone(&book);
        thread::spawn(move || {
            for stream in listener.incoming() {
                if accepting.is_over() {
                    return;
                }
                match stream {
                    Ok(stream) => accepting.serve(stream),
                    // Another connection can succeed later.
                    Err(_) => thread::sleep(AGAIN),
                }
            }
        });
        let chosen = choose_file(&reports, &typing, show);
        book.end_but_for(chosen.as_ref().ok().map(|chosen| chosen.id));
        // The thread that accepts ends with the next connection: this one.
        drop(stop.and_then(TcpStream::connect));
        chosen
    }
}

/// The thread that reads what the user types, one line for each request: a prompt for a passphrase must not
/// lose its input to it.
struct Typing(SyncSender<()>);

impl Typing {
    fn begin(
        mut read_line: impl FnMut() -> Option<String> + Send + 'static,
        events: SyncSender<WaitEvent>,
    ) -> Self {
        let (request, requests) = sync_channel(1);
        thread::spawn(move || {
            while requests.recv().is_ok() {
                if events.send(WaitEvent::Typed(read_line())).is_err() {
                    return;
                }
            }
        });
        Self(request)
    }

    /// Asks for one more line. A request that is open already is enough.
    fn request_line(&self) {
        let _ = self.0.try_send(());
    }
}

/// A connection whose file is on the disk.
struct Candidate {
    digits: String,
    key: Option<ChosenFile>,
}

/// Handles reports until one file is chosen and its key is there.
fn choose_file(
    reports: &Receiver<WaitEvent>,
    typing: &Typing,
    show: &mut dyn FnMut(LanNotice),
) -> Result<ChosenFile, Fault> {
    let mut candidates = BTreeMap::<u64, Candidate>::new();
    let mut chosen = None;
    let mut is_asked = false;
    loop {
        let Ok(event) = reports.recv() else {
            return Err(Fault::bug("the wait for a move has ended by itself"));
        };
        match event {
            WaitEvent::Dropped(text) => show(LanNotice::Text(text)),
            WaitEvent::Stored { id, digits } => {
                show(LanNotice::Stored { digits: digits.clone() });
                candidates.insert(id, Candidate { digits, key: None });
            }
            WaitEvent::Key { id, key: None } => {
                if let Some(candidate) = candidates.remove(&id) {
                    show(LanNotice::Text(describe_break(&candidate.digits)));
                }
                chosen = chosen.filter(|chosen| *chosen != id);
            }
            WaitEvent::Key { id, key } => {
                candidates.entry(id).and_modify(|candidate| candidate.key = key);
            }
            WaitEvent::Typed(Some(line)) => {
                is_asked = false;
                let typed: String = line.chars().filter(char::is_ascii_digit).collect();
                let found = candidates.iter().find(|(_, candidate)| candidate.digits == typed);
                chosen = found.map(|(id, _)| *id);
                if chosen.is_none() {
                    let text =
                        "no connection has these digits; type those that the old device accepted";
                    show(LanNotice::Text(text.into()));
                }
            }
            WaitEvent::Typed(None) => {
                let next = "run `mezza move in --listen HOST:PORT` where its input can be typed";
                return Err(Fault::new(Exit::Usage, "the digits of the move were not typed", next));
            }
        }
        if let Some(candidate) = chosen.and_then(|id| candidates.get_mut(&id)) {
            if let Some(key) = candidate.key.take() {
                return Ok(key);
            }
        } else if !candidates.is_empty() && !is_asked {
            is_asked = true;
            typing.request_line();
        }
    }
}

fn describe_break(digits: &str) -> String {
    format!(
        "the connection with the digits {digits} broke; if the old device shows a key, end this and run \
         `mezza move in FILE --key KEY`; else repeat its command, which shows other digits here"
    )
}
