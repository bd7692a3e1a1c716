//! How long a run measures.

use clap::ValueEnum;

/// How long to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Profile {
    /// Seconds: does every row work? Its figures decide nothing
    Smoke,
    /// Minutes
    Quick,
    /// As the design states the goals
    Full,
}

impl Profile {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Smoke => "smoke",
            Self::Quick => "quick",
            Self::Full => "full",
        }
    }

    /// The cost of a job, from its seconds by profile.
    pub fn cost_s(self, [smoke, quick, full]: [u32; 3]) -> u32 {
        self.pick(smoke, quick, full)
    }

    /// One of three values.
    pub fn pick<T>(self, smoke: T, quick: T, full: T) -> T {
        match self {
            Self::Smoke => smoke,
            Self::Quick => quick,
            Self::Full => full,
        }
    }
}
