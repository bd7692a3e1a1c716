//! What a process asks of its system, and the loop around its machine: shared by node and servers.

pub(crate) mod busy;
pub(crate) mod drive;
pub(crate) mod files;
pub(crate) mod home;
pub(crate) mod limiter;
pub(crate) mod lock;
pub(crate) mod memory;
pub(crate) mod metrics;
pub(crate) mod rate;
pub(crate) mod rng;
pub(crate) mod stop;
