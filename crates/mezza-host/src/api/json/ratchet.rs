//! The part of the interface about sessions and prekeys: counts and times, never a key.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::silent;

silent!(RatchetJson RatchetSession PrekeysJson SignedPrekey);

/// All sessions, and our prekeys.
#[derive(Serialize, Deserialize, ToSchema)]
#[schema(as = Ratchet)]
pub struct RatchetJson {
    /// The active session of each contact that has one, in the order of the contacts.
    pub sessions: Vec<RatchetSession>,
    /// Our prekeys.
    pub prekeys: PrekeysJson,
}

/// The active session with a contact.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct RatchetSession {
    /// The number of the contact.
    pub contact: String,
    /// The suite, `0x0101`.
    pub suite: String,
    /// True if this device began the session.
    pub initiator: bool,
    /// True if the session still waits for the first reply.
    pub pending: bool,
    /// True if the next message uses the current sending chain.
    pub our_turn: bool,
    /// Messages sent in the current chain.
    pub sent: u32,
    /// Number of messages received in the current chain, including missing ones.
    pub received: u32,
    /// Number of keys kept for messages that have not arrived.
    pub skipped: usize,
    /// Number of older sessions that are still stored.
    pub archived: usize,
    /// Time at which a message was last opened in the session, milliseconds since 1970.
    pub last_opened_ms: Option<u64>,
}

/// Our prekeys.
#[derive(Serialize, Deserialize, ToSchema)]
#[schema(as = Prekeys)]
pub struct PrekeysJson {
    /// Stored signed prekeys, newest first, including replaced ones.
    pub signed: Vec<SignedPrekey>,
    /// End of the current bundle, milliseconds since 1970.
    pub bundle_until_ms: Option<u64>,
    /// Number of one-time keys stored here.
    pub one_time_held: usize,
    /// Number of one-time keys left at the relay, if it reported it.
    pub one_time_stock: Option<u16>,
    /// Number of sessions that contacts began today, since the node started.
    pub sessions_today: u32,
    /// Number of the sessions begun by contacts today that used no one-time key.
    pub without_one_time: u32,
}

/// One signed prekey.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct SignedPrekey {
    /// The suite, `0x0101`.
    pub suite: String,
    /// Time at which the prekey was made, milliseconds since 1970.
    pub made_ms: u64,
    /// Time at which its private part is wiped, milliseconds since 1970.
    pub wiped_ms: u64,
}
