//! Limits and constants (section "Limits" of the specification).

/// Most mixes of one chain; latency and noise grow with the square of their number.
pub const MIXES_MAX: usize = 8;
/// Most onions of one client in one round; noise grows with it.
pub const SLOTS_MAX: u8 = 5;
/// Most buckets of a call or invitation round; the number is a power of two.
pub const BUCKETS_MAX: u32 = 1_024;
/// Most bytes after the length field of one frame: about 512 onions.
pub const FRAME_BYTES_MAX: usize = 262_144;
/// Rounds of one service that may be unfinished at a time.
pub const ROUNDS_IN_FLIGHT: usize = 4;
/// Most clients of one network.
pub const USERS_MAX: u32 = 4_000_000;
/// Largest scale of the noise; up to it the exact sampler stays inside 128 bits.
pub const SCALE_MAX: u32 = 1 << 20;
/// Largest mean of the noise: five slots at a million rounds need three quarters of it.
pub const MU_MAX: u32 = 1 << 22;
/// Longest duration in a config, milliseconds: one day.
pub const DURATION_MS_MAX: u32 = 86_400_000;
/// Most configs of a network, including genesis; one a month makes 300 in 25 years.
pub const CONFIGS_MAX: usize = 1_024;
/// Most guardians of a config.
pub const GUARDIANS_MAX: usize = 16;
/// Most bytes of the name of an operator.
pub const OPERATOR_BYTES_MAX: usize = 32;
/// Most traps of a round: our own noise messages whose return is checked.
pub const TRAPS_MAX: u32 = 1_024;
/// Number of messages in one group of the batch inversion of X25519.
pub const GROUP: usize = 256;
/// Most bytes of one message of the messenger in a stream of cells: 40 cells with its length field.
pub const MESSAGE_BYTES_MAX: usize = 8_998;
/// Most missing steps of a contact's chain: ten years of rounds of 5 s.
pub const CHAIN_SKIP_MAX: u64 = 1 << 26;
