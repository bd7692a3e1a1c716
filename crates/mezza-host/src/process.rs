//! System services, and the loop that drives a machine; shared by node and servers.

pub mod busy;
pub mod control;
pub mod drive;
pub mod files;
pub(crate) mod folder;
pub mod home;
pub mod limiter;
pub mod local_socket;
pub mod lock;
pub mod memory;
pub mod metrics;
pub mod netlink;
pub mod privileges;
pub mod rate;
pub mod rng;
pub mod slots;
pub mod socket;
pub mod stop;
