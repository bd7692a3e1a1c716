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
    /// The person wants fresh signed prekeys before it is time. Only [`SPK_HELD_MAX`](super::SPK_HELD_MAX) of a suite
    /// are held: what was sent to an older one can no longer be opened.
    Rotate,
    /// The person wants a full stock; the server has this many one-time keys left.
    Refill(u32),
    /// The fresh pairs that [`Output::Need`] asked for: exactly that many signed prekeys, at most
    /// that many one-time keys.
    Fresh {
        /// One for each suite we offer, in the order of the list, or none.
        spk: Vec<StaticKey>,
        /// One-time keys.
        opk: Vec<StaticKey>,
    },
}

/// Effects that the prekeys request.
pub enum Output {
    /// Draw that many pairs and hand them in as [`Input::Fresh`].
    Need {
        /// Signed prekeys.
        spk: usize,
        /// One-time keys.
        opk: usize,
    },
    /// Make these rows durable before the outputs behind them are carried out.
    Store(Changes),
    /// Publish the bundle and these one-time keys.
    Publish {
        /// The wire form of the bundle.
        bundle: Vec<u8>,
        /// The one-time keys to add.
        one_time: Vec<OneTimePrekey>,
        /// True if the server drops its old stock first.
        replace: bool,
    },
    /// More than half of the sessions of a day came without a one-time key: someone drains them.
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
