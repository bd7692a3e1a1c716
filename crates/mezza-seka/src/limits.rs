//! Sizes, times and bounds of the protocol (seka, section Limits).

/// Bytes of a session id, of a tag, and of a nonce of SAS pairing.
pub const TAG_BYTES: usize = 16;
/// Frames that one subkey protects (paper, section 5.3).
pub const FRAMES_PER_SUBKEY: u32 = 1 << 16;
/// Number of subkeys of a session, enough for 2^28 frames. Settings may lower it.
pub const SUBKEYS_MAX: u32 = 4_096;
/// The first packet number that no opener accepts, independently of the sender's settings.
pub const PACKETS_MAX: u32 = SUBKEYS_MAX * FRAMES_PER_SUBKEY;
/// Packet numbers below the highest one whose repetition is still detected (RFC 6479).
pub const WINDOW_FRAMES: u32 = 8_192;
/// Attempts under one state with suite `paper`: its counter has 16 bits, two for each attempt.
pub const PAPER_ATTEMPTS_MAX: i64 = 1 << 15;

/// Simultaneously open sessions of a peer: old, current, next.
pub const SESSIONS_MAX: usize = 3;
/// Age at which a session is renewed if frames flowed, ms.
pub const REKEY_MS: u64 = 120_000;
/// Age at which a session that should have been renewed is reported, ms.
pub const OVERDUE_MS: u64 = 180_000;
/// Age at which a session ends, ms.
pub const SESSION_MS: u64 = 300_000;
/// How long the old session stays open after the switch, ms.
pub const RETIRE_MS: u64 = 3_000;
/// How often an idle link renews its keys, ms.
pub const HEAL_MS: u64 = 24 * 3_600_000;

/// First pause before KE1 is sent again, ms; it doubles.
pub const KE1_REPEAT_MS: u64 = 200;
/// Repeats of KE1.
pub const KE1_REPEATS: u32 = 3;
/// End of the attempt after the last repeat, ms.
pub const KE1_END_MS: u64 = 1_600;
/// First pause before KE3 is sent again, ms; it doubles up to [`KE3_REPEAT_MAX_MS`].
pub const KE3_REPEAT_MS: u64 = 200;
/// Longest pause between two KE3, ms.
pub const KE3_REPEAT_MAX_MS: u64 = 1_600;
/// Repeats of KE3 before a new exchange is begun.
pub const KE3_REPEATS: u32 = 8;
/// Minimum time between two responses to the same frame, ms.
pub const ANSWER_MS: u64 = 100;
/// First pause after an attempt that failed, ms; it doubles up to [`BACKOFF_MAX_MS`].
pub const BACKOFF_MS: u64 = 1_000;
/// Longest pause between two attempts, ms.
pub const BACKOFF_MAX_MS: u64 = 60_000;
/// Consecutive attempts without a response after which KE1 goes to every possible address of the
/// peer.
pub const SEARCH_ATTEMPTS: u32 = 3;
/// One of this number of unanswered nudges goes to every possible address of the peer.
pub const SEARCH_NUDGES: u32 = 5;
/// How often a responder without a session sends a nudge, ms.
pub const NUDGE_MS: u64 = 1_000;
/// Minimum time between two attempts caused by nudges, ms.
pub const NUDGED_MS: u64 = 5_000;
/// Time limit after a write for writing the same record to the other slot, ms.
pub const FLUSH_MS: u64 = 400;
/// Pause before a failed flush is repeated, ms.
pub const FLUSH_RETRY_MS: u64 = 1_000;
/// Number of exchanges in a burst that a responder accepts.
pub const EXCHANGES_BURST: u32 = 8;
/// Time after which a responder accepts one more exchange, ms.
pub const EXCHANGE_MS: u64 = 1_000;
/// Frames with a wrong tag, at least one second apart, that raise *not recognised*.
pub const MISFITS_MAX: u32 = 5;
/// Window in which frames with a wrong tag are counted, ms: long enough for three attempts at the
/// longest back-off pause, with two frames for each attempt counter.
pub const MISFIT_WINDOW_MS: u64 = 180_000;
/// A link that verified a frame within this time raises no alarm, ms.
pub const VERIFIED_MS: u64 = 60_000;
/// Minimum time between two frames with a wrong tag that are counted, ms.
pub const MISFIT_APART_MS: u64 = 1_000;

/// How long a pairing window is open, ms.
pub const PAIRING_MS: u64 = 60_000;
/// Random time that a device listens before it sends, ms: minimum and maximum.
pub const LISTEN_MS: (u64, u64) = (300, 1_000);
/// Pause between two B1 or S1, ms.
pub const ASK_MS: u64 = 250;
/// How often the initiator repeats its request after the first response.
pub const SETTLE_ASKS: u32 = 3;
/// How long the initiator waits for a second response after the first, ms.
pub const SETTLE_MS: u64 = 1_000;
/// Pairing frames that are processed per second.
pub const PAIRING_FRAMES_PER_SECOND: u32 = 10;
