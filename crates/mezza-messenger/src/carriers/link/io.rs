//! Inputs and outputs of the link carrier.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use mezza_core::{Secret, snapshot};
use mezza_guard::wire::control::RefusalCode;
use mezza_ratchet::IdentityKey;
use mezza_seka::PairingFailure;

use crate::io::ContactId;

/// The number of a connection to another device. The driver never uses a number twice while it
/// serves one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkConnection(pub u32);

snapshot!(struct LinkConnection(number));

/// An input of the driver, with its time. All durations of the link are measured by boot time,
/// which continues during a suspend and is never set.
pub struct LinkInput {
    /// Milliseconds since the boot of the machine.
    pub boot_ms: u64,
    /// The event.
    pub event: LinkReport,
}

/// An event of the connections, or a request of the user.
pub enum LinkReport {
    /// The time of [`LinkOutput::WakeAt`] has come.
    Due,
    /// A connection is open.
    Opened {
        /// The number of the connection.
        connection: LinkConnection,
        /// The contact of the [`LinkOutput::Dial`]; `None` for an accepted connection.
        dialled: Option<ContactId>,
    },
    /// A dial failed.
    DialFailed {
        /// The contact of the dial.
        contact: ContactId,
    },
    /// A whole frame arrived, as [`StreamDeframer`](super::StreamDeframer) cuts it.
    Frame {
        /// The connection of the frame.
        connection: LinkConnection,
        /// Bytes of the frame, of any content.
        bytes: Vec<u8>,
    },
    /// A connection has closed.
    Closed {
        /// The number of the connection.
        connection: LinkConnection,
    },
    /// The user wants to pair with the device of a contact and compares six digits with the
    /// contact.
    Pair(PairRequest),
    /// The user's decision about the six digits.
    Confirm {
        /// True if both sides show the same digits.
        equal: bool,
    },
    /// The user ends the pairing.
    CancelPairing,
    /// The contact's device is reached at this address from now on.
    SetAddress {
        /// The contact, which must be paired.
        contact: ContactId,
        /// `host:port`, at most 255 bytes.
        address: String,
    },
    /// The user joins a guard. It replaces the guard before.
    JoinGuard {
        /// `host:port` of the guard, at most 255 bytes.
        address: String,
        /// The pairing key, which the guard printed as a code.
        key: Secret<32>,
    },
    /// The user leaves the guard. Contacts with a destination are not dialled any more.
    LeaveGuard,
    /// The contact's device is reached through the guard from now on, or without it.
    SetGuardDest {
        /// The contact, which must be paired, and which this device dials.
        contact: ContactId,
        /// The number of the device on the guard's list, 1 to 65,519; `None` without a guard.
        dest: Option<u16>,
    },
}

/// A pairing that the user requested.
pub struct PairRequest {
    /// The contact, whose card is held.
    pub contact: ContactId,
    /// Our identity key, to which the pairing is bound.
    pub own_ik: IdentityKey,
    /// The identity key of the contact's card, to which the pairing is bound.
    pub ik: IdentityKey,
    /// `host:port` of the contact's device, at most 255 bytes, if this side dials. `None` waits for
    /// the other side.
    pub address: Option<String>,
}

/// Requests of the device to the driver.
pub enum LinkOutput {
    /// Connect to this address once, within 10 seconds.
    Dial {
        /// The contact, which the result repeats.
        contact: ContactId,
        /// `host:port`.
        address: String,
    },
    /// Send these bytes on a connection, after all earlier ones.
    Send {
        /// The connection.
        connection: LinkConnection,
        /// One frame.
        bytes: Vec<u8>,
    },
    /// Close a connection after all bytes before are sent. The driver reports nothing about it.
    Close {
        /// The connection.
        connection: LinkConnection,
    },
    /// Send [`LinkReport::Due`] at this boot time; `None`: nothing is due. Replaces the last time.
    WakeAt {
        /// Milliseconds since the boot of the machine.
        boot_ms: Option<u64>,
    },
    /// The pairing with a contact has advanced.
    Pairing {
        /// The contact.
        contact: ContactId,
        /// The step.
        step: PairingStep,
    },
    /// The guard sent 32 bytes for the generator of this program. They count as no entropy.
    Gift {
        /// The bytes.
        gift: Secret<32>,
    },
    /// Why the guard does not lead to the contact's device now; `None` if there is no reason.
    GuardTrouble {
        /// The contact.
        contact: ContactId,
        /// The reason.
        trouble: Option<GuardTrouble>,
    },
}

/// Why the guard did not lead to the device of a contact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuardTrouble {
    /// The guard could not be reached at its address.
    Unreachable,
    /// The guard refused, with this code.
    Refused(RefusalCode),
    /// The guard closed the connection before it led to the device, or gave no answer: another
    /// pairing code, or a frame against the rules.
    Closed,
    /// The guard connected to the device, which did not answer; or the guard let the handshake not
    /// pass.
    Unanswered,
}

/// A step of a pairing, for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PairingStep {
    /// Show these six digits, as `123 456`, and ask the user if the other side shows the same.
    Digits(String),
    /// The pairing is complete: the other device is bound to the contact's identity key.
    Paired,
    /// The pairing failed. An earlier pairing with the contact is unchanged, unless the failure
    /// came after both users had confirmed the digits.
    Failed(PairingTrouble),
}

/// Why a pairing failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PairingTrouble {
    /// The other device could not be reached.
    #[error("the other device is not reached at this address")]
    NotReached,
    /// The connection closed before the pairing was complete.
    #[error("the connection closed before the pairing was complete")]
    Closed,
    /// The digits were equal, and the other device belongs to another identity, or expects another
    /// one here.
    #[error("the other device does not belong to this contact, or was told another contact")]
    WrongIdentity,
    /// The contact was deleted or blocked.
    #[error("the contact was deleted or blocked")]
    ContactGone,
    /// The exchange of the pairing failed.
    #[error(transparent)]
    Exchange(#[from] PairingFailure),
}

snapshot!(enum PairingTrouble [
    NotReached, Closed, WrongIdentity, ContactGone, Exchange(failure => alloc::format!("{failure:?}")),
]);
snapshot!(enum PairingStep [Digits(a), Paired, Failed(a)]);
snapshot!(enum GuardTrouble [
    Unreachable, Refused(code => *code as u8), Closed, Unanswered,
]);
snapshot!(enum LinkOutput [
    Dial { contact, address }, Send { connection, bytes }, Close { connection }, WakeAt { boot_ms },
    Pairing { contact, step }, Gift { gift }, GuardTrouble { contact, trouble },
]);

impl fmt::Debug for LinkInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.event {
            LinkReport::Due => "Due",
            LinkReport::Opened { .. } => "Opened",
            LinkReport::DialFailed { .. } => "DialFailed",
            LinkReport::Frame { .. } => "Frame",
            LinkReport::Closed { .. } => "Closed",
            LinkReport::Pair(_) => "Pair",
            LinkReport::Confirm { .. } => "Confirm",
            LinkReport::CancelPairing => "CancelPairing",
            LinkReport::SetAddress { .. } => "SetAddress",
            LinkReport::JoinGuard { .. } => "JoinGuard",
            LinkReport::LeaveGuard => "LeaveGuard",
            LinkReport::SetGuardDest { .. } => "SetGuardDest",
        })
    }
}

impl fmt::Debug for LinkOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Dial { .. } => "Dial",
            Self::Send { .. } => "Send",
            Self::Close { .. } => "Close",
            Self::WakeAt { .. } => "WakeAt",
            Self::Pairing { .. } => "Pairing",
            Self::Gift { .. } => "Gift",
            Self::GuardTrouble { .. } => "GuardTrouble",
        })
    }
}
