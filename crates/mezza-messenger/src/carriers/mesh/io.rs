//! Inputs and outputs of the mesh carrier.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use mezza_core::snapshot;
use mezza_hibe::{HeldKeys, Life, OpenedEnvelope, System};

use crate::io::KeyringStep;

/// The clock and the surroundings of a mesh node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeshReport {
    /// The tick of network time, on which neighbours agree.
    pub cur: u32,
    /// The tick of the node's own clock, without the neighbours.
    pub own: u32,
    /// Maximum error of the own clock in milliseconds.
    pub within_ms: u64,
    /// True if the clock's time is used as it is. Otherwise the node uses the time minus its
    /// maximum error.
    pub settled: bool,
    /// Number of neighbours whose beacons arrived in the last ten seconds.
    pub around: u32,
    /// Boot time of this report in milliseconds.
    pub boot_ms: u64,
    /// Protection level of the links: 3 if no link has lasting addresses, otherwise 2.
    pub level: u8,
}

snapshot!(struct MeshReport { cur, own, within_ms, settled, around, boot_ms, level });

/// Inputs of the driver about the mesh node.
pub enum MeshInput {
    /// The node reported its clock and its surroundings.
    Clock(MeshReport),
    /// No node answers. Keys are still erased by boot time, in milliseconds.
    Away {
        /// Boot time of this report in milliseconds.
        boot_ms: u64,
    },
    /// Make a key tree. `confirmed`: the user confirmed that the clock is right.
    MakeTree {
        /// True if the user confirmed the date and time.
        confirmed: bool,
    },
    /// Seal our envelopes for this life (the lifetime class of keys and cells), if the contact's
    /// card offers it.
    Life(Life),
    /// An envelope opened with one of the keys of [`MeshOutput::Keys`].
    Opened(OpenedEnvelope),
    /// Neighbours announce a cell that this device sent.
    Announced {
        /// The ticket of [`MeshOutput::Send`].
        ticket: u64,
        /// Number of names of neighbours under which the cell was announced.
        names: u16,
    },
    /// The last tick at which a cell of ours is useful is over.
    Expired {
        /// The ticket of [`MeshOutput::Send`].
        ticket: u64,
    },
    /// The node refused a cell of ours for now.
    Refused {
        /// The ticket of [`MeshOutput::Send`].
        ticket: u64,
    },
    /// The keyring step of this generation is durable.
    KeyringStored {
        /// The generation of the step.
        generation: u64,
    },
}

/// The keys with which the node tries to open arriving envelopes: those of the current epochs.
/// Clones share them.
#[derive(Clone)]
pub struct TrialKeys {
    /// Tables of the scheme.
    pub system: Arc<System>,
    /// The keys of the present epochs.
    pub held: HeldKeys,
}

snapshot!(struct TrialKeys {
    system => true, held => held.held_epochs().map(|epoch| epoch.0).collect::<Vec<u32>>(),
});

/// Requests of the device to the mesh node.
pub enum MeshOutput {
    /// Flood this envelope.
    Send {
        /// Identifies the envelope in later reports.
        ticket: u64,
        /// The life of its keys.
        life: u8,
        /// The tick for which it is sealed.
        tick: u32,
        /// The sealed envelope.
        envelope: Vec<u8>,
    },
    /// Try arriving envelopes with these keys, and drop all earlier ones.
    Keys(TrialKeys),
    /// Store this step of the keyring.
    Keyring(KeyringStep),
}

snapshot!(enum MeshOutput [Send { ticket, life, tick, envelope }, Keys(a), Keyring(a)]);

impl fmt::Debug for MeshInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Clock(_) => "Clock",
            Self::Away { .. } => "Away",
            Self::MakeTree { .. } => "MakeTree",
            Self::Life(_) => "Life",
            Self::Opened(_) => "Opened",
            Self::Announced { .. } => "Announced",
            Self::Expired { .. } => "Expired",
            Self::Refused { .. } => "Refused",
            Self::KeyringStored { .. } => "KeyringStored",
        })
    }
}

impl fmt::Debug for MeshOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Send { .. } => "Send",
            Self::Keys(_) => "Keys",
            Self::Keyring(_) => "Keyring",
        })
    }
}
