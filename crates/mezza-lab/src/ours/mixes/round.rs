//! How mixes are set up, and what a round of theirs cost.

use std::time::Duration;

use mezza::mixnet::busy::Phase;
use mezza_lanes::Kernel;
use mezza_mixnet::noise::Law;

use super::threads::Threads;

/// How the mixes are set up.
#[derive(Clone, Copy)]
pub struct MixSetup {
    /// How many, 1 to 8.
    pub mixes: usize,
    /// Most users of a round.
    pub users_max: u32,
    /// The noise of each mix but the last.
    pub law: Law,
    /// Whose arithmetic.
    pub kernel: &'static dyn Kernel,
    /// The seed of the onions.
    pub seed: u64,
}

/// CPU time by phase, in the order of [`Phase::ALL`].
pub type PhaseCpu = [Duration; Phase::ALL.len()];

/// What a round was like. Every reply was opened and held what it must.
#[derive(Clone, Debug)]
pub struct RoundTiming {
    /// From the first frame of the batch to the last of the replies.
    pub wall: Duration,
    /// CPU time of this process meanwhile: all mixes, their links, and the desk's ends of them.
    pub cpu: Duration,
    /// Of each mix by phase meanwhile.
    pub spent: Vec<PhaseCpu>,
    /// Of each mix by phase before the batch: its noise.
    pub ahead: Vec<PhaseCpu>,
    /// Of the desk's own links.
    pub own: Duration,
    /// The same by threads: what is around all that.
    pub threads: Threads,
    /// Making the onions, on all cores.
    pub making: Duration,
}
