//! Incoming parcels before they are opened.

use mezza_ratchet::{IdentityKey, wire};

use crate::carriers::Port;
use crate::device::Components;
use crate::device::knock::Knock;
use crate::io::{Arrival, ArrivalOrigin, Incoming, KNOCK, RATCHET_MESSAGE};

/// A parcel, by its first byte.
#[expect(clippy::large_enum_variant, reason = "one value exists at a time, on the stack")]
pub(super) enum Message<'a> {
    /// A ratchet message.
    Ratchet {
        /// The message.
        incoming: Incoming<'a>,
        /// The address to which the message came.
        origin: ArrivalOrigin,
        /// The identity key in the header of a first message. It is `None` if the key is our own,
        /// if the header is malformed, or if the address alone names the sender.
        writer: Option<IdentityKey>,
    },
    /// A first note that needs no session.
    Knock(Knock<'a>),
}

impl<P: Port> Components<P> {
    /// Returns the message in a parcel, or `None` if the parcel is malformed or was withdrawn.
    pub(super) fn read_message<'a>(&self, arrival: &'a Arrival) -> Option<Message<'a>> {
        let (kind, bytes) = arrival.parcel.split_first()?;
        let incoming = Incoming { bytes, outer: &arrival.outer };
        let origin = arrival.from;
        match (*kind, origin) {
            (RATCHET_MESSAGE, ArrivalOrigin::Contact(_)) => {
                let message = Message::Ratchet { incoming, origin, writer: None };
                (!is_withdrawn(bytes)).then_some(message)
            }
            (RATCHET_MESSAGE, ArrivalOrigin::Stranger | ArrivalOrigin::Invitation(_)) => {
                let own = self.profile.identity().public_key();
                let writer = wire::first_identity(bytes).filter(|ik| *ik != own);
                Some(Message::Ratchet { incoming, origin, writer })
            }
            (KNOCK, _) => self.read_knock(incoming).map(Message::Knock),
            _ => None,
        }
    }
}

/// Returns true if the writer withdrew this message after a part of it had left: zeros replace the
/// rest (MIX-66). A message ends with an AEAD tag of 16 bytes, which is all zeros with probability
/// 2^-128.
fn is_withdrawn(message: &[u8]) -> bool {
    const TAG_BYTES: usize = 16;
    message.ends_with(&[0; TAG_BYTES])
}
