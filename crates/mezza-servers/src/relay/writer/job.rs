//! The jobs of connections for the writer, and its events for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use mezza_messenger::relay_wire::{MailboxAddress, MailboxKind, RawOneTimePrekey, RelayFrame};
use tokio::sync::mpsc;

/// Identifies a watch within one relay process.
pub(crate) type WatchId = u64;
/// Identifies a mail within one relay process, even before it is stored.
pub(crate) type MailId = u64;

/// Bytes of mail that may wait in one connection's queue; above it the writer stops pushing.
const QUEUED_BYTES_MAX: usize = 256 << 10;
/// Slots for mail in a connection's queue, beside those reserved for responses.
const QUEUED_MAILS_MAX: usize = 256;

/// Mail on its way into a box.
pub(crate) struct Put {
    pub(crate) address: MailboxAddress,
    pub(crate) ttl_h: u16,
    pub(crate) envelope: Vec<u8>,
    pub(crate) answer: ReplyTo,
    /// The site of the sender; each site has its share of the store.
    pub(crate) site: [u8; 8],
    /// The number given when the mail is queued; numbers ascend in queue order.
    pub(super) id: MailId,
    /// The watcher to which the mail was sent when it was queued.
    pub(super) shown: Option<(WatchId, ConnectionQueue)>,
}

impl Put {
    /// Makes a put that no watcher has received yet.
    pub(crate) fn new(
        address: MailboxAddress,
        ttl_h: u16,
        envelope: Vec<u8>,
        answer: ReplyTo,
    ) -> Self {
        Self { address, ttl_h, envelope, answer, site: [0; 8], id: 0, shown: None }
    }

    /// Sets the site of the sender.
    pub(crate) fn of_site(self, site: [u8; 8]) -> Self {
        Self { site, ..self }
    }
}

/// A job for the writer.
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
    /// The connection, or one of its watches, has ended.
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
    /// Returns true if no client waits for this job, so that it may be delayed.
    pub(super) fn is_patient(&self) -> bool {
        matches!(self, Self::Take { .. } | Self::Gone(_))
    }

    /// Returns the work of this job, in units of about a PUT of 1 KiB.
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

    /// Returns a copy of the job if no client waits for its response: after a failure the writer
    /// must repeat such a job itself (RELAY-13).
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

    /// Returns the request that waits for a response, if any.
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

/// The destination of a response.
#[derive(Clone)]
pub(crate) struct ReplyTo {
    pub(crate) outlet: ConnectionQueue,
    pub(crate) req: u16,
}

/// An event that a connection sends to its client.
pub(crate) enum WriterEvent {
    /// The response to a request.
    Answer(RelayFrame),
    /// A STOCK or DISPLACED, which responds to no request.
    Unasked(RelayFrame),
    /// Mail of a watched box.
    Mail { number: u16, watch: WatchId, id: MailId, envelope: Vec<u8> },
    /// A transaction failed of which this connection had received mail.
    End,
}

/// The writer's queue to one connection. Sending never waits: responses have reserved slots, and
/// mail without room stays in the store until the connection asks to resume.
#[derive(Clone)]
pub(crate) struct ConnectionQueue {
    events: mpsc::Sender<WriterEvent>,
    /// Slots that only responses may use.
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
    /// Makes the queue of a connection that has at most `pending_max` open requests.
    pub(crate) fn new(pending_max: usize) -> (Self, mpsc::Receiver<WriterEvent>) {
        let (events, receiver) = mpsc::channel(pending_max + QUEUED_MAILS_MAX);
        (Self { events, reserved: pending_max, load: Arc::default() }, receiver)
    }

    /// Returns true if both queues lead to the same connection.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.load, &other.load)
    }

    /// Sends a response.
    pub(super) fn send_answer(&self, frame: RelayFrame) {
        // A slot is free: a connection has no more open requests than reserved slots. If the queue
        // is closed, the connection is gone and the response is dropped.
        drop(self.events.try_send(WriterEvent::Answer(frame)));
    }

    /// Sends a STOCK if there is room; the next WATCH reports the number anyway.
    pub(super) fn send_stock(&self, frame: RelayFrame) {
        if self.free_places() > 0 {
            drop(self.events.try_send(WriterEvent::Unasked(frame)));
        }
    }

    /// Sends a DISPLACED. A connection whose queue is full is closed, so that its client reconnects
    /// and watches again.
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
        // The connection may have emptied its queue between the first check and the mark, without
        // seeing the mark.
        self.has_room_now()
    }

    /// Sends mail. Returns false if the connection is gone.
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

    /// Ends the connection, even if its queue is full.
    pub(super) fn end_connection(&self) {
        self.load.ended.store(true, Ordering::SeqCst);
        drop(self.events.try_send(WriterEvent::End));
    }

    /// Called by the connection: mail of this size has left the queue.
    pub(crate) fn mail_sent(&self, bytes: usize) {
        self.load.mail_bytes.fetch_sub(bytes, Ordering::SeqCst);
    }

    /// Called by the connection: returns true if the writer held back mail since the last call.
    pub(crate) fn was_stalled(&self) -> bool {
        self.load.stalled.swap(false, Ordering::SeqCst)
    }

    /// Called by the connection: returns true if the writer has ended it.
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
