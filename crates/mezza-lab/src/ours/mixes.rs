//! Real mixes on loopback, in this process, and a coordinator that sends them onions made
//! beforehand. A round has the costs of mixes and links, without the waiting times for clients.
//!
//! ```text
//! coordinator ==control==> m0 m1 .. (TLS, raw keys)      NEW_ROUND, SIGN
//!   +====data====> m0 => m1 => .. => back         BATCH_START .. REPLIES_END: this is timed
//! ```

mod coordinator;
mod network;
mod onions;
mod processes;
mod round;
mod series;
mod shares;
mod threads;

pub use coordinator::LabCoordinator;
pub use network::NetworkPlace;
pub use processes::{ProcessMixnet, ServerRole, events_of};
pub use round::{MixSetup, RoundTiming};
pub use series::{GridPoint, GridSeries, over_both, over_noise, over_users};
pub use shares::Shares;
