//! Inputs and outputs of the machine of a peer.

use alloc::boxed::Box;
use alloc::vec::Vec;

use mezza_core::{EphemeralKey, Time, snapshot};

use crate::limits::{EXCHANGE_MS, HEAL_MS, REKEY_MS, SUBKEYS_MAX};
use crate::record::{PeerAddress, SEALED_BYTES};
use crate::session::{LinkSession, SessionUsage};

/// Settings of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerSettings {
    /// Age at which a session is renewed if frames flowed, ms.
    pub rekey_ms: u64,
    /// An idle link renews its keys this often, ms.
    pub heal_ms: u64,
    /// An idle link sends an empty frame this often, so that a NAT keeps its mapping, ms; 0: never.
    pub keepalive_ms: u64,
    /// Subkeys of a session, 1 to 4,096: it ends after 65,536 frames for each.
    pub subkeys: u32,
    /// Time after which a responder begins one more exchange, ms; 0 lifts the limit, for the lab.
    pub exchange_ms: u64,
}

impl Default for PeerSettings {
    fn default() -> Self {
        Self {
            rekey_ms: REKEY_MS,
            heal_ms: HEAL_MS,
            keepalive_ms: 0,
            subkeys: SUBKEYS_MAX,
            exchange_ms: EXCHANGE_MS,
        }
    }
}

/// Events that a peer handles.
#[derive(Debug)]
pub enum PeerInput {
    /// A frame arrived.
    Datagram {
        /// Its bytes, of any content.
        frame: Vec<u8>,
        /// Its source, which counts only after the frame verified (SEKA-76).
        from: PeerAddress,
    },
    /// The ephemeral key that [`PeerOutput::Want`] asked for.
    Give(EphemeralKey),
    /// The write of this number, and all before it, is durable.
    Stored(u64),
    /// The write of this number failed; its bytes may be on the disk all the same.
    StoreFailed(u64),
    /// The first frame of this session opened.
    Fresh(u32),
    /// How much of a session is used up, by [`LinkSession::usage`].
    Used(SessionUsage),
    /// The operator wants new keys now.
    Rekey,
    /// Frames wait, and there is no session.
    Wanted,
    /// The carrier came up, or it went and its sessions end: whoever opens frames over the next carrier
    /// does not know which packet numbers were seen (SEKA-42).
    Carrier(bool),
    /// The time of day, ms since 1970: it is stored for people, nothing depends on it.
    Wall(u64),
    /// The source of the last DATA frame that opened.
    Heard(PeerAddress),
}

/// The destination of a frame of the exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameTarget {
    /// The address at which the peer was verified last.
    Known,
    /// The source of the verified frame that is answered. The frame may be a replay, so the address is
    /// used for this answer only.
    Source(PeerAddress),
    /// The known address, and every other address at which the peer may be: it did not answer for long.
    Search,
}

/// Effects that a peer requests, in order.
#[derive(Debug)]
pub enum PeerOutput {
    /// Draw an ephemeral key and give it.
    Want,
    /// Make this record durable; later outputs do not wait for it, the answer does.
    Store {
        /// Its number, which the answer repeats.
        seq: u64,
        /// The bytes for the older slot.
        sealed: Box<[u8; SEALED_BYTES]>,
    },
    /// Put a frame on the carrier.
    Send {
        /// Its destination.
        to: FrameTarget,
        /// Its bytes.
        frame: Vec<u8>,
    },
    /// The peer proved that it is at this address: traffic goes there from now on.
    Moved(PeerAddress),
    /// Open frames of this session from now on.
    Install(Box<LinkSession>),
    /// Send under this session from now on.
    Use(u32),
    /// Send an empty frame under a session.
    KeepAlive {
        /// The session, by its attempt.
        attempt: u32,
        /// Its destination.
        to: FrameTarget,
    },
    /// Forget this session.
    Retire(u32),
    /// Something that a person may want to know.
    Tell(PeerEvent),
}

/// Something that a person may want to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerEvent {
    /// An exchange was accepted; how long it took from the first frame, ms.
    Accepted(u64),
    /// An attempt ended without an answer.
    NoAnswer,
    /// A write failed; the attempt was dropped.
    StoreFailed,
    /// Frames of this peer fit no state: the pairing was intercepted, a state was lost, or somebody
    /// spoofs.
    NotRecognised,
    /// The alarm is over: the peer was recognised.
    Recognised,
    /// The session should have been renewed and was not.
    Overdue,
    /// The last session ended; nothing is sent until the next exchange.
    Ended,
    /// Suite `paper` has no attempts left under this state; pair again.
    Exhausted,
}

/// The status for the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerStatus {
    /// The session under which frames are sent, by its attempt, and when it began.
    pub session: Option<(u32, Time)>,
    /// When it is renewed, if frames flow.
    pub rekey: Option<Time>,
    /// The alarm *not recognised* is on.
    pub alarm: bool,
    /// Exchange frames of this peer that were refused.
    pub refused: u64,
    /// Attempts in a row without an answer.
    pub unanswered: u32,
}

snapshot!(struct PeerSettings { rekey_ms, heal_ms, keepalive_ms, subkeys, exchange_ms });
