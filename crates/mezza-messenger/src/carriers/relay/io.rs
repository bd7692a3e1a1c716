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
    /// Mail lies in one of our mailboxes. `mail` is the driver's own number, given back in
    /// [`RelayOutput::Acknowledge`].
    Mail {
        /// The mailbox.
        mailbox: MailboxId,
        /// The driver's number of this mail.
        mail: u64,
        /// The envelope.
        envelope: Vec<u8>,
    },
    /// A relay connection stands.
    Up {
        /// Which connection.
        connection: RelayConnectionId,
        /// Its protection level, 1 to 4.
        level: u8,
        /// True if it runs as a demonstration on one machine and so protects nothing.
        demo: bool,
    },
    /// A relay connection is gone; tickets in flight on it are void.
    Down {
        /// Which connection.
        connection: RelayConnectionId,
    },
    /// The carrier took it: relay DONE 0.
    Done {
        /// Of which request.
        ticket: RequestId,
    },
    /// The carrier did not take it: relay DONE with another code.
    Refused {
        /// Of which request.
        ticket: RequestId,
        /// The relay's code, 1 to 5.
        code: u8,
        /// When to try again, seconds (codes 2 and 4).
        retry_s: u16,
    },
    /// The answer to [`RelayOutput::Fetch`].
    Bundle {
        /// Of which request.
        ticket: RequestId,
        /// The bundle as the relay gave it.
        bytes: Vec<u8>,
        /// A one-time key, if one was left.
        one_time: Option<OneTimePrekey>,
    },
    /// Another connection reads one of our mailboxes in place of this one.
    Displaced {
        /// The mailbox.
        mailbox: MailboxId,
        /// True if that is over.
        over: bool,
    },
    /// One-time keys left at the relay.
    Stock {
        /// Which connection.
        connection: RelayConnectionId,
        /// How many.
        left: u16,
    },
}

/// Requests of the device to a relay.
pub enum RelayOutput {
    /// Keep a connection to this relay from now on, at this host and port alone.
    Connect {
        /// Which (its `address` is not used here).
        relay: RelayEntry,
    },
    /// This relay is not needed any more.
    Disconnect {
        /// Which connection.
        connection: RelayConnectionId,
    },
    /// Put an envelope into somebody's mailbox; answered by `Done` or `Refused`.
    Put {
        /// Names the request.
        ticket: RequestId,
        /// Which connection.
        connection: RelayConnectionId,
        /// The mailbox.
        address: MailboxAddress,
        /// How long the relay shall keep it.
        ttl_h: u16,
        /// The envelope, one of the six sizes.
        envelope: Vec<u8>,
    },
    /// Open an own mailbox; answered by `Done` or `Refused`.
    Open {
        /// Names the request.
        ticket: RequestId,
        /// Which connection.
        connection: RelayConnectionId,
        /// The mailbox's secret.
        token: Secret<32>,
        /// The purpose of the mailbox.
        kind: MailboxKind,
    },
    /// Close an own mailbox; answered by `Done` or `Refused`.
    Close {
        /// Names the request.
        ticket: RequestId,
        /// Which connection.
        connection: RelayConnectionId,
        /// The mailbox's secret.
        token: Secret<32>,
    },
    /// Have mail of an own mailbox delivered as `Mail`; not answered unless refused.
    Watch {
        /// Names the request.
        ticket: RequestId,
        /// The mailbox's number here.
        mailbox: MailboxId,
        /// Which connection.
        connection: RelayConnectionId,
        /// The mailbox's secret.
        token: Secret<32>,
    },
    /// Put the own prekey bundle up; answered by `Done` or `Refused`.
    Publish {
        /// Names the request.
        ticket: RequestId,
        /// Which connection.
        connection: RelayConnectionId,
        /// The intro mailbox's secret.
        token: Secret<32>,
        /// The bundle.
        bundle: Vec<u8>,
        /// One-time keys beside it.
        one_time: Vec<OneTimePrekey>,
        /// True if the old stock goes first.
        replace: bool,
    },
    /// Get a contact's bundle; answered by `Bundle` or `Refused`.
    Fetch {
        /// Names the request.
        ticket: RequestId,
        /// Which connection.
        connection: RelayConnectionId,
        /// The contact's intro mailbox.
        address: MailboxAddress,
    },
    /// The mail is dealt with: the relay may forget it.
    Acknowledge {
        /// The mailbox it came from.
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
