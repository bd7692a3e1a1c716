//! Inputs and outputs of the machine of a pairing.

use alloc::string::String;
use alloc::vec::Vec;

use mezza_core::EphemeralKey;

use crate::keys::{LinkId, LinkRole};
use crate::limits::PAIRING_MS;
use crate::peer::{PeerInput, PeerOutput, PeerSettings};
use crate::record::PeerAddress;
use crate::sas::SasDigits;

/// The pairing that a user asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairingSettings {
    /// Our name on links.
    pub own: LinkId,
    /// Only this role; `None`: whatever comes.
    pub role: Option<LinkRole>,
    /// Only this device.
    pub peer: Option<LinkId>,
    /// Both users compare six digits.
    pub sas: bool,
    /// How long the window is open, ms.
    pub window_ms: u64,
    /// The name for people.
    pub name: String,
    /// The number of the link on this machine.
    pub link: u16,
    /// Devices that are paired already, but for one that shall be replaced.
    pub known: Vec<LinkId>,
    /// How the link is run.
    pub peer_settings: PeerSettings,
}

impl PairingSettings {
    /// A window of 60 s in either role, without digits.
    pub fn new(own: LinkId, name: &str, link: u16) -> Self {
        Self {
            own,
            role: None,
            peer: None,
            sas: false,
            window_ms: PAIRING_MS,
            name: name.into(),
            link,
            known: Vec::new(),
            peer_settings: PeerSettings::default(),
        }
    }
}

/// Events that a pairing handles.
#[derive(Debug)]
pub enum PairingInput {
    /// A frame arrived.
    Datagram {
        /// Its bytes.
        frame: Vec<u8>,
        /// Where answers to it go.
        from: PeerAddress,
        /// It comes from this link, and was not passed on.
        on_link: bool,
    },
    /// The ephemeral key that [`PairingOutput::Want`] asked for.
    Give(EphemeralKey),
    /// Something for the peer whose first exchange is under way.
    Peer(PeerInput),
    /// The user says whether the digits are equal.
    Confirm(bool),
    /// The user gives up.
    Cancel,
}

/// Effects that a pairing requests, in order.
#[derive(Debug)]
pub enum PairingOutput {
    /// Draw an ephemeral key and give it.
    Want,
    /// Put a frame on the carrier.
    Send {
        /// For whom; `None`: for everybody on the link.
        to: Option<PeerAddress>,
        /// Its bytes.
        frame: Vec<u8>,
    },
    /// A device was found.
    Found(LinkId),
    /// Show these digits and ask whether the other side shows the same.
    Digits(SasDigits),
    /// An effect of the peer of the first exchange. Its frames are `Send` above.
    Peer(PeerOutput),
    /// The first exchange was accepted: take the peer.
    Done,
    /// Nothing was paired, and nothing is kept.
    Failed(PairingFailure),
}

/// Why nothing was paired.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PairingFailure {
    /// A second device, a second key, or our own name in a frame of somebody else.
    #[error("more than one device answered")]
    Conflict,
    /// Somebody has our name.
    #[error("another device uses our name")]
    OwnName,
    /// A device that is paired already.
    #[error("already paired")]
    Known(LinkId),
    /// A key that gives no secret.
    #[error("a key that gives no secret")]
    LowOrder,
    /// S3 does not open what S1 promised.
    #[error("the commitment does not open")]
    Commitment,
    /// The user says that the digits differ.
    #[error("the digits differ")]
    Digits,
    /// Nobody answered, or the first exchange did not end in time.
    #[error("nobody answered in time")]
    Timeout,
    /// The user gave up.
    #[error("given up")]
    Cancelled,
    /// The record cannot be written.
    #[error("the pairing cannot be stored")]
    Store,
}
