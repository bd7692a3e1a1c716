//! Inputs and outputs of [`Prekeys`](super::Prekeys).

use alloc::vec::Vec;
use core::fmt;

use mezza_core::{StaticKey, snapshot};

use crate::{Changes, OneTimePrekey};

/// Events that the prekeys handle.
#[derive(Debug)]
pub enum Input {
    /// The server has this many one-time keys left.
    Stock(u32),
    /// The user requests fresh signed prekeys before 7 days are over. Only
    /// [`SPK_HELD_MAX`](super::SPK_HELD_MAX) prekeys of a suite are stored; messages to an older
    /// prekey can no longer be opened.
    Rotate,
    /// The user requests a full stock. The server has this many one-time keys left.
    Refill(u32),
    /// The fresh pairs for [`Output::Need`]: exactly the requested number of signed prekeys, at
    /// most the requested number of one-time keys.
    Fresh {
        /// One pair for each suite that we offer, best suite first; or none.
        spk: Vec<StaticKey>,
        /// The pairs of one-time keys.
        opk: Vec<StaticKey>,
    },
}

/// Effects that the prekeys request.
pub enum Output {
    /// Draw these numbers of pairs and hand them in as [`Input::Fresh`].
    Need {
        /// The number of signed prekeys.
        spk: usize,
        /// The number of one-time keys.
        opk: usize,
    },
    /// Store these rows durably before the outputs after this one are carried out.
    Store(Changes),
    /// Publish the bundle and these one-time keys.
    Publish {
        /// The wire form of the bundle.
        bundle: Vec<u8>,
        /// The one-time keys to add at the server.
        one_time: Vec<OneTimePrekey>,
        /// True if the server must first drop its old one-time keys.
        replace: bool,
    },
    /// More than half of the sessions of a day began without a one-time key: an attacker drains the
    /// keys.
    Low,
}

snapshot!(enum Output [Need { spk, opk }, Store(changes), Publish { bundle, one_time, replace }, Low]);

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Need { spk, opk } => write!(f, "Need {{ spk: {spk}, opk: {opk} }}"),
            Self::Store(changes) => write!(f, "Store({changes:?})"),
            Self::Publish { one_time, replace, .. } => {
                write!(f, "Publish {{ one_time: {}, replace: {replace} }}", one_time.len())
            }
            Self::Low => f.write_str("Low"),
        }
    }
}
