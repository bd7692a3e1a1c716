//! The options of a network, and the costs of a round.

use std::time::Duration;

use mezza::testing::process::busy::Phase;
use mezza_lanes::Kernel;
use mezza_mixnet::noise::Law;

use super::threads::Threads;

/// The options of a network.
#[derive(Clone, Copy)]
pub struct MixSetup {
    /// The number of mixes, 1 to 8.
    pub mixes: usize,
    /// Most users of a round.
    pub users_max: u32,
    /// The noise of each mix but the last.
    pub law: Law,
    /// The kernel of the mixes.
    pub kernel: &'static dyn Kernel,
    /// The seed of the onions.
    pub seed: u64,
}

/// CPU time by phase, in the order of [`Phase::ALL`].
pub type PhaseCpu = [Duration; Phase::ALL.len()];

/// The costs of a round. Every reply was opened and was right.
#[derive(Clone, Debug)]
pub struct RoundTiming {
    /// From the first frame of the batch to the last of the replies.
    pub wall: Duration,
    /// CPU time of this process in that time: all mixes, their links, and the coordinator's ends.
    pub cpu: Duration,
    /// CPU time of each mix by phase in that time.
    pub spent: Vec<PhaseCpu>,
    /// CPU time of each mix by phase before the batch: its noise.
    pub ahead: Vec<PhaseCpu>,
    /// CPU time of the coordinator's links.
    pub own: Duration,
    /// CPU time by threads, which includes the work around jobs and links.
    pub threads: Threads,
    /// Wall time of making the onions, on all cores.
    pub making: Duration,
}
