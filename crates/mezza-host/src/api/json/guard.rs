//! The guard of this home, and the bits that a tampered device could leak.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The guard of this home.
#[derive(Serialize, Deserialize, ToSchema)]
#[schema(as = Guard)]
pub struct GuardJson {
    /// True if this home has the files of a guard.
    pub on: bool,
    /// True if the guard answered now.
    pub running: bool,
    /// Why its files do not load, in words for people. Then nothing passes the guard.
    pub trouble: Option<String>,
    /// Its counts and the channels that it leaves open; null without a guard, and while its files do
    /// not load.
    pub facts: Option<GuardFactsJson>,
    /// Parts of this program that no guard sees.
    pub unguarded: Vec<GuardPartJson>,
    /// Why the leak experiment cannot run here, with the next step; null if it can.
    pub lab_missing: Option<String>,
}

/// Counts of a guard, and the channels that it leaves open.
#[derive(Serialize, Deserialize, ToSchema)]
#[schema(as = GuardFacts)]
pub struct GuardFactsJson {
    /// True if what no rule covers closes the connection.
    pub strict: bool,
    /// Protection of the link's handshake: 0 none, 1 warning, 2 closed but for a bounded rest, 3 closed.
    pub level: u8,
    /// Handshakes in progress and links that are up.
    pub sessions: usize,
    /// Handshakes in the life of the ledger.
    pub handshakes: u32,
    /// Handshakes that were refused, each of which may leak up to 128 bits.
    pub refused: u32,
    /// Slots that the owner reset.
    pub resets: u32,
    /// True if the last write of the ledger failed, so that handshakes fail.
    pub ledger_fails: bool,
    /// Number of paired devices.
    pub clients: usize,
    /// Names of the destinations, in their order.
    pub destinations: Vec<String>,
    /// Notices and alarms since the start of the guard, oldest first.
    pub events: Vec<String>,
    /// The channels of the handshake.
    pub channels: Vec<GuardChannelJson>,
}

/// A channel by which a tampered device could leak.
#[derive(Serialize, Deserialize, ToSchema)]
#[schema(as = GuardChannel)]
pub struct GuardChannelJson {
    /// The frame: `KE1`, `KE2`, `KE3`, or empty for the whole handshake.
    pub frame: String,
    /// The field or channel.
    pub what: String,
    /// Bits in an accepted handshake; null: without bound.
    pub accepted_bits: Option<f64>,
    /// Bits in a refused handshake; null: without bound.
    pub refused_bits: Option<f64>,
    /// The measure that would close the channel; empty if it is closed.
    pub closed_by: String,
}

/// A part of the program that no guard sees.
#[derive(Serialize, Deserialize, ToSchema)]
#[schema(as = GuardPart)]
pub struct GuardPartJson {
    /// The part.
    pub part: String,
    /// The choice of a tampered device there.
    pub freedom: String,
}

/// The handshake of a leak experiment. Each is one of the thesis; none is the handshake of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = LeakVariant)]
#[serde(rename_all = "kebab-case")]
pub enum LeakVariantJson {
    /// Diffie-Hellman.
    Dh,
    /// Diffie-Hellman with a commitment of the initiator.
    DhComm,
    /// One El-Gamal ciphertext.
    Eg,
}

impl LeakVariantJson {
    /// Returns the name in the lab.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dh => "dh",
            Self::DhComm => "dh-comm",
            Self::Eg => "eg",
        }
    }

    /// Returns the firewall in the lab that closes every field of this handshake.
    pub const fn firewall(self) -> &'static str {
        match self {
            Self::Dh => "fw",
            Self::DhComm => "full",
            Self::Eg => "remaul",
        }
    }
}

/// The order for a leak experiment of the lab.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = LeakOrder)]
#[serde(deny_unknown_fields)]
pub struct LeakOrderJson {
    /// The handshake.
    pub variant: LeakVariantJson,
    /// True if the firewall of the handshake stands between the tampered program and the wire.
    pub guarded: bool,
    /// The made-up secret and all coins follow from it.
    pub seed: u32,
}

/// One line of the leak experiment's stream: a `begin`, then a `reading` for each handshake, then a
/// `result`. A `fault` ends the stream instead.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = LeakLine)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum LeakLineJson {
    /// The choices of the experiment.
    Begin(LeakBeginJson),
    /// The state of the observer after one more handshake.
    Reading(LeakReadingJson),
    /// The end of the experiment.
    Result(LeakResultJson),
    /// The experiment did not end.
    Fault(LeakFaultJson),
}

/// The choices of a leak experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = LeakBegin)]
pub struct LeakBeginJson {
    /// The handshake by its name in the lab.
    pub variant: String,
    /// The group by its name in the lab.
    pub group: String,
    /// The field of the handshake that carries the secret.
    pub element: String,
    /// The firewall by its name in the lab; `none` without one.
    pub firewall: String,
    /// True if the device chooses the field alone behind this firewall.
    pub is_open: bool,
    /// Bits of the made-up secret.
    pub secret_bits: u32,
    /// Bits that one handshake carries.
    pub block_bits: u32,
    /// Handshakes of the whole experiment.
    pub handshakes: u64,
    /// The handshakes that carry the whole secret on average, without a firewall.
    pub expected: f64,
    /// The seed.
    pub seed: u64,
}

/// The state of an observer of the wire after a number of handshakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = LeakReading)]
pub struct LeakReadingJson {
    /// Handshakes seen so far.
    pub handshake: u64,
    /// Bits of all blocks whose last reading equals the secret.
    pub recovered_bits: u32,
    /// Bits of all blocks that were read at least once, right or wrong.
    pub read_bits: u32,
    /// Readings that equal the block of the secret.
    pub hits: u64,
    /// Readings that contradict the reading of the same block before.
    pub contradictions: u64,
}

/// The end of a leak experiment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = LeakResult)]
pub struct LeakResultJson {
    /// True if both ends had equal keys after each handshake.
    pub agreed: bool,
    /// The handshake after which every block was read, right or wrong; null if some block never was.
    pub complete: Option<u64>,
}

/// Why a leak experiment did not end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = LeakFault)]
pub struct LeakFaultJson {
    /// The problem.
    pub text: String,
    /// The next step.
    pub next: String,
}
