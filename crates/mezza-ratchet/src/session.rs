//! One session: a Double Ratchet in one suite.
//!
//! ```text
//! Theirs (own = None) -seal-> Ours (own, send) -open a new key-> Theirs       at most one own scalar
//! initiator: pending -open-> answered        responder: answered from the start
//! ```

use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;

use mezza_core::{Aead, Backend, Ephemeral, Secret, SuiteId, Time};
use zeroize::Zeroizing;

use crate::suite::{B2c20, Kdf, RatchetSuite};
use crate::wire::{BODY_BYTES_MAX, Inner, OUTER_BYTES_MAX, Wire};
use crate::{Changes, IdentityKey, OpenError, Padding, SealError};

mod chain;
mod skipped;
mod stored;

use chain::{ReceiveChain, SendChain};
use skipped::Skipped;
pub(crate) use skipped::StoredKey;
pub(crate) use stored::SESSION_ID_BYTES;

/// Most messages that one message may lie ahead of the last one in its chain.
pub const JUMP_MAX: u32 = 5_000;
/// Most skipped keys of one session.
pub const SKIPPED_MAX: usize = 2_000;
/// Days after which a skipped key is wiped.
pub const SKIPPED_D: u64 = 30;
/// Days after which a session that was never answered seals nothing more.
pub const PENDING_D: u64 = 30;

/// A session in one of the suites.
pub enum Session<B: Backend> {
    /// Suite 0x0101.
    B2c20(Ratchet<B2c20, B>),
}

impl<B: Backend> fmt::Debug for Session<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::B2c20(_) => f.write_str("Session(B2c20)"),
        }
    }
}

/// Who speaks in a session.
#[derive(Clone, Copy)]
pub(crate) struct Parties {
    pub(crate) id: [u8; SESSION_ID_BYTES],
    pub(crate) local: IdentityKey,
    pub(crate) remote: IdentityKey,
}

/// How a session starts.
pub(crate) enum Role {
    /// With the signed prekey of the responder as its ratchet key.
    Initiator {
        /// The signed prekey of the responder, 32 bytes.
        their: [u8; 32],
    },
    /// With the signed prekey as own ratchet pair.
    Responder {
        /// The pair of the signed prekey.
        own: Ephemeral,
    },
}

/// The state of a Double Ratchet.
pub struct Ratchet<S, B> {
    parties: Parties,
    initiator: bool,
    pending: bool,
    created: Time,
    opened: Time,
    root: Secret<32>,
    their: [u8; 32],
    own: Option<Ephemeral>,
    send: Option<SendChain>,
    pn: u32,
    recv: Option<ReceiveChain>,
    /// Initiator: the prefix of first messages while pending. Responder: the prefix that began
    /// the session, to know it when it is repeated.
    prefix: Vec<u8>,
    skipped: Skipped,
    suite: PhantomData<fn() -> (S, B)>,
}

/// The chain that a message belongs to, before anything is committed.
struct Step {
    chain: ReceiveChain,
    /// The next root key, if the message brings a new ratchet key.
    root: Option<Secret<32>>,
}

impl<S: RatchetSuite, B: Backend> Ratchet<S, B> {
    pub(crate) fn start(parties: Parties, role: Role, root: Secret<32>, prefix: Vec<u8>) -> Self {
        let (initiator, their, own) = match role {
            Role::Initiator { their } => (true, their, None),
            Role::Responder { own } => (false, [0; 32], Some(own)),
        };
        Self {
            parties,
            initiator,
            pending: initiator,
            created: Time::from_ms(0),
            opened: Time::from_ms(0),
            root,
            their,
            own,
            send: None,
            pn: 0,
            recv: None,
            prefix,
            skipped: Skipped::default(),
            suite: PhantomData,
        }
    }

    /// The prefix of the next message; empty once the session is answered.
    fn next_prefix(&self) -> &[u8] {
        if self.pending { &self.prefix } else { &[] }
    }

    fn padded_bytes(&self, body_bytes: usize, padding: Padding) -> Option<usize> {
        let fixed_bytes = S::Wire::message_bytes(self.next_prefix(), S::Aead::sealed_len(0));
        S::Wire::padded_bytes(body_bytes, padding, fixed_bytes)
    }

    /// Seals one body. Nothing is changed on an error.
    fn seal(
        &mut self,
        body: &[u8],
        outer: &[u8],
        padding: Padding,
        fresh: Option<Ephemeral>,
        now: Time,
    ) -> Result<Vec<u8>, SealError> {
        if !S::Wire::OUTER && !outer.is_empty() {
            return Err(SealError::OuterUnsupported);
        }
        if body.len() > BODY_BYTES_MAX || outer.len() > OUTER_BYTES_MAX {
            return Err(SealError::TooLong);
        }
        let padded_bytes = self.padded_bytes(body.len(), padding).ok_or(SealError::TooLong)?;
        if self.pending && now.since_ms(self.created) >= PENDING_D * Time::DAY_MS {
            return Err(SealError::Unanswered);
        }
        if self.send.as_ref().is_some_and(|send| send.n() >= S::Wire::CHAIN_MAX) {
            return Err(SealError::ChainEnd);
        }
        self.turn(fresh)?;
        let (Some(own), Some(send)) = (&self.own, &mut self.send) else {
            return Err(SealError::NeedEphemeral);
        };
        let (n, key) = send.step::<S::Kdf>();

        let text = S::Wire::pad(body, padded_bytes);
        let sealed_bytes = S::Aead::sealed_len(text.len());
        let pn = S::Wire::pn(self.pn);
        let head = S::Wire::head(S::ID, own.public(), n, pn, sealed_bytes);
        let mut aad = S::Wire::aad(&self.parties.local, &self.parties.remote, outer);
        aad.extend_from_slice(&head);
        let mut message = S::Wire::message(self.next_prefix(), &head);
        key.seal::<S::Aead, B>(&aad, &text, &mut message);
        Ok(message)
    }

    /// Begins a sending chain with a fresh key, if there is none.
    fn turn(&mut self, fresh: Option<Ephemeral>) -> Result<(), SealError> {
        if self.send.is_some() {
            return Ok(());
        }
        let own = fresh.ok_or(SealError::NeedEphemeral)?;
        // Their key gave a DH before, so only a pair that the backend cannot use gives none.
        let shared = B::dh(&own, &self.their).ok_or(SealError::NeedEphemeral)?;
        let (root, chain) = S::Kdf::root(&self.root, &shared);
        self.root = root;
        self.own = Some(own);
        self.send = Some(SendChain::new(chain));
        Ok(())
    }

    /// Opens one message. Nothing is changed on an error.
    fn open(
        &mut self,
        inner: &Inner<'_>,
        outer: &[u8],
        now: Time,
        changes: &mut Changes,
    ) -> Result<Zeroizing<Vec<u8>>, OpenError> {
        if !S::Wire::OUTER && !outer.is_empty() || outer.len() > OUTER_BYTES_MAX {
            return Err(OpenError::Forged);
        }
        let mut aad = S::Wire::aad(&self.parties.remote, &self.parties.local, outer);
        aad.extend_from_slice(&inner.head);
        if let Some(key) = self.skipped.find(&inner.key, inner.n, now) {
            let body = unsealed::<S, B>(key, &aad, inner.sealed)?;
            self.skipped.remove(&self.parties.id, &inner.key, inner.n, changes);
            self.answered(now);
            return Ok(body);
        }
        let step = self.step(inner)?;
        let from = step.chain.n();
        if inner.n < from {
            return Err(OpenError::Duplicate);
        }
        if inner.n - from > JUMP_MAX {
            return Err(OpenError::TooFar(inner.n - from));
        }
        let (chain, mut kept) = step.chain.walk::<S::Kdf>(inner.n, SKIPPED_MAX);
        let (chain, key) = chain.step::<S::Kdf>();
        let body = unsealed::<S, B>(&key, &aad, inner.sealed)?;

        // Nothing was changed above this line.
        let mut rows = Vec::new();
        if let Some(root) = step.root {
            rows = self.close(S::Wire::closed_at(inner.pn));
            self.pn = self.send.take().map_or(0, |send| send.n());
            self.own = None;
            self.root = root;
            self.their = inner.key;
        }
        self.recv = Some(chain);
        rows.extend(kept.drain(..).map(|(n, key)| (inner.key, n, key)));
        self.skipped.add(&self.parties.id, rows, now, changes);
        self.answered(now);
        Ok(body)
    }

    /// The receiving chain of a message.
    fn step(&self, inner: &Inner<'_>) -> Result<Step, OpenError> {
        if self.receives(&inner.key) {
            let chain = self.recv.as_ref().ok_or(OpenError::Forged)?.duplicate();
            return Ok(Step { chain, root: None });
        }
        // They cannot answer a key that we never sent.
        let own = self.own.as_ref().ok_or(OpenError::Forged)?;
        if inner.n > JUMP_MAX {
            return Err(OpenError::TooFar(inner.n));
        }
        let shared = B::dh(own, &inner.key).ok_or(OpenError::Forged)?;
        let (root, chain) = S::Kdf::root(&self.root, &shared);
        Ok(Step { chain: ReceiveChain::new(chain), root: Some(root) })
    }

    /// Ends the old receiving chain at the announced count: its keys up to there, newest last; its
    /// chain key is wiped.
    fn close(&mut self, end: u32) -> Vec<([u8; 32], u32, chain::MessageKey)> {
        let Some(old) = self.recv.take() else { return Vec::new() };
        let end = end.min(old.n().saturating_add(JUMP_MAX));
        let (_, kept) = old.walk::<S::Kdf>(end, SKIPPED_MAX);
        kept.into_iter().map(|(n, key)| (self.their, n, key)).collect()
    }

    /// A message of the other side was opened.
    fn answered(&mut self, now: Time) {
        if self.initiator {
            self.prefix.clear();
        }
        self.pending = false;
        self.opened = now;
    }

    fn receives(&self, key: &[u8; 32]) -> bool {
        self.recv.is_some() && self.their == *key
    }
}

/// The body of a sealed part: one error for every cause but padding inside an authentic message.
fn unsealed<S: RatchetSuite, B: Backend>(
    key: &chain::MessageKey,
    aad: &[u8],
    sealed: &[u8],
) -> Result<Zeroizing<Vec<u8>>, OpenError> {
    let text = key.open::<S::Aead, B>(aad, sealed).ok_or(OpenError::Forged)?;
    S::Wire::unpad(text).ok_or(OpenError::Malformed)
}

impl<S, B> fmt::Debug for Ratchet<S, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ratchet")
    }
}

/// Runs an expression on the ratchet of whichever suite.
macro_rules! each {
    ($session:expr, $ratchet:ident => $value:expr) => {
        match $session {
            Session::B2c20($ratchet) => $value,
        }
    };
}

impl<B: Backend> Session<B> {
    /// Which suite it speaks.
    pub fn suite(&self) -> SuiteId {
        fn of<S: RatchetSuite, B>(_: &Ratchet<S, B>) -> SuiteId {
            S::ID
        }
        each!(self, r => of(r))
    }

    pub(crate) fn id(&self) -> &[u8; SESSION_ID_BYTES] {
        each!(self, r => &r.parties.id)
    }

    pub(crate) fn local(&self) -> &IdentityKey {
        each!(self, r => &r.parties.local)
    }

    pub(crate) fn remote(&self) -> &IdentityKey {
        each!(self, r => &r.parties.remote)
    }

    pub(crate) fn is_initiator(&self) -> bool {
        each!(self, r => r.initiator)
    }

    pub(crate) fn is_pending(&self) -> bool {
        each!(self, r => r.pending)
    }

    pub(crate) fn has_own(&self) -> bool {
        each!(self, r => r.own.is_some())
    }

    pub(crate) fn needs_ephemeral(&self) -> bool {
        each!(self, r => r.send.is_none())
    }

    /// Messages sealed in the sending chain; next index of the receiving chain.
    pub(crate) fn counters(&self) -> (u32, u32) {
        each!(self, r => (
            r.send.as_ref().map_or(0, SendChain::n),
            r.recv.as_ref().map_or(0, ReceiveChain::n),
        ))
    }

    pub(crate) fn last_opened(&self) -> Option<Time> {
        each!(self, r => (r.opened.ms() != 0).then_some(r.opened))
    }

    /// The later of created and last opened.
    pub(crate) fn last_used(&self) -> Time {
        each!(self, r => r.created.max(r.opened))
    }

    pub(crate) fn set_created(&mut self, now: Time) {
        each!(self, r => r.created = now);
    }

    /// The prefix that began the session, on the responder's side.
    pub(crate) fn accepted_prefix(&self) -> Option<&[u8]> {
        each!(self, r => (!r.initiator).then_some(r.prefix.as_slice()))
    }

    /// Whether the key of a message is found without a DH.
    pub(crate) fn knows(&self, inner: &Inner<'_>, now: Time) -> bool {
        each!(self, r => {
            r.receives(&inner.key) || r.skipped.find(&inner.key, inner.n, now).is_some()
        })
    }

    pub(crate) fn message_bytes(&self, body_bytes: usize) -> Option<usize> {
        fn of<S: RatchetSuite, B: Backend>(r: &Ratchet<S, B>, body_bytes: usize) -> Option<usize> {
            let padded = r.padded_bytes(body_bytes, Padding::Blocks)?;
            Some(S::Wire::message_bytes(r.next_prefix(), S::Aead::sealed_len(padded)))
        }
        each!(self, r => of(r, body_bytes))
    }

    pub(crate) fn seal(
        &mut self,
        body: &[u8],
        outer: &[u8],
        padding: Padding,
        fresh: Option<Ephemeral>,
        now: Time,
    ) -> Result<Vec<u8>, SealError> {
        each!(self, r => r.seal(body, outer, padding, fresh, now))
    }

    pub(crate) fn open(
        &mut self,
        inner: &Inner<'_>,
        outer: &[u8],
        now: Time,
        changes: &mut Changes,
    ) -> Result<Zeroizing<Vec<u8>>, OpenError> {
        each!(self, r => r.open(inner, outer, now, changes))
    }

    pub(crate) fn skipped(&self) -> &Skipped {
        each!(self, r => &r.skipped)
    }

    pub(crate) fn skipped_mut(&mut self) -> &mut Skipped {
        each!(self, r => &mut r.skipped)
    }

    pub(crate) fn encode(&self, active: bool) -> Vec<u8> {
        each!(self, r => r.encode(active))
    }
}
