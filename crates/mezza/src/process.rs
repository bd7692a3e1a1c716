//! What a process asks of its system, and the loop around its machine: shared by node and servers.

pub mod busy;
pub mod drive;
pub mod files;
pub mod home;
pub mod limiter;
pub mod lock;
pub mod memory;
pub mod metrics;
pub mod rate;
pub mod rng;
pub mod stop;
