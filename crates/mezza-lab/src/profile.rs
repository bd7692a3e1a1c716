//! Profiles: how long a run measures.

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
    /// Returns the name of the profile.
    pub fn name(self) -> &'static str {
        match self {
            Self::Smoke => "smoke",
            Self::Quick => "quick",
            Self::Full => "full",
        }
    }

    /// Returns the seconds of a job in this profile.
    pub fn cost_s(self, [smoke, quick, full]: [u32; 3]) -> u32 {
        self.pick(smoke, quick, full)
    }

    /// Returns the value for this profile.
    pub fn pick<T>(self, smoke: T, quick: T, full: T) -> T {
        match self {
            Self::Smoke => smoke,
            Self::Quick => quick,
            Self::Full => full,
        }
    }
}
