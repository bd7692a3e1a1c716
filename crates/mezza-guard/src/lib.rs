//! Cryptographic reverse firewalls. A firewall between a device and the wire changes every coin
//! that the device has drawn, so that a tampered device cannot leak data through its coins.
//!
//! The promise: traffic from an honest firewall does not depend on the choices of the device. A
//! firewall holds no key of the user, and a malicious one can do no more than a network attacker.
//!
//! ```
//! use mezza_guard::{Firewall, Group, Message, Ristretto};
//! use mezza_guard::{coins::Uniform, dh::DhParty, firewall::DhFirewall};
//! # let mut dice = mezza_sim::SimRng::new(7, 0);
//! # let rng = dice.rng();
//! let group = Ristretto::new();
//! let mut firewall = DhFirewall::new(group.clone());
//! let (alice, a) = DhParty::begin(&group, &mut Uniform, rng);
//! let (bob, b) = DhParty::begin(&group, &mut Uniform, rng);
//! let (Message::Key(a), Message::Key(b)) =
//!     (firewall.change_outgoing(a, rng)?, firewall.change_incoming(b, rng)?) else { unreachable!() };
//! assert_eq!(alice.finish(&group, b.seen())?, bob.finish(&group, a.seen())?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | module | noun |
//! |---|---|
//! | [`group`], [`coins`] | [`Group`], ristretto255; [`Coins`](coins::Coins), the one way to draw |
//! | [`message`] | every message of the variants, and its bytes |
//! | [`commit`], [`dh`], [`dh_comm`], [`elgamal`] | the variants of the thesis, their ends as typestates |
//! | [`firewall`] | [`Firewall`], one for each variant; [`Stack`](firewall::Stack) |
//! | [`gkx`] | a key exchange for blind guards, and its guard |
//! | [`coin`] | keys that client and guard make together |
//! | [`rule`], [`audit`](mod@audit) | what each field of a frame may hold; the bits that are left |
//! | [`guard`], [`ledger`] | the machine of a guard, and what it must not forget |
//! | [`client`], [`shaper`] | the machine of its client; one frame a tick |
//! | [`keys`], [`wire`] | pairing and key schedules; every frame that a guard sees |
#![no_std]

extern crate alloc;

pub mod audit;
pub mod client;
pub mod coin;
pub mod coins;
pub mod commit;
mod connections;
pub mod dh;
pub mod dh_comm;
pub mod elgamal;
pub mod error;
pub mod firewall;
pub mod gkx;
pub mod group;
pub mod guard;
pub mod keys;
pub mod ledger;
pub mod message;
pub mod rule;
pub mod shaper;
pub mod wire;

pub use error::{ExchangeError, FirewallError, GroupError};
pub use firewall::Firewall;
pub use group::{Group, Ristretto, SharedElement, ViewDependent};
pub use message::Message;
