//! Inputs and outputs of the pairing machine.

use alloc::string::String;
use alloc::vec::Vec;

use mezza_core::EphemeralKey;

use crate::keys::{LinkId, LinkRole};
use crate::limits::PAIRING_MS;
use crate::peer::{PeerInput, PeerOutput, PeerSettings};
use crate::record::PeerAddress;
use crate::sas::SasDigits;

/// The pairing that the user requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairingSettings {
    /// Our name on links.
    pub own: LinkId,
    /// Pair only in this role; `None`: in either role.
    pub role: Option<LinkRole>,
    /// Pair only with this device.
    pub peer: Option<LinkId>,
    /// True if both users compare six digits.
    pub sas: bool,
    /// How long the window is open, ms.
    pub window_ms: u64,
    /// The name for the user.
    pub name: String,
    /// The number of the link on this machine.
    pub link: u16,
    /// Devices that are already paired, except one to be replaced.
    pub known: Vec<LinkId>,
    /// The settings of the new link.
    pub peer_settings: PeerSettings,
}

impl PairingSettings {
    /// Makes settings for a window of 60 s in either role, without digits.
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
        /// The bytes of the frame.
        frame: Vec<u8>,
        /// The address for responses.
        from: PeerAddress,
        /// True if the frame came from this link and was not forwarded.
        on_link: bool,
    },
    /// The ephemeral key that [`PairingOutput::Want`] requested.
    Give(EphemeralKey),
    /// An input for the peer during its first exchange.
    Peer(PeerInput),
    /// The user's decision: true if the digits are equal.
    Confirm(bool),
    /// The user cancels.
    Cancel,
}

/// Effects that a pairing requests, in order.
#[derive(Debug)]
pub enum PairingOutput {
    /// Draw an ephemeral key and pass it in with [`PairingInput::Give`].
    Want,
    /// Send a frame on the carrier.
    Send {
        /// The destination; `None`: all devices on the link.
        to: Option<PeerAddress>,
        /// The bytes of the frame.
        frame: Vec<u8>,
    },
    /// A device was found.
    Found(LinkId),
    /// Show these digits and ask if the other side shows the same.
    Digits(SasDigits),
    /// An output of the peer during its first exchange. Its frames become `Send` above.
    Peer(PeerOutput),
    /// The first exchange was accepted; the driver can take the peer out of the pairing.
    Done,
    /// The pairing failed, and nothing is stored.
    Failed(PairingFailure),
}

/// Why a pairing failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PairingFailure {
    /// A second device, a second key, or our own name in a foreign frame.
    #[error("more than one device answered")]
    Conflict,
    /// Another device uses our name.
    #[error("another device uses our name")]
    OwnName,
    /// The device is already paired.
    #[error("already paired")]
    Known(LinkId),
    /// A public key of low order, which gives no secret.
    #[error("a key that gives no secret")]
    LowOrder,
    /// S3 does not match the commitment of S1.
    #[error("the commitment does not open")]
    Commitment,
    /// The user decided that the digits differ.
    #[error("the digits differ")]
    Digits,
    /// No device responded, or the first exchange did not end in time.
    #[error("nobody answered in time")]
    Timeout,
    /// The user cancelled.
    #[error("given up")]
    Cancelled,
    /// The record cannot be written.
    #[error("the pairing cannot be stored")]
    Store,
}
