//! The prekeys of this device: a machine that rotates, refills, publishes and wipes them.

use alloc::vec::Vec;
use core::fmt;

use mezza_core::{CryptoRng, DecodeError, Ephemeral, Machine, SuiteId, Time};
use zeroize::Zeroizing;

use crate::{Changes, Identity, OneTime, PrekeysError, Record};

/// What may happen to the prekeys.
#[derive(Debug)]
pub enum Input {
    /// The server has this many one-time keys left.
    Stock(u32),
    /// The fresh pairs that [`Output::Need`] asked for: exactly that many signed prekeys, at most
    /// that many one-time keys.
    Fresh {
        /// One for each suite we offer, in the order of the list, or none.
        spk: Vec<Ephemeral>,
        /// One-time keys.
        opk: Vec<Ephemeral>,
    },
}

/// What the prekeys want done.
#[derive(Debug)]
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
        one_time: Vec<OneTime>,
        /// Whether the server drops its old stock first.
        replace: bool,
    },
    /// More than half of the sessions of a day came without a one-time key: someone drains them.
    Low,
}

/// The private prekeys of this device and their timers. It holds a copy of the identity, because
/// rotation signs.
pub struct Prekeys {
    identity: Identity,
}

impl Prekeys {
    /// No keys yet; the first [`wake`](Machine::wake) asks for them.
    pub fn new(identity: Identity) -> Self {
        Self { identity }
    }

    /// Puts the stored rows together again (tables `Spk`, `Opk`, `Seen`; rows of other tables are
    /// an error). Call [`wake`](Machine::wake) before anything else.
    pub fn load<'a>(
        identity: Identity,
        records: impl IntoIterator<Item = Record<'a>>,
    ) -> Result<Self, DecodeError> {
        let _ = records.into_iter();
        Ok(Self { identity })
    }

    /// Every signed prekey held, newest first: suite, id, pair. The pairs also open intro boxes.
    pub fn spks(&self) -> impl Iterator<Item = (SuiteId, u32, &Ephemeral)> {
        let _ = &self.identity;
        core::iter::empty()
    }

    /// The end of the current bundle; `None` before the first keys came.
    pub fn current_not_after(&self) -> Option<Time> {
        todo!()
    }

    /// The current bundle and every one-time key that belongs to it, to publish it again with
    /// `replace` off (a server ignores ids that it has or had).
    pub fn offer(&self) -> Option<(Vec<u8>, Vec<OneTime>)> {
        todo!()
    }

    /// One-time keys held here.
    pub fn one_time_count(&self) -> usize {
        todo!()
    }

    /// Every row, as it should lie on disk now.
    pub fn records(&self) -> Changes {
        todo!()
    }

    /// The whole state as bytes, to compare it before and after.
    pub fn encode(&self) -> Zeroizing<Vec<u8>> {
        todo!()
    }
}

impl Machine for Prekeys {
    type Input = Input;
    type Output = Output;
    type Error = PrekeysError;

    fn handle(
        &mut self,
        input: Input,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), PrekeysError> {
        let _ = (input, now, rng);
        todo!()
    }

    fn wake(&mut self, now: Time, rng: &mut dyn CryptoRng) {
        let _ = (now, rng);
        todo!()
    }

    fn poll(&mut self) -> Option<Output> {
        todo!()
    }

    fn deadline(&self) -> Option<Time> {
        todo!()
    }
}

impl fmt::Debug for Prekeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Prekeys")
    }
}
