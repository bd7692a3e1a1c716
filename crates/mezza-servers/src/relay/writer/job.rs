//! The jobs of connections for the writer, and its events for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use mezza_messenger::relay_wire::{MailboxAddress, MailboxKind, RawOneTimePrekey, RelayFrame};
use tokio::sync::mpsc;

/// Tells all watches of one relay process apart.
pub(crate) type WatchId = u64;
/// Tells all mail of one relay process apart, from before it is stored.
pub(crate) type MailId = u64;

/// Mail bytes that may wait in one connection's queue before pushing stops.
const QUEUED_BYTES_MAX: usize = 256 << 10;
/// Places in a connection's queue beside those kept for answers.
const QUEUED_MAILS_MAX: usize = 256;

/// Mail on its way into a box.
pub(crate) struct Put {
    pub(crate) address: MailboxAddress,
    pub(crate) ttl_h: u16,
    pub(crate) envelope: Vec<u8>,
    pub(crate) answer: ReplyTo,
    /// The site that it came from, which has its share of the store.
    pub(crate) site: [u8; 8],
    /// Given when it is queued; in that order.
    pub(super) id: MailId,
    /// The watcher that was shown it when it was queued.
    pub(super) shown: Option<(WatchId, ConnectionQueue)>,
}

impl Put {
    /// Mail that no watcher has been shown yet.
    pub(crate) fn new(
        address: MailboxAddress,
        ttl_h: u16,
        envelope: Vec<u8>,
        answer: ReplyTo,
    ) -> Self {
        Self { address, ttl_h, envelope, answer, site: [0; 8], id: 0, shown: None }
    }

    /// The same from somebody at a site.
    pub(crate) fn of_site(self, site: [u8; 8]) -> Self {
        Self { site, ..self }
    }
}

/// One thing for the writer to do.
pub(crate) enum WriterJob {
    Open {
        address: MailboxAddress,
        kind: MailboxKind,
        site: [u8; 8],
        answer: ReplyTo,
    },
    Close {
        address: MailboxAddress,
        answer: ReplyTo,
    },
    Put(Put),
    Watch {
        address: MailboxAddress,
        watch: WatchId,
        number: u16,
        answer: ReplyTo,
    },
    Take {
        address: MailboxAddress,
        watch: WatchId,
        mails: Vec<MailId>,
    },
    BundleSet(BundleSet),
    BundleGet {
        address: MailboxAddress,
        answer: ReplyTo,
    },
    /// The connection has room for mail again.
    Resume(Vec<(MailboxAddress, WatchId)>),
    /// The connection, or its watch, is gone.
    Gone(Vec<(MailboxAddress, WatchId)>),
}

/// A new bundle.
pub(crate) struct BundleSet {
    pub(crate) address: MailboxAddress,
    pub(crate) fresh: bool,
    pub(crate) bundle: Vec<u8>,
    pub(crate) keys: Vec<RawOneTimePrekey>,
    pub(crate) answer: ReplyTo,
}

impl WriterJob {
    /// Returns true if this may be done a moment later without a client noticing.
    pub(super) fn is_patient(&self) -> bool {
        matches!(self, Self::Take { .. } | Self::Gone(_))
    }

    /// The work that it makes, in units of about a PUT of a kilobyte.
    pub(crate) fn work_units(&self) -> u32 {
        let units = match self {
            Self::Put(put) => 1 + put.envelope.len() / 4_096,
            Self::Open { .. } | Self::Watch { .. } | Self::BundleGet { .. } => 2,
            Self::Close { .. } => 4,
            Self::Take { mails, .. } => 1 + mails.len() / 4,
            Self::BundleSet(set) => 4 + set.keys.len() / 2,
            Self::Resume(watches) | Self::Gone(watches) => 1 + watches.len() / 16,
        };
        units as u32
    }

    /// Returns the same job if no client waits for its answer: whoever loses it repeats it (RELAY-13).
    pub(super) fn without_answer(&self) -> Option<Self> {
        match self {
            Self::Take { address, watch, mails } => {
                Some(Self::Take { address: *address, watch: *watch, mails: mails.clone() })
            }
            Self::Resume(watches) => Some(Self::Resume(watches.clone())),
            Self::Gone(watches) => Some(Self::Gone(watches.clone())),
            Self::Open { .. }
            | Self::Close { .. }
            | Self::Put(_)
            | Self::Watch { .. }
            | Self::BundleSet(_)
            | Self::BundleGet { .. } => None,
        }
    }

    /// The request that waits for an answer.
    pub(super) fn reply_to(&self) -> Option<&ReplyTo> {
        match self {
            Self::Put(put) => Some(&put.answer),
            Self::BundleSet(set) => Some(&set.answer),
            Self::Open { answer, .. }
            | Self::Close { answer, .. }
            | Self::Watch { answer, .. }
            | Self::BundleGet { answer, .. } => Some(answer),
            Self::Take { .. } | Self::Resume(_) | Self::Gone(_) => None,
        }
    }
}

/// Where the answer to a request goes.
#[derive(Clone)]
pub(crate) struct ReplyTo {
    pub(crate) outlet: ConnectionQueue,
    pub(crate) req: u16,
}

/// One thing for a connection to send.
pub(crate) enum WriterEvent {
    /// The answer to a request.
    Answer(RelayFrame),
    /// A STOCK or DISPLACED, which answers no request.
    Unasked(RelayFrame),
    /// Mail of a watched box.
    Mail { number: u16, watch: WatchId, id: MailId, envelope: Vec<u8> },
    /// A transaction failed of which this connection saw mail.
    End,
}

/// The writer's way to one connection. It never waits: answers have places of their own, and mail
/// for which there is no room stays in the store until the connection asks to resume.
#[derive(Clone)]
pub(crate) struct ConnectionQueue {
    events: mpsc::Sender<WriterEvent>,
    /// Places that only answers may use.
    reserved: usize,
    load: Arc<Load>,
}

#[derive(Default)]
struct Load {
    mail_bytes: AtomicUsize,
    stalled: AtomicBool,
    ended: AtomicBool,
}

impl ConnectionQueue {
    /// A queue for a connection that has at most `pending_max` requests open.
    pub(crate) fn new(pending_max: usize) -> (Self, mpsc::Receiver<WriterEvent>) {
        let (events, receiver) = mpsc::channel(pending_max + QUEUED_MAILS_MAX);
        (Self { events, reserved: pending_max, load: Arc::default() }, receiver)
    }

    /// Returns true if both lead to one connection.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.load, &other.load)
    }

    /// Sends an answer.
    pub(super) fn send_answer(&self, frame: RelayFrame) {
        // The queue has room: a connection has no more open requests than places are kept. If it is
        // closed, the connection is gone and the answer is dropped.
        drop(self.events.try_send(WriterEvent::Answer(frame)));
    }

    /// Sends a STOCK if there is room; the next WATCH brings the number anyway.
    pub(super) fn send_stock(&self, frame: RelayFrame) {
        if self.free_places() > 0 {
            drop(self.events.try_send(WriterEvent::Unasked(frame)));
        }
    }

    /// Sends a DISPLACED. A connection whose queue has no room for it ends, so that its client asks
    /// anew.
    pub(super) fn send_displaced(&self, number: u16, over: bool) {
        let frame = RelayFrame::Displaced { number, over };
        if self.free_places() == 0 || self.events.try_send(WriterEvent::Unasked(frame)).is_err() {
            self.end_connection();
        }
    }

    /// Returns true if mail may be sent now. If not, the connection will ask to resume.
    pub(super) fn has_room(&self) -> bool {
        if self.has_room_now() {
            return true;
        }
        self.load.stalled.store(true, Ordering::SeqCst);
        // Between the look and the mark the connection may have emptied its queue unawares.
        self.has_room_now()
    }

    /// Sends mail; `false` if the connection is gone.
    pub(super) fn send_mail(
        &self,
        number: u16,
        watch: WatchId,
        id: MailId,
        envelope: Vec<u8>,
    ) -> bool {
        let bytes = envelope.len();
        self.load.mail_bytes.fetch_add(bytes, Ordering::SeqCst);
        self.events.try_send(WriterEvent::Mail { number, watch, id, envelope }).is_ok()
    }

    /// Tells the connection to end, even where its queue has no place to say so.
    pub(super) fn end_connection(&self) {
        self.load.ended.store(true, Ordering::SeqCst);
        drop(self.events.try_send(WriterEvent::End));
    }

    /// The connection's side: mail has left the queue.
    pub(crate) fn mail_sent(&self, bytes: usize) {
        self.load.mail_bytes.fetch_sub(bytes, Ordering::SeqCst);
    }

    /// The connection's side: whether the writer held back mail since the last call.
    pub(crate) fn was_stalled(&self) -> bool {
        self.load.stalled.swap(false, Ordering::SeqCst)
    }

    /// The connection's side: whether it was told to end.
    pub(crate) fn is_ended(&self) -> bool {
        self.load.ended.load(Ordering::SeqCst)
    }

    fn free_places(&self) -> usize {
        self.events.capacity().saturating_sub(self.reserved)
    }

    fn has_room_now(&self) -> bool {
        self.free_places() > 0 && self.load.mail_bytes.load(Ordering::SeqCst) < QUEUED_BYTES_MAX
    }
}

#[cfg(test)]
mod tests;
