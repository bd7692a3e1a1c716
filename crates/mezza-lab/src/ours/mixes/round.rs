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
    /// Maximum users of a round.
    pub users_max: u32,
    /// The noise of each mix except the last.
    pub law: Law,
    /// The kernel of the mixes.
    pub kernel: &'static dyn Kernel,
    /// The seed of the onions.
    pub seed: u64,
}

/// CPU time by phase, in the order of [`Phase::ALL`].
pub type PhaseCpu = [Duration; Phase::ALL.len()];

/// The costs of a round. Every reply was opened and was correct.
#[derive(Clone, Debug)]
pub struct RoundTiming {
    /// Wall time from the first frame of the batch to the last reply.
    pub wall: Duration,
    /// CPU time of this process in `wall`: all mixes, their links, and the coordinator's ends.
    pub cpu: Duration,
    /// CPU time of each mix by phase in `wall`.
    pub spent: Vec<PhaseCpu>,
    /// CPU time of each mix by phase before the batch, which is spent on noise.
    pub ahead: Vec<PhaseCpu>,
    /// CPU time of the coordinator's links.
    pub own: Duration,
    /// CPU time by thread, including the work around jobs and links.
    pub threads: Threads,
    /// Wall time in which the onions were made, on all cores.
    pub making: Duration,
}
