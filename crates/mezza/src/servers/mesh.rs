//! A mesh node as a process of its own: sockets and clocks around the machine of `mezza-mesh`, and a
//! control socket beside it. It has no vault and no secret, and its store is memory.

pub(crate) mod ble;
pub(crate) mod control;
pub(crate) mod crowd;
pub(crate) mod grade;
mod link;
pub(crate) mod links;
pub(crate) mod network;
pub(crate) mod run;
mod shell;
mod tcp;
pub(crate) mod udp;
