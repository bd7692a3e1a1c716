//! Inputs and outputs of the relay carrier.

use alloc::vec::Vec;
use core::fmt;

use mezza_core::{Secret, snapshot};
use mezza_ratchet::OneTimePrekey;

use crate::card::RelayEntry;
use crate::io::{MailboxId, RelayConnectionId, RequestId};
use crate::relay_wire::{MailboxAddress, MailboxKind};

/// Inputs of the driver about relays.
pub enum RelayInput {
    /// A mail arrived in one of our mailboxes. The driver chooses the number `mail`, and
    /// [`RelayOutput::Acknowledge`] returns it.
    Mail {
        /// The mailbox with the mail.
        mailbox: MailboxId,
        /// The driver's number of this mail.
        mail: u64,
        /// The sealed envelope.
        envelope: Vec<u8>,
    },
    /// The connection to a relay is up.
    Up {
        /// The connection to the relay.
        connection: RelayConnectionId,
        /// Protection level of the connection, 1 to 4.
        level: u8,
        /// True if it runs as a demonstration on one machine and so protects nothing.
        demo: bool,
    },
    /// The connection to a relay is lost; requests in flight on it are void.
    Down {
        /// The lost connection.
        connection: RelayConnectionId,
    },
    /// A request succeeded: relay DONE with code 0.
    Done {
        /// Ticket of the request.
        ticket: RequestId,
    },
    /// A request was refused: relay DONE with another code.
    Refused {
        /// Ticket of the request.
        ticket: RequestId,
        /// The relay's code, 1 to 5.
        code: u8,
        /// Seconds until the next attempt (codes 2 and 4).
        retry_s: u16,
    },
    /// A bundle in reply to [`RelayOutput::Fetch`].
    Bundle {
        /// Ticket of the fetch request.
        ticket: RequestId,
        /// The bundle as received, unchecked.
        bytes: Vec<u8>,
        /// A one-time key, or `None` if the relay had none left.
        one_time: Option<OneTimePrekey>,
    },
    /// Another connection reads one of our mailboxes instead of this one.
    Displaced {
        /// The displaced mailbox.
        mailbox: MailboxId,
        /// True if the other connection has stopped reading.
        over: bool,
    },
    /// The number of our one-time keys left at a relay.
    Stock {
        /// The connection to the relay.
        connection: RelayConnectionId,
        /// Number of one-time keys.
        left: u16,
    },
}

/// Requests of the device to a relay.
pub enum RelayOutput {
    /// Connect to this relay at this host and port only, and keep the connection.
    Connect {
        /// The relay; its `address` field is not used here.
        relay: RelayEntry,
    },
    /// Close the connection to a relay that is not needed any more.
    Disconnect {
        /// The connection to close.
        connection: RelayConnectionId,
    },
    /// Put an envelope into a mailbox of a contact; answered by `Done` or `Refused`.
    Put {
        /// Ticket of this request.
        ticket: RequestId,
        /// The connection to the relay.
        connection: RelayConnectionId,
        /// Address of the mailbox.
        address: MailboxAddress,
        /// Hours for which the relay should store the envelope.
        ttl_h: u16,
        /// The envelope, in one of the six sizes.
        envelope: Vec<u8>,
    },
    /// Open a mailbox of ours; answered by `Done` or `Refused`.
    Open {
        /// Ticket of this request.
        ticket: RequestId,
        /// The connection to the relay.
        connection: RelayConnectionId,
        /// Secret token of the mailbox.
        token: Secret<32>,
        /// The purpose of the mailbox.
        kind: MailboxKind,
    },
    /// Close a mailbox of ours; answered by `Done` or `Refused`.
    Close {
        /// Ticket of this request.
        ticket: RequestId,
        /// The connection to the relay.
        connection: RelayConnectionId,
        /// Secret token of the mailbox.
        token: Secret<32>,
    },
    /// Subscribe to a mailbox of ours: its mail arrives as `Mail`. There is no answer except a
    /// refusal.
    Watch {
        /// Ticket of this request.
        ticket: RequestId,
        /// Our number of the mailbox.
        mailbox: MailboxId,
        /// The connection to the relay.
        connection: RelayConnectionId,
        /// Secret token of the mailbox.
        token: Secret<32>,
    },
    /// Publish our prekey bundle; answered by `Done` or `Refused`.
    Publish {
        /// Ticket of this request.
        ticket: RequestId,
        /// The connection to the relay.
        connection: RelayConnectionId,
        /// Secret token of the intro mailbox.
        token: Secret<32>,
        /// The encoded bundle.
        bundle: Vec<u8>,
        /// One-time keys to add to the stock.
        one_time: Vec<OneTimePrekey>,
        /// True if the relay should delete the old stock first.
        replace: bool,
    },
    /// Fetch a contact's bundle; answered by `Bundle` or `Refused`.
    Fetch {
        /// Ticket of this request.
        ticket: RequestId,
        /// The connection to the relay.
        connection: RelayConnectionId,
        /// Address of the contact's intro mailbox.
        address: MailboxAddress,
    },
    /// Report that a mail is handled: the relay may delete it.
    Acknowledge {
        /// The mailbox of the mail.
        mailbox: MailboxId,
        /// The driver's number of the mail.
        mail: u64,
    },
}

snapshot!(enum RelayOutput [
    Connect { relay }, Disconnect { connection }, Put { ticket, connection, address, ttl_h,
    envelope }, Open { ticket, connection, token, kind }, Close { ticket, connection, token },
    Watch { ticket, mailbox, connection, token }, Publish { ticket, connection, token, bundle,
    one_time, replace }, Fetch { ticket, connection, address }, Acknowledge { mailbox, mail },
]);

impl fmt::Debug for RelayInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mail { envelope, .. } => write!(f, "Mail({} bytes)", envelope.len()),
            Self::Up { .. } => f.write_str("Up"),
            Self::Down { .. } => f.write_str("Down"),
            Self::Done { ticket } => write!(f, "Done({})", ticket.0),
            Self::Refused { ticket, code, .. } => write!(f, "Refused({}, {code})", ticket.0),
            Self::Bundle { ticket, .. } => write!(f, "Bundle({})", ticket.0),
            Self::Displaced { over, .. } => write!(f, "Displaced({over})"),
            Self::Stock { left, .. } => write!(f, "Stock({left})"),
        }
    }
}

impl fmt::Debug for RelayOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect { .. } => f.write_str("Connect"),
            Self::Disconnect { .. } => f.write_str("Disconnect"),
            Self::Put { ticket, envelope, .. } => {
                write!(f, "Put({}, {} bytes)", ticket.0, envelope.len())
            }
            Self::Open { ticket, .. } => write!(f, "Open({})", ticket.0),
            Self::Close { ticket, .. } => write!(f, "Close({})", ticket.0),
            Self::Watch { ticket, .. } => write!(f, "Watch({})", ticket.0),
            Self::Publish { ticket, .. } => write!(f, "Publish({})", ticket.0),
            Self::Fetch { ticket, .. } => write!(f, "Fetch({})", ticket.0),
            Self::Acknowledge { .. } => f.write_str("Acknowledge"),
        }
    }
}
