//! The services of the system, and the loop around a machine: shared by node and servers.

pub(crate) mod busy;
pub(crate) mod control;
pub(crate) mod drive;
pub(crate) mod files;
pub(crate) mod folder;
pub(crate) mod home;
pub(crate) mod limiter;
pub(crate) mod lock;
pub(crate) mod memory;
pub(crate) mod metrics;
pub(crate) mod privileges;
pub(crate) mod rate;
pub(crate) mod rng;
pub(crate) mod socket;
pub(crate) mod stop;
