//! State of a link that control and data threads share. Nothing in it is locked.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::Thread;

use arc_swap::{ArcSwap, ArcSwapOption};
use mezza_seka::wire::names_of;
use mezza_seka::{DeliveryReport, LinkId, LinkSession};

use super::address::Endpoint;
use super::carrier::Carrier;
use super::tap::Tap;

/// Why a frame was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Drop {
    /// Its tag does not fit.
    Forged,
    /// Its packet number was seen, or is too old.
    Replayed,
    /// There was no session within a second.
    Late,
    /// A queue of the system was full.
    Queue,
    /// It could not be cut, or not be joined.
    Fragment,
    /// A fragment of it did not arrive.
    Incomplete,
    /// It is longer than the path takes.
    TooLong,
    /// The firewall of this machine refused it.
    Firewall,
    /// There is no route to the peer, no carrier, or no address of the peer.
    Unreachable,
    /// The interface of the link refused it.
    Interface,
    /// It belongs to one cable (PAUSE), or is a frame of a link itself.
    Reserved,
}

impl Drop {
    /// All of them, with their words in metrics and in `show`.
    pub(crate) const ALL: [(Self, &'static str); 11] = [
        (Self::Forged, "forged"),
        (Self::Replayed, "replayed"),
        (Self::Late, "late"),
        (Self::Queue, "queue"),
        (Self::Fragment, "fragment"),
        (Self::Incomplete, "incomplete"),
        (Self::TooLong, "too_long"),
        (Self::Firewall, "firewall"),
        (Self::Unreachable, "unreachable"),
        (Self::Interface, "interface"),
        (Self::Reserved, "reserved"),
    ];

    /// The reason for which the system did not send a frame.
    pub(super) fn of_error(error: &std::io::Error) -> Self {
        use nix::errno::Errno;
        match error.raw_os_error().map(Errno::from_raw) {
            Some(Errno::EMSGSIZE) => Self::TooLong,
            // A rule of the output chain; a peer cannot cause it.
            Some(Errno::EPERM | Errno::EACCES) => Self::Firewall,
            Some(Errno::ENOBUFS | Errno::EAGAIN | Errno::ENOMEM) => Self::Queue,
            _ => Self::Unreachable,
        }
    }
}

/// Frames and bytes of a link since it came up.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Frames sent and received; bytes of Ethernet frames sent and received.
    counts: [AtomicU64; 4],
    drops: [AtomicU64; Drop::ALL.len()],
}

impl Counters {
    /// Frames that left.
    pub(super) fn count_sent(&self, frames: usize, bytes: usize) {
        self.counts[0].fetch_add(frames as u64, Ordering::Relaxed);
        self.counts[2].fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Frames that opened.
    pub(super) fn count_received(&self, frames: usize, bytes: usize) {
        self.counts[1].fetch_add(frames as u64, Ordering::Relaxed);
        self.counts[3].fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// A frame that was dropped.
    pub(super) fn count_dropped(&self, why: Drop) {
        self.drops[why as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Several frames that were dropped.
    pub(super) fn dropped_many(&self, why: Drop, count: u64) {
        if count > 0 {
            self.drops[why as usize].fetch_add(count, Ordering::Relaxed);
        }
    }

    /// Frames sent, frames received, bytes sent, bytes received.
    pub(crate) fn totals(&self) -> [u64; 4] {
        self.counts.each_ref().map(|count| count.load(Ordering::Relaxed))
    }

    /// How many were dropped for this.
    pub(crate) fn drops(&self, why: Drop) -> u64 {
        self.drops[why as usize].load(Ordering::Relaxed)
    }
}

/// A link, for its threads.
#[derive(Debug)]
pub(crate) struct LinkShared {
    /// Its number on this machine.
    pub number: u16,
    /// Its interface.
    pub tap: Tap,
    /// Its carrier; `None` while the interface below is gone.
    pub road: ArcSwapOption<Road>,
    /// Bytes of an Ethernet frame that fit into one frame of the carrier on the present path.
    room: AtomicUsize,
    /// Segments that arrived together are written to the interface as one frame. Ends once, when the
    /// kernel refuses such a frame.
    joins: AtomicBool,
    /// The last report of the peer, and the session that it is about.
    pub report: ArcSwapOption<(u32, DeliveryReport)>,
    /// The session to send under.
    pub sending: ArcSwapOption<LinkSession>,
    /// Where the peer is.
    pub endpoint: ArcSwapOption<Endpoint>,
    /// Counters of the traffic.
    pub counters: Arc<Counters>,
    /// The thread that sends, to wake it when there is a session.
    sender: ArcSwapOption<Thread>,
}

impl LinkShared {
    pub(super) fn new(number: u16, tap: Tap, room: usize, counters: Arc<Counters>) -> Self {
        Self {
            number,
            tap,
            road: ArcSwapOption::empty(),
            room: AtomicUsize::new(room),
            joins: AtomicBool::new(true),
            report: ArcSwapOption::empty(),
            sending: ArcSwapOption::empty(),
            endpoint: ArcSwapOption::empty(),
            counters,
            sender: ArcSwapOption::empty(),
        }
    }

    /// The thread that sends is this one.
    pub(super) fn i_am_sender(&self) {
        self.sender.store(Some(Arc::new(std::thread::current())));
    }

    /// Frames may arrive under one more session from now on. The control task alone changes the table.
    pub(super) fn welcome_session(&self, entry: OpenEntry) {
        let Some(road) = self.road.load_full() else { return };
        let mut welcome = Welcome::clone(&road.table.load());
        welcome.open.push(entry);
        road.table.store(Arc::new(welcome));
    }

    /// Bytes of an Ethernet frame that fit into one frame of the carrier.
    pub(super) fn room(&self) -> usize {
        self.room.load(Ordering::Relaxed)
    }

    /// The path takes frames of another size; returns true if that is news.
    pub(super) fn set_room(&self, room: usize) -> bool {
        self.room.swap(room, Ordering::Relaxed) != room
    }

    /// Returns true if segments that arrived together are written as one frame.
    pub(crate) fn joins(&self) -> bool {
        self.joins.load(Ordering::Relaxed)
    }

    /// From now on each segment is written alone. Logs the reason once.
    pub(super) fn stop_joining(&self, why: &str) {
        if self.joins.swap(false, Ordering::Relaxed) {
            tracing::warn!(link = self.tap.name(), why, "offload of the interface is off");
        }
    }

    /// Sends under `session` from now on, or under none.
    pub(super) fn send_under(&self, session: Option<Arc<LinkSession>>) {
        self.sending.store(session);
        if let Some(sender) = &*self.sender.load() {
            sender.unpark();
        }
    }
}

/// A carrier, and what may arrive over it.
#[derive(Clone, Debug)]
pub(crate) struct Road {
    /// It.
    pub carrier: Arc<Carrier>,
    /// Its table.
    pub table: Arc<SessionTable>,
}

/// A session that frames may arrive under.
#[derive(Clone, Debug)]
pub(crate) struct OpenEntry {
    /// Whose it is.
    pub link: Arc<LinkShared>,
    /// Its keys.
    pub session: Arc<LinkSession>,
}

/// Peers and sessions whose frames may arrive over one carrier.
#[derive(Clone, Debug, Default)]
pub(crate) struct Welcome {
    /// Sessions that frames may arrive under.
    pub open: Vec<OpenEntry>,
    /// The peers whose exchange frames are heard.
    pub peers: Vec<LinkId>,
    /// A pairing is under way: frames of anybody are heard.
    pub pairs: bool,
}

impl Welcome {
    /// Returns true if a handshake frame is for the control task; all others never reach its queue (SEKA-72).
    pub(super) fn is_for_control(&self, frame: &[u8]) -> bool {
        let sender = names_of(frame).map(|(sender, _)| sender);
        self.pairs || sender.is_some_and(|sender| self.peers.contains(&sender))
    }
}

/// Peers and sessions of one carrier; replaced as a whole.
pub(crate) type SessionTable = ArcSwap<Welcome>;
