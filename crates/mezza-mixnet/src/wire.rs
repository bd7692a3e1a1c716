//! Every message between clients, entry, mixes and bucket store.
//!
//! | module | noun |
//! |---|---|
//! | [`frame`] | [`Frame`], [`LinkDeframer`]: what a link carries |
//! | [`settings`] | [`Settings`], [`SignedSettings`]: the keys of one round, signed by every mix |
//! | [`cell`] | [`Cell`]: a piece of a conversation |
//! | [`invitation`] | the first message to somebody one has never talked with |
//! | [`bucket`] | [`Manifest`]: what the buckets of a round hold |
//! | [`filter`] | the tokens of a call bucket as one set |

pub mod bucket;
pub mod cell;
pub mod filter;
pub mod frame;
pub mod invitation;
pub mod settings;

pub use bucket::Manifest;
pub use cell::Cell;
pub use frame::{AbortReason, Frame, FrameBody, Items, LinkDeframer, MissedReason};
pub use settings::{Settings, SignedSettings};
