//! A mesh node as a process of its own: sockets and clocks around the state machine of
//! `mezza-mesh`, and a control socket. It has no vault and no secret. Cells that live for hours are
//! also stored on disk.

pub mod ble;
mod cell_store;
pub mod control;
pub mod crowd;
pub mod grade;
mod kernel_clock;
mod link;
pub mod links;
mod listeners;
pub mod network;
mod places;
pub mod run;
mod shell;
mod system_clock;
mod tcp;
pub mod udp;
