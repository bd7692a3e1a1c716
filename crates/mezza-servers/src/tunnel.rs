//! The daemon of links: runs SEKA peers as machines, with TAP devices and carriers.
//!
//! ```text
//! TAP --transmit thread--> carrier --> peer's carrier --receive thread--> TAP
//!             |  sessions, published         |
//!             +---------- control -----------+   machines, control socket, store thread
//! ```
//!
//! Exchanges and the disk never hold up a data thread: it reads the session to send under and the table
//! of open sessions, each of which is replaced as a whole (SEKA-71).

pub(crate) mod address;
pub(crate) mod carrier;
pub mod config;
pub mod control;
pub mod daemon;
pub(crate) mod link;
pub mod metrics;
pub(crate) mod netlink;
pub(crate) mod pair;
pub(crate) mod shared;
pub mod store;
pub(crate) mod tap;

mod receive;
#[cfg(test)]
mod tests;
mod transmit;

use mezza_seka::suite::default::DefaultSuite;

use address::Endpoint;
use control::LinkAsk;
use mezza_host::backend::AwsLc;
use mezza_host::process::control::ControlRequest;

/// The suite of every pairing that this program makes.
pub(crate) type Suite = DefaultSuite<AwsLc>;

/// Events for the control task.
#[derive(Debug)]
pub enum TunnelEvent {
    /// A frame of pairing or exchange arrived.
    Frame {
        /// The interface of the carrier.
        interface: u32,
        /// The source of the frame.
        from: Endpoint,
        /// The bytes of the frame.
        frame: Vec<u8>,
    },
    /// The first frame of a session opened.
    Fresh {
        /// The link.
        link: u16,
        /// The session.
        attempt: u32,
    },
    /// Frames of a link wait for a session.
    Wanted(u16),
    /// The peer of a link has a new address.
    Moved {
        /// The link.
        link: u16,
        /// The new address.
        to: Endpoint,
    },
    /// An interface came, went or changed.
    Interfaces,
    /// The carrier on this interface cannot be read any more.
    Lost(u32),
    /// The interface of a link is gone.
    Unplugged(u16),
    /// The path of a link now takes smaller frames.
    Narrowed(u16),
    /// A write of a record is durable, or failed.
    Stored {
        /// The link.
        link: u16,
        /// The number of the write.
        seq: u64,
        /// True if the write is durable.
        ok: bool,
    },
    /// A request came over the control socket.
    Asked(ControlRequest<LinkAsk>),
}

impl From<ControlRequest<LinkAsk>> for TunnelEvent {
    fn from(request: ControlRequest<LinkAsk>) -> Self {
        Self::Asked(request)
    }
}
