//! Real mixes on loopback, in this process, and a coordinator of the lab that hands them onions made
//! before: what a round costs without the windows that clients need.
//!
//! ```text
//! desk ==control==> m0 m1 .. (TLS, raw keys)      NEW_ROUND, SIGN
//!   +====data====> m0 => m1 => .. => back         BATCH_START .. REPLIES_END: this is timed
//! ```

mod desk;
mod network;
mod onions;
mod round;
mod series;
mod shares;
mod threads;
mod town;

pub use desk::LabCoordinator;
pub use round::{MixSetup, RoundTiming};
pub use series::{GridPoint, GridSeries, over_both, over_noise, over_users};
pub use shares::Shares;
pub use town::{ProcessMixnet, ServerRole, events_of};
