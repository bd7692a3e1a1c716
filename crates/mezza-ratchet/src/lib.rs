//! X3DH and the Double Ratchet over replaceable suites: one conversation between two devices.
//!
//! Promise, given the right identity keys: Bodies are secret and authentic. A message that was read
//! cannot be decrypted afterwards. After a theft of the state, one undisturbed round trip makes the
//! session secret again. An attacker on the network cannot weaken the suite. A restored old state
//! never uses one keystream twice. This crate does not hide that and when two people write; the
//! layers around it do. The handshake of `b2c20-pq` withstands a quantum computer, the ratchet does
//! not.
//!
//! | module | noun |
//! |---|---|
//! | [`keys`], [`xeddsa`] | identity keys and what they sign |
//! | [`negotiate`], [`suite`] | suite lists; what a suite is made of |
//! | [`bundle`], [`prekeys`], [`x3dh`] | what a responder publishes, how it keeps the private parts, the handshake |
//! | [`session`], [`conversation`] | one Double Ratchet; all sessions with one contact |
//! | [`wire`], [`stored`] | bytes between devices; rows on disk |
//! | [`safety`] | the number two people compare |
//!
//! ```
//! use mezza_core::{Blake2b512, PortableBackend, StaticKey};
//! use mezza_ratchet::{Conversation, IdentityKeyPair, safety, xeddsa};
//! use rand_chacha::{ChaCha20Rng, rand_core::SeedableRng};
//!
//! let mut rng = ChaCha20Rng::from_seed([7; 32]);
//! let alice = IdentityKeyPair::new(StaticKey::random::<PortableBackend>(&mut rng));
//! let bob = IdentityKeyPair::new(StaticKey::random::<PortableBackend>(&mut rng));
//! let signature = alice.sign::<Blake2b512>(&[b"a card"], &mut rng);
//! assert!(xeddsa::verify::<Blake2b512>(&alice.public_key(), &[b"a card"], &signature));
//! assert_eq!(safety::number(&alice.public_key(), &bob.public_key()).len(), 60);
//! let talk = Conversation::<PortableBackend>::new(alice.public_key(), bob.public_key());
//! assert!(!talk.has_session()); // `examples/two_parties.rs` goes on from here
//! ```
//!
//! All randomness comes from the caller, as `EphemeralKey` values or as `rng`. Time comes from the
//! parameter `now`. A successful operation returns the rows that it changes; after an error the
//! state is unchanged.
#![no_std]

extern crate alloc;

pub mod bundle;
pub mod conversation;
pub mod error;
pub mod keys;
pub mod negotiate;
pub mod prekeys;
pub mod safety;
pub mod session;
pub mod stored;
pub mod suite;
pub mod wire;

pub mod x3dh;
pub mod xeddsa;

pub use bundle::{Bundle, CheckedBundle, OneTimePrekey, SignalBundle, SignalKem};
pub use conversation::{Conversation, Opened, SessionSummary};
pub use error::{BundleError, KeyError, OpenError, PrekeysError, SealError};
pub use keys::{Exporter, IdentityKey, IdentityKeyPair};
pub use negotiate::SuiteList;
pub use prekeys::Prekeys;
pub use session::Session;
pub use stored::{Change, Changes, StoredRow, Table};
pub use wire::Padding;
