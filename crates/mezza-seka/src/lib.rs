//! Links that pair without a secret, protect their traffic from observers and attackers, and
//! recover after a theft: SEKA (Ackermann, Bober, Jungnickel, Lehmann).
//!
//! Promise: two devices that once exchanged two unmodified frames authenticate each other from then
//! on. A thief of both states is locked out by one exchange that the thief only observes. Not
//! promised: the identity of the device, and any security if an attacker was in the middle of a
//! pairing without digits.
//!
//! | module | noun |
//! |---|---|
//! | [`wire`], [`limits`] | every frame; sizes, times and bounds |
//! | [`keys`], [`suite`], [`backend`] | keys by role; cryptographic functions, and their
//! implementation |
//! | [`pairing`], [`sas`] | the machine from a button to a peer; six digits |
//! | [`peer`], [`record`] | the machine of a pairing; its stored record |
//! | [`session`], [`window`] | keys of traffic, sealing, opening; the packet numbers seen |
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
