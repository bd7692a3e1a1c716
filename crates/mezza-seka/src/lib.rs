//! Links that pair without a secret, keep their traffic from everybody in between, and heal after a
//! theft: SEKA (Ackermann, Bober, Jungnickel, Lehmann).
//!
//! Promise: two devices that once exchanged two frames which nobody changed recognise each other from
//! then on. A thief of both states is locked out by one exchange that he only watches. Not promised:
//! who the device is, and anything if somebody sat in the middle of a pairing without digits.
//!
//! | module | noun |
//! |---|---|
//! | [`wire`], [`limits`] | every frame; sizes, times and bounds |
//! | [`keys`], [`suite`], [`backend`] | keys by role; which functions, whose code |
//! | [`pairing`], [`sas`] | the machine from a button to a peer; six digits |
//! | [`peer`], [`record`] | the machine of a pairing; what is stored of it |
//! | [`session`], [`window`] | keys of traffic, sealing, opening; which packet numbers were seen |
//! | [`report`] | receive counters that both sides exchange |
//! | [`offload`], [`stream`] | super-frames, cut and joined; records on a stream |
//!
//! ```
//! use mezza_core::PortableBackend;
//! use mezza_seka::suite::{LinkSuite, default::DefaultSuite};
//!
//! type Suite = DefaultSuite<PortableBackend>;
//! assert_eq!((Suite::NUMBER, Suite::NAME), (0x02, "default"));
//! ```
#![no_std]

extern crate alloc;

pub mod backend;
pub mod error;
mod exchange;
pub mod keys;
pub mod limits;
pub mod offload;
pub mod pairing;
pub mod peer;
pub mod record;
pub mod report;
pub mod sas;
pub mod session;
pub mod stream;
pub mod suite;
pub mod window;
pub mod wire;

pub use error::{FrameError, LinkError, RecordError};
pub use keys::{LinkId, LinkRole};
pub use pairing::{Pairing, PairingFailure, PairingInput, PairingOutput, PairingSettings};
pub use peer::{FrameTarget, Peer, PeerEvent, PeerInput, PeerOutput, PeerSettings};
pub use record::{PeerAddress, PeerRecord, StoreKey};
pub use report::DeliveryReport;
pub use session::{LinkSession, Opener, Sealer, SessionUsage};
