//! An anonymous HIBE on BLS12-381, a key tree that forgets, and the sealed envelope (FoSAM, sections
//! 3 to 7; Blazy, Kiltz, Pan, CRYPTO 2014).
//!
//! Promise: whoever holds a card block of 630 bytes can seal a message for its owner, without a
//! handshake. It opens for a minute or two; after that not even the owner's seized device opens it.
//! An envelope does not tell for which card it was made. Not hidden: when it was made, in which of
//! four sizes, and that it is one. Who sent it is not proven: the payload has to.
//!
//! | module | noun |
//! |---|---|
//! | [`shape`] | [`Epoch`], [`Tick`], and the path of an epoch in the tree |
//! | [`lives`] | [`Life`]: how long keys stay, and which branch of the tree serves it |
//! | [`curve`] | scalars, points, elements of Gt, which wipe themselves; blst behind them |
//! | [`bkp`] | the HIBKEM: generate, derive, encapsulate |
//! | [`tree`] | [`KeyTree`]: erase below, prepare, open a key; what is stored of it |
//! | [`envelope`] | [`SealKey`], [`EnvelopeKey`], [`HeldKeys`], [`trial_open_batch`] |
//! | [`detect`](mod@detect) | [`DetectKey`]: recognises and does not open |
//! | [`floor`] | [`FloorRule`]: what a clock may do to keys |
//! | [`pairing`], [`system`] | the seam for batches; tables that all users share |
//! | [`wire`] | card block, envelope, record, keyring |
//!
//! ```
//! use mezza_hibe::{
//!     Bucket, EnvelopeKey, HeldKeys, KeyTree, Shape, System, Tick, TreeProfile, Trial, trial_open,
//! };
//! # use rand_chacha::{ChaCha20Rng, rand_core::SeedableRng};
//! # let rng = &mut ChaCha20Rng::from_seed([7; 32]);
//!
//! let (system, now) = (System::new(), Tick(59_500_000));
//! let mut tree = KeyTree::create(&system, Shape::Wide, TreeProfile::Minute, now, rng)?;
//!
//! // Whoever holds the card seals.
//! let key = EnvelopeKey::new(&system, &tree.card().seal_key(now)?, now, rng)?;
//! let envelope = key.seal(b"at the fountain", Bucket::SMALLEST, now)?;
//!
//! // Its owner opens.
//! let mut held = HeldKeys::new();
//! held.insert(tree.open_key(&system, tree.card().epoch_of(now)?, rng)?);
//! let Trial::Opened(opened) = trial_open(&system, &held, envelope.as_bytes()) else { panic!() };
//! assert_eq!(*opened.payload, b"at the fountain");
//!
//! // Two epochs later nobody does.
//! let later = tree.card().epoch_of(Tick(now.0 + 2))?;
//! tree.erase_below(later.minus(1), rng)?;
//! assert!(tree.open_key(&system, tree.card().epoch_of(now)?, rng).is_err());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![no_std]

extern crate alloc;

pub mod bkp;
pub mod curve;
pub mod detect;
pub mod envelope;
pub mod error;
pub mod floor;
pub mod lives;
pub mod pairing;
pub mod shape;
pub mod system;
pub mod tree;
pub mod wire;

pub use detect::{DetectKey, Detected, detect_envelopes};
pub use envelope::{
    CarriedEnvelope, Envelope, EnvelopeBinding, EnvelopeId, EnvelopeKey, EnvelopeTime, EpochKey,
    HeldKeys, OpenedEnvelope, SealKey, Trial, TrialJob, trial_open, trial_open_batch,
    trial_open_carried,
};
pub use error::{CardBlockError, EncapsulateError, ImportError, TreeError};
pub use floor::{FloorRule, FloorRules, LifeFloor};
pub use lives::{Branch, Life, TreeCalendar};
pub use pairing::PairingKernel;
pub use shape::{Epoch, Shape, Tick, TreeProfile};
pub use system::System;
pub use tree::{Cost, Delta, KeyTree, Progress};
pub use wire::card::{BlockPolicy, CardBlock, CardBlockHash};
pub use wire::envelope::Bucket;
pub use wire::ring::{EntryKind, RecordName};
