//! State of a link that control and data threads share without locks.

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
    /// The tag is invalid.
    Forged,
    /// The packet number was seen before, or is too old.
    Replayed,
    /// No session opened within a second, so the frame was too late.
    Late,
    /// A queue of the system was full.
    Queue,
    /// The frame could not be split or joined.
    Fragment,
    /// A fragment of the frame did not arrive.
    Incomplete,
    /// The frame is longer than the path takes.
    TooLong,
    /// The firewall of this machine refused the frame.
    Firewall,
    /// There is no route to the peer, no carrier, or no address of the peer.
    Unreachable,
    /// The interface of the link refused the frame.
    Interface,
    /// The frame is a PAUSE frame or a frame of a link itself.
    Reserved,
}

impl Drop {
    /// All reasons, with their words in metrics and in `show`.
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

    /// Returns the reason for which the system did not send a frame.
    pub(super) fn of_error(error: &std::io::Error) -> Self {
        use nix::errno::Errno;
        match error.raw_os_error().map(Errno::from_raw) {
            Some(Errno::EMSGSIZE) => Self::TooLong,
            // A firewall rule of the output chain; a peer cannot cause this error.
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
    /// Counts frames that were sent.
    pub(super) fn count_sent(&self, frames: usize, bytes: usize) {
        self.counts[0].fetch_add(frames as u64, Ordering::Relaxed);
        self.counts[2].fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Counts frames that were opened.
    pub(super) fn count_received(&self, frames: usize, bytes: usize) {
        self.counts[1].fetch_add(frames as u64, Ordering::Relaxed);
        self.counts[3].fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Counts a dropped frame.
    pub(super) fn count_dropped(&self, why: Drop) {
        self.drops[why as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts several dropped frames.
    pub(super) fn dropped_many(&self, why: Drop, count: u64) {
        if count > 0 {
            self.drops[why as usize].fetch_add(count, Ordering::Relaxed);
        }
    }

    /// Frames sent, frames received, bytes sent, bytes received.
    pub(crate) fn totals(&self) -> [u64; 4] {
        self.counts.each_ref().map(|count| count.load(Ordering::Relaxed))
    }

    /// Returns how many frames were dropped for this reason.
    pub(crate) fn drops(&self, why: Drop) -> u64 {
        self.drops[why as usize].load(Ordering::Relaxed)
    }
}

/// A link as its threads use it.
#[derive(Debug)]
pub(crate) struct LinkShared {
    /// The number of the link on this machine.
    pub number: u16,
    /// The interface of the link.
    pub tap: Tap,
    /// The carrier of the link; `None` while the carrier's interface is gone.
    pub road: ArcSwapOption<Road>,
    /// Bytes of an Ethernet frame that fit into one frame of the carrier on the present path.
    room: AtomicUsize,
    /// True while segments that arrived together are written to the interface as one frame. Turns
    /// false for good when the kernel refuses such a frame.
    joins: AtomicBool,
    /// The last report of the peer, and the session that it covers.
    pub report: ArcSwapOption<(u32, DeliveryReport)>,
    /// The session that seals outgoing frames.
    pub sending: ArcSwapOption<LinkSession>,
    /// The address of the peer.
    pub endpoint: ArcSwapOption<Endpoint>,
    /// Counters of the traffic.
    pub counters: Arc<Counters>,
    /// The sending thread, which is woken when a session opens.
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

    /// Registers the calling thread as the sending thread.
    pub(super) fn i_am_sender(&self) {
        self.sender.store(Some(Arc::new(std::thread::current())));
    }

    /// Adds a session under which frames may arrive. Only the control task changes the table.
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

    /// Sets the size of frames that the path takes, bytes. Returns true if it changed.
    pub(super) fn set_room(&self, room: usize) -> bool {
        self.room.swap(room, Ordering::Relaxed) != room
    }

    /// Returns true if segments that arrived together are written as one frame.
    pub(crate) fn joins(&self) -> bool {
        self.joins.load(Ordering::Relaxed)
    }

    /// Writes each segment separately from now on. Logs the reason once.
    pub(super) fn stop_joining(&self, why: &str) {
        if self.joins.swap(false, Ordering::Relaxed) {
            tracing::warn!(link = self.tap.name(), why, "offload of the interface is off");
        }
    }

    /// Sets the session that seals outgoing frames, or none.
    pub(super) fn send_under(&self, session: Option<Arc<LinkSession>>) {
        self.sending.store(session);
        if let Some(sender) = &*self.sender.load() {
            sender.unpark();
        }
    }
}

/// A carrier, and the table of sessions that may arrive over it.
#[derive(Clone, Debug)]
pub(crate) struct Road {
    /// The carrier.
    pub carrier: Arc<Carrier>,
    /// The table of the carrier.
    pub table: Arc<SessionTable>,
}

/// A session that frames may arrive under.
#[derive(Clone, Debug)]
pub(crate) struct OpenEntry {
    /// The link of the session.
    pub link: Arc<LinkShared>,
    /// The keys of the session.
    pub session: Arc<LinkSession>,
}

/// The peers and sessions from which frames are accepted over one carrier.
#[derive(Clone, Debug, Default)]
pub(crate) struct Welcome {
    /// Sessions that frames may arrive under.
    pub open: Vec<OpenEntry>,
    /// The peers whose exchange frames are accepted.
    pub peers: Vec<LinkId>,
    /// True during a pairing: frames of unknown devices are accepted.
    pub pairs: bool,
}

impl Welcome {
    /// Returns true if a handshake frame must reach the control task; all others are dropped
    /// (SEKA-72).
    pub(super) fn is_for_control(&self, frame: &[u8]) -> bool {
        let sender = names_of(frame).map(|(sender, _)| sender);
        self.pairs || sender.is_some_and(|sender| self.peers.contains(&sender))
    }
}

/// Peers and sessions of one carrier; replaced as a whole.
pub(crate) type SessionTable = ArcSwap<Welcome>;
