//! Symmetric chains. Sending and receiving chains are different types, and each message key seals
//! once.

use alloc::vec::Vec;

use mezza_core::{Aead, Backend, Secret, snapshot};

use crate::suite::Kdf;

/// The key of one message.
pub(crate) struct MessageKey(Secret<32>);

snapshot!(struct MessageKey(secret));

impl MessageKey {
    pub(super) fn new(secret: Secret<32>) -> Self {
        Self(secret)
    }

    pub(super) fn secret(&self) -> &Secret<32> {
        &self.0
    }

    /// Seals the bytes of `out` from `start` on, in place. The key is consumed.
    pub(super) fn seal<A: Aead, B: Backend>(self, aad: &[u8], out: &mut Vec<u8>, start: usize) {
        A::seal::<B>(&self.0, aad, out, start);
    }

    /// Opens one text. After a failure the key is kept, because the authentic message may still
    /// come.
    pub(super) fn open<A: Aead, B: Backend>(
        &self,
        aad: [&[u8]; 2],
        sealed: &[u8],
    ) -> Option<Vec<u8>> {
        A::open::<B>(&self.0, aad, sealed)
    }
}

/// The chain of messages that this side sends with its current ratchet key.
pub(super) struct SendChain {
    key: Secret<32>,
    n: u32,
}

snapshot!(struct SendChain { key, n });

impl SendChain {
    pub(super) fn new(key: Secret<32>) -> Self {
        Self { key, n: 0 }
    }

    pub(super) fn from_stored(key: Secret<32>, n: u32) -> Self {
        Self { key, n }
    }

    /// Returns the number of messages sealed in this chain.
    pub(super) fn sealed_count(&self) -> u32 {
        self.n
    }

    pub(super) fn secret(&self) -> &Secret<32> {
        &self.key
    }

    /// Returns the key of the next message and replaces the chain key, whose old value is wiped.
    pub(super) fn next_key<K: Kdf>(&mut self) -> MessageKey {
        self.n += 1;
        MessageKey(K::step_chain(&mut self.key))
    }
}

/// The chain of messages that the other side sends with its current ratchet key.
pub(super) struct ReceiveChain {
    key: Secret<32>,
    n: u32,
}

snapshot!(struct ReceiveChain { key, n });

impl ReceiveChain {
    pub(super) fn new(key: Secret<32>) -> Self {
        Self { key, n: 0 }
    }

    pub(super) fn from_stored(key: Secret<32>, n: u32) -> Self {
        Self { key, n }
    }

    /// Returns the index of the next message.
    pub(super) fn next_index(&self) -> u32 {
        self.n
    }

    pub(super) fn secret(&self) -> &Secret<32> {
        &self.key
    }

    /// Returns a copy to try a message with, so that the state is unchanged if the message does not
    /// open.
    pub(super) fn duplicate(&self) -> Self {
        Self { key: self.key.duplicate(), n: self.n }
    }

    /// Returns the key of the next message and replaces the chain key, whose old value is wiped.
    pub(super) fn next_key<K: Kdf>(&mut self) -> MessageKey {
        self.n += 1;
        MessageKey(K::step_chain(&mut self.key))
    }

    /// Steps the chain to index `to`. Returns the last `kept_max` message keys before `to`, oldest
    /// first.
    pub(super) fn walk_to<K: Kdf>(&mut self, to: u32, kept_max: usize) -> Vec<(u32, MessageKey)> {
        let mut kept = Vec::with_capacity(kept_max.min(to.saturating_sub(self.n) as usize));
        while self.n < to {
            let n = self.n;
            let key = self.next_key::<K>();
            if (to - n) as usize <= kept_max {
                kept.push((n, key));
            }
        }
        kept
    }
}
