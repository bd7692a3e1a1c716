//! The Double Ratchet in any suite.
//!
//! ```text
//! Theirs (own = None) -seal-> Ours (own, send) -open a new key-> Theirs       at most one own scalar
//! initiator: pending -open-> answered        responder: answered from the start
//! ```

use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;

use mezza_core::{
    Aead, Backend, DecodeError, EphemeralKey, PublicKey, Secret, StaticKey, Time, Wiping, snapshot,
};

use super::chain::{MessageKey, ReceiveChain, SendChain};
use super::{PENDING_D, SESSION_ID_BYTES, SKIPPED_MAX, Skipped};
use crate::suite::{Kdf, RatchetSuite};
use crate::wire::{
    BODY_BYTES_MAX, FirstMessageHeader, Header, OUTER_BYTES_MAX, RatchetMessage, Wire,
};
use crate::{Changes, IdentityKey, OpenError, Padding, SealError};

/// Bytes that suffice for the additional data of most messages.
const AAD_BYTES: usize = 192;

/// The two identities of a session, and which of them is local.
#[derive(Clone, Copy)]
pub(crate) struct Parties {
    pub(crate) id: [u8; SESSION_ID_BYTES],
    pub(crate) local: IdentityKey,
    pub(crate) remote: IdentityKey,
}

snapshot!(struct Parties { id, local, remote });

/// The role of this side at the start of a session.
pub(crate) enum Role {
    /// The initiator starts with the responder's signed prekey as the ratchet key of the other
    /// side.
    Initiator {
        /// The public signed prekey of the responder.
        their: PublicKey,
    },
    /// The responder starts with his signed prekey as his own ratchet pair.
    Responder {
        /// The pair of the signed prekey.
        own: StaticKey,
    },
}

/// The state of a Double Ratchet.
pub struct Ratchet<S, B> {
    pub(super) parties: Parties,
    pub(super) initiator: bool,
    pub(super) pending: bool,
    pub(super) created: Time,
    pub(super) opened: Time,
    pub(super) root: Secret<32>,
    pub(super) remote_ratchet_key: PublicKey,
    pub(super) own_ratchet_key: Option<StaticKey>,
    pub(super) send: Option<SendChain>,
    pub(super) pn: u32,
    pub(super) recv: Option<ReceiveChain>,
    /// For an initiator, the prefix of first messages until an answer was opened. For a responder,
    /// the prefix that began the session, to recognise a repeated first message.
    pub(super) prefix: Vec<u8>,
    pub(super) skipped: Skipped,
    pub(super) suite: PhantomData<fn() -> (S, B)>,
}

snapshot!(struct Ratchet<S: RatchetSuite, B: Backend> {
    parties, initiator, pending, created, opened, root, remote_ratchet_key, own_ratchet_key, send,
    pn, recv, prefix, skipped, suite,
});

/// The chain that a message belongs to, computed before the state is changed.
struct Step {
    chain: ReceiveChain,
    /// The next root key; `Some` if the message has a new ratchet key.
    root: Option<Secret<32>>,
}

impl<S: RatchetSuite, B: Backend> Ratchet<S, B> {
    pub(crate) fn start(parties: Parties, role: Role, root: Secret<32>, prefix: Vec<u8>) -> Self {
        let (initiator, remote_ratchet_key, own_ratchet_key) = match role {
            Role::Initiator { their } => (true, their, None),
            Role::Responder { own } => (false, PublicKey([0; 32]), Some(own)),
        };
        Self {
            parties,
            initiator,
            pending: initiator,
            created: Time::from_ms(0),
            opened: Time::from_ms(0),
            root,
            remote_ratchet_key,
            own_ratchet_key,
            send: None,
            pn: 0,
            recv: None,
            prefix,
            skipped: Skipped::default(),
            suite: PhantomData,
        }
    }

    /// Returns the prefix of the next message; empty once the session was answered.
    fn next_prefix(&self) -> &[u8] {
        if self.pending { &self.prefix } else { &[] }
    }

    /// Returns the header of the next message. `key` may be a placeholder if only the length is
    /// needed.
    fn next_header<'a>(&self, key: &'a PublicKey, padded_bytes: usize) -> Header<'a> {
        Header {
            suite: S::ID,
            key,
            n: self.send.as_ref().map_or(0, SendChain::sealed_count),
            pn: S::Wire::encode_pn(self.pn),
            sealed_bytes: S::Aead::sealed_len(padded_bytes),
        }
    }

    fn padded_bytes(&self, body_bytes: usize, padding: Padding) -> Option<usize> {
        S::Wire::padded_bytes(body_bytes, padding, self.bytes_of(0))
    }

    /// Returns the bytes of the next message with [`Padding::Blocks`]; `None` if the body is too
    /// long.
    pub fn message_bytes(&self, body_bytes: usize) -> Option<usize> {
        Some(self.bytes_of(self.padded_bytes(body_bytes, Padding::Blocks)?))
    }

    /// Returns true if a message with this padding has room for a body.
    pub fn fits_body(&self, body_bytes: usize, padding: Padding) -> bool {
        self.padded_bytes(body_bytes, padding).is_some()
    }

    fn bytes_of(&self, padded_bytes: usize) -> usize {
        let header = self.next_header(&PublicKey([0; 32]), padded_bytes);
        S::Wire::message_bytes(self.next_prefix(), &self.parties.local, &header)
    }

    /// Checks that the session was answered in time, and that the sending chain has a next message.
    pub fn check_limits(&self, now: Time) -> Result<(), SealError> {
        if self.pending && now.since_ms(self.created) >= PENDING_D * Time::DAY_MS {
            return Err(SealError::Unanswered);
        }
        if self.send.as_ref().is_some_and(|send| send.sealed_count() >= S::Wire::CHAIN_MAX) {
            return Err(SealError::ChainEnd);
        }
        Ok(())
    }

    /// Seals one body. After an error the state is unchanged.
    pub fn seal(
        &mut self,
        body: &[u8],
        outer: &[u8],
        padding: Padding,
        fresh: Option<EphemeralKey>,
        now: Time,
    ) -> Result<Vec<u8>, SealError> {
        if !S::Wire::OUTER && !outer.is_empty() {
            return Err(SealError::OuterUnsupported);
        }
        if body.len() > BODY_BYTES_MAX || outer.len() > OUTER_BYTES_MAX {
            return Err(SealError::TooLong);
        }
        let padded_bytes = self.padded_bytes(body.len(), padding).ok_or(SealError::TooLong)?;
        self.check_limits(now)?;
        self.dh_ratchet(fresh)?;
        self.seal_next(body, outer, padded_bytes).ok_or(SealError::NeedEphemeral)
    }

    /// Seals the next message of the sending chain; `None` if there is no sending chain.
    fn seal_next(&mut self, body: &[u8], outer: &[u8], padded_bytes: usize) -> Option<Vec<u8>> {
        let header = self.next_header(self.own_ratchet_key.as_ref()?.public_key(), padded_bytes);
        let local = &self.parties.local;
        let remote = &self.parties.remote;
        let mut aad = Vec::with_capacity(AAD_BYTES);
        S::Wire::append_aad(local, remote, outer, &mut aad);
        let front = aad.len();
        S::Wire::append_head(&header, &mut aad);
        let prefix = self.next_prefix();
        let mut message = S::Wire::begin_message(prefix, local, &aad[front..], header.sealed_bytes);
        let start = message.len();
        message.resize(start + S::Aead::NONCE_BYTES, 0);
        S::Wire::pad_body(body, padded_bytes, &mut message);
        let key = self.send.as_mut()?.next_key::<S::Kdf>();
        key.seal::<S::Aead, B>(&aad, &mut message, start);
        S::Wire::append_end(self.next_prefix(), &self.parties.local, &mut message);
        Some(message)
    }

    /// Begins a sending chain with the fresh key, if there is none.
    fn dh_ratchet(&mut self, fresh: Option<EphemeralKey>) -> Result<(), SealError> {
        if self.send.is_some() {
            return Ok(());
        }
        let own = fresh.ok_or(SealError::NeedEphemeral)?.into_static();
        let shared = own.diffie_hellman::<B>(&self.remote_ratchet_key)?;
        let (root, chain) = S::Kdf::step_root(&self.root, &shared);
        self.root = root;
        self.own_ratchet_key = Some(own);
        self.send = Some(SendChain::new(chain));
        Ok(())
    }

    /// Opens one message. After an error the state is unchanged.
    pub fn open(
        &mut self,
        inner: &RatchetMessage<'_>,
        outer: &[u8],
        now: Time,
        changes: &mut Changes,
    ) -> Result<Wiping<Vec<u8>>, OpenError> {
        if !S::Wire::OUTER && !outer.is_empty() || outer.len() > OUTER_BYTES_MAX {
            return Err(OpenError::Forged);
        }
        let mut aad = Vec::with_capacity(AAD_BYTES);
        S::Wire::append_aad(&self.parties.remote, &self.parties.local, outer, &mut aad);
        aad.extend_from_slice(&inner.head);
        if let Some(key) = self.skipped.find_key(&inner.key, inner.n, now) {
            let body = open_body::<S, B>(key, &aad, inner)?;
            self.skipped.remove_key(&self.parties.id, &inner.key, inner.n, changes);
            self.mark_answered(now);
            return Ok(body);
        }
        let step = self.step_chain(inner)?;
        let from = step.chain.next_index();
        if inner.n < from {
            return Err(OpenError::Duplicate);
        }
        if inner.n - from > S::JUMP_MAX {
            return Err(OpenError::TooFar(inner.n - from));
        }
        let Step { mut chain, root } = step;
        let kept = chain.walk_to::<S::Kdf>(inner.n, SKIPPED_MAX);
        let key = chain.next_key::<S::Kdf>();
        let body = open_body::<S, B>(&key, &aad, inner)?;

        // The state is changed only from here on.
        let mut rows = Vec::new();
        if let Some(root) = root {
            rows = self.close_chain(S::Wire::closed_at(inner.pn));
            self.pn = self.send.take().map_or(0, |send| send.sealed_count());
            self.own_ratchet_key = None;
            self.root = root;
            self.remote_ratchet_key = inner.key;
        }
        self.recv = Some(chain);
        rows.extend(kept.into_iter().map(|(n, key)| (inner.key, n, key)));
        self.skipped.add_keys(&self.parties.id, rows, now, changes);
        self.mark_answered(now);
        Ok(body)
    }

    /// Returns the receiving chain of a message, without changing the state.
    fn step_chain(&self, inner: &RatchetMessage<'_>) -> Result<Step, OpenError> {
        if self.is_current_key(&inner.key) {
            let chain = self.recv.as_ref().ok_or(OpenError::Forged)?.duplicate();
            return Ok(Step { chain, root: None });
        }
        // The other side cannot answer a key that was never sent.
        let own = self.own_ratchet_key.as_ref().ok_or(OpenError::Forged)?;
        if inner.n > S::JUMP_MAX {
            return Err(OpenError::TooFar(inner.n));
        }
        let shared = own.diffie_hellman::<B>(&inner.key)?;
        let (root, chain) = S::Kdf::step_root(&self.root, &shared);
        Ok(Step { chain: ReceiveChain::new(chain), root: Some(root) })
    }

    /// Closes the old receiving chain at index `end`, which the new header announces. Returns the
    /// message keys before `end`, oldest first, and wipes the chain key.
    fn close_chain(&mut self, end: u32) -> Vec<(PublicKey, u32, MessageKey)> {
        let Some(mut old) = self.recv.take() else { return Vec::new() };
        let end = end.min(old.next_index().saturating_add(S::JUMP_MAX));
        let kept = old.walk_to::<S::Kdf>(end, SKIPPED_MAX);
        kept.into_iter().map(|(n, key)| (self.remote_ratchet_key, n, key)).collect()
    }

    /// Returns the header of the first messages of this session.
    pub(super) fn first_header(&self) -> Result<FirstMessageHeader, DecodeError> {
        let Parties { local, remote, .. } = &self.parties;
        S::Wire::read_prefix(S::ID, if self.initiator { local } else { remote }, &self.prefix)
    }

    /// Notes that a message of the other side was opened: the session is answered, and an initiator
    /// sends no more first messages.
    fn mark_answered(&mut self, now: Time) {
        if self.initiator {
            self.prefix.clear();
        }
        self.pending = false;
        self.opened = now;
    }

    pub(super) fn is_current_key(&self, key: &PublicKey) -> bool {
        self.recv.is_some() && self.remote_ratchet_key == *key
    }
}

/// Opens the sealed part and removes the padding. The error is `Forged`, or `Malformed` if an
/// authentic message has wrong padding.
fn open_body<S: RatchetSuite, B: Backend>(
    key: &MessageKey,
    aad: &[u8],
    inner: &RatchetMessage<'_>,
) -> Result<Wiping<Vec<u8>>, OpenError> {
    let text = key.open::<S::Aead, B>([aad, inner.tail], &inner.sealed).ok_or(OpenError::Forged)?;
    S::Wire::unpad_body(text).ok_or(OpenError::Malformed)
}

impl<S, B> fmt::Debug for Ratchet<S, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ratchet")
    }
}
