//! The part of the interface about sessions and prekeys: counts and times, never a key.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::silent;

silent!(RatchetJson RatchetSession PrekeysJson SignedPrekey);

/// All sessions, and the own prekeys.
#[derive(Serialize, Deserialize, ToSchema)]
#[schema(as = Ratchet)]
pub struct RatchetJson {
    /// The active session of each contact that has one, in the order of the contacts.
    pub sessions: Vec<RatchetSession>,
    /// The own prekeys.
    pub prekeys: PrekeysJson,
}

/// The active session with a contact.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct RatchetSession {
    /// The number of the contact.
    pub contact: String,
    /// The suite, `0x0101`.
    pub suite: String,
    /// True if this device began it.
    pub initiator: bool,
    /// True if it still waits for the first answer.
    pub pending: bool,
    /// True if the next message goes on with the current chain.
    pub our_turn: bool,
    /// Messages sent in the current chain.
    pub sent: u32,
    /// Messages received in the current chain, missing ones too.
    pub received: u32,
    /// Keys kept for messages that have not come.
    pub skipped: usize,
    /// Older sessions that are still kept.
    pub archived: usize,
    /// When a message was last opened, milliseconds since 1970.
    pub last_opened_ms: Option<u64>,
}

/// The own prekeys.
#[derive(Serialize, Deserialize, ToSchema)]
#[schema(as = Prekeys)]
pub struct PrekeysJson {
    /// Signed prekeys held, newest first, retired ones too.
    pub signed: Vec<SignedPrekey>,
    /// The end of the current bundle, milliseconds since 1970.
    pub bundle_until_ms: Option<u64>,
    /// One-time keys held here.
    pub one_time_held: usize,
    /// One-time keys left at the relay, if it said so.
    pub one_time_stock: Option<u16>,
    /// Sessions that others began today, since the node started.
    pub sessions_today: u32,
    /// Number of the sessions begun by others today that used no one-time key.
    pub without_one_time: u32,
}

/// One signed prekey.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct SignedPrekey {
    /// The suite, `0x0101`.
    pub suite: String,
    /// When it was made, milliseconds since 1970.
    pub made_ms: u64,
    /// When its private part is wiped, milliseconds since 1970.
    pub wiped_ms: u64,
}
