//! A mesh node as a process of its own: sockets and clocks around the machine of `mezza-mesh`, and a
//! control socket beside it. It has no vault and no secret, and its store is memory.

pub(crate) mod control;
pub(crate) mod crowd;
pub(crate) mod grade;
pub(crate) mod network;
pub(crate) mod run;
mod shell;
pub(crate) mod udp;
