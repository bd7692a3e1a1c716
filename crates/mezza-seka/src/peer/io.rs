//! Inputs and outputs of the peer machine.

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
    /// How often an idle link renews its keys, ms.
    pub heal_ms: u64,
    /// How often an idle link sends an empty frame to keep a NAT mapping, ms; 0: never.
    pub keepalive_ms: u64,
    /// Subkeys of a session, 1 to 4,096: the session ends after 65,536 frames for each.
    pub subkeys: u32,
    /// Time after which a responder begins one more exchange, ms; 0 lifts the limit, for the lab.
    pub exchange_ms: u64,
    /// True if the write that ends an exchange also reserves the next attempt number. A restart
    /// then skips that number, which a guard on the way counts as a refused handshake (GUARD-35).
    pub reserves_ahead: bool,
}

impl Default for PeerSettings {
    fn default() -> Self {
        Self {
            rekey_ms: REKEY_MS,
            heal_ms: HEAL_MS,
            keepalive_ms: 0,
            subkeys: SUBKEYS_MAX,
            exchange_ms: EXCHANGE_MS,
            reserves_ahead: true,
        }
    }
}

/// Events that a peer handles.
#[derive(Debug)]
pub enum PeerInput {
    /// A frame arrived.
    Datagram {
        /// The bytes of the frame, of any content.
        frame: Vec<u8>,
        /// The source, which counts only after the frame is verified (SEKA-76).
        from: PeerAddress,
    },
    /// The ephemeral key that [`PeerOutput::Want`] requested.
    Give(EphemeralKey),
    /// The write of this number, and all before it, is durable.
    Stored(u64),
    /// The write of this number failed, but its bytes may be on the disk.
    StoreFailed(u64),
    /// The first frame of this session opened.
    Fresh(u32),
    /// The use of a session, from [`LinkSession::usage`].
    Used(SessionUsage),
    /// The operator requests new keys now.
    Rekey,
    /// Frames wait, but there is no session.
    Wanted,
    /// The carrier is up, or it is gone and its sessions end: the opener on the next carrier does
    /// not know the packet numbers seen before (SEKA-42).
    Carrier(bool),
    /// The time of day, ms since 1970: stored for the user; nothing depends on it.
    Wall(u64),
    /// The source of the last DATA frame that opened.
    Heard(PeerAddress),
}

/// The destination of a frame of the exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameTarget {
    /// The address at which the peer was last verified.
    Known,
    /// The source of the verified frame that caused this response. The frame may be a replay, so
    /// the address is used for this response only.
    Source(PeerAddress),
    /// The known address, and all other possible addresses of the peer, which has not responded for
    /// long.
    Search,
}

/// Effects that a peer requests, in order.
#[derive(Debug)]
pub enum PeerOutput {
    /// Draw an ephemeral key and pass it in with [`PeerInput::Give`].
    Want,
    /// Make this record durable. Later outputs do not wait for the write, only
    /// [`PeerInput::Stored`] does.
    Store {
        /// The number of the write, which its result repeats.
        seq: u64,
        /// The bytes for the older slot.
        sealed: Box<[u8; SEALED_BYTES]>,
    },
    /// Send a frame on the carrier.
    Send {
        /// The destination.
        to: FrameTarget,
        /// The bytes of the frame.
        frame: Vec<u8>,
    },
    /// The peer proved its presence at this address: send traffic there from now on.
    Moved(PeerAddress),
    /// Open frames of this session from now on.
    Install(Box<LinkSession>),
    /// Send under this session from now on.
    Use(u32),
    /// Send an empty frame under a session.
    KeepAlive {
        /// The session, by its attempt.
        attempt: u32,
        /// The destination.
        to: FrameTarget,
    },
    /// Wipe this session.
    Retire(u32),
    /// An event for the user.
    Tell(PeerEvent),
}

/// An event for the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerEvent {
    /// An exchange was accepted; its duration from the first frame, ms.
    Accepted(u64),
    /// An attempt ended without a response.
    NoAnswer,
    /// A write failed; the attempt was dropped.
    StoreFailed,
    /// Frames under the peer's name match no state: the pairing was intercepted, a state was lost,
    /// or the frames are spoofed.
    NotRecognised,
    /// The alarm is over: a frame of the peer was verified.
    Recognised,
    /// The renewal of the session is overdue.
    Overdue,
    /// The last session ended; nothing is sent until the next exchange.
    Ended,
    /// Suite `paper` has no attempts left under this state; the devices must pair again.
    Exhausted,
}

/// The status for the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerStatus {
    /// The session that seals frames, by its attempt, and the time it began.
    pub session: Option<(u32, Time)>,
    /// Time of the renewal if frames flow.
    pub rekey: Option<Time>,
    /// True if the alarm *not recognised* is on.
    pub alarm: bool,
    /// Exchange frames under the peer's name that were refused.
    pub refused: u64,
    /// Consecutive attempts without a response.
    pub unanswered: u32,
}

snapshot!(struct PeerSettings { rekey_ms, heal_ms, keepalive_ms, subkeys, exchange_ms, reserves_ahead });
