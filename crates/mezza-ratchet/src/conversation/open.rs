//! Opening: finds the session of a message, and begins a session with a first message.

use alloc::vec::Vec;
use core::iter;

use mezza_core::{Backend, Suite, SuiteId, Time};

use super::{Conversation, Opened, TRY_STEPS_MAX};
use crate::suite::of_suite;
use crate::wire::{self, FirstMessageHeader, RatchetMessage};
use crate::{Changes, Exporter, IdentityKeyPair, OpenError, Prekeys, Session, x3dh};

/// A decoded message, and the time at which it is opened.
struct Received<'a> {
    inner: &'a RatchetMessage<'a>,
    /// The outer bytes that are authenticated with the message.
    outer: &'a [u8],
    now: Time,
}

impl<B: Backend> Conversation<B> {
    /// Opens a message of this contact in any envelope and any session. A first message begins a
    /// session with the prekeys of this device. After an error the conversation and `prekeys` are
    /// unchanged.
    pub fn open(
        &mut self,
        message: &[u8],
        outer: &[u8],
        identity: &IdentityKeyPair,
        prekeys: &mut Prekeys,
        now: Time,
    ) -> Result<Opened, OpenError> {
        let (suite, is_first) = wire::peek_suite(message)?;
        if !prekeys.offers_suite(suite) && !self.speaks_suite(suite) {
            return Err(self.wrong_suite(suite, is_first));
        }
        let envelope = wire::decode_as(suite, message)?;
        let received = Received { inner: &envelope.inner, outer, now };
        let Some(first) = &envelope.first else {
            return self.open_any(suite, &received);
        };
        if first.identity != *self.remote.public_key() || identity.public_key() != self.local {
            return Err(OpenError::Forged);
        }
        let accepted =
            |session: &Session<B>| session.accepted_header().filter(|a| a.same_base(first));
        let mut began = self.sessions.iter().map(accepted).enumerate();
        match began.find_map(|(at, accepted)| Some((at, accepted?))) {
            Some((at, accepted)) if accepted.same_handshake(&first.with_ciphertext_digest()) => {
                self.open_in(at, &received)
            }
            Some(_) => Err(OpenError::Forged),
            None => self.accept_first(first, &received, identity, prekeys),
        }
    }

    /// Returns true if this message would begin a session here, provided that the message is
    /// authentic. Nothing is authenticated, and no scalar multiplication is done.
    pub fn begins_session(&self, message: &[u8]) -> bool {
        let Ok((suite, true)) = wire::peek_suite(message) else { return false };
        let Ok(envelope) = wire::decode_as(suite, message) else { return false };
        let Some(first) = envelope.first else { return false };
        !self
            .sessions
            .iter()
            .any(|session| session.accepted_header().is_some_and(|a| a.same_base(&first)))
    }

    fn speaks_suite(&self, suite: SuiteId) -> bool {
        self.sessions.iter().any(|session| session.suite() == suite)
    }

    fn wrong_suite(&self, message: SuiteId, is_first: bool) -> OpenError {
        match self.active_session() {
            Some(active) if !is_first => {
                OpenError::SuiteMismatch { session: active.suite(), message }
            }
            _ => OpenError::SuiteUnsupported(message),
        }
    }

    /// Opens a message that is not a first message. If a session knows the ratchet key, the message
    /// key is looked up. Otherwise the key is tried as a new ratchet key in the active session and
    /// in archived sessions that could get a reply.
    fn open_any(&mut self, suite: SuiteId, received: &Received<'_>) -> Result<Opened, OpenError> {
        if !self.speaks_suite(suite) {
            return Err(match self.active_session() {
                Some(_) => self.wrong_suite(suite, false),
                None => OpenError::NoSession,
            });
        }
        let fits = |session: &Session<B>| {
            session.suite() == suite && session.has_message_key(received.inner, received.now)
        };
        if let Some(at) = self.sessions.iter().position(fits) {
            return self.open_in(at, received);
        }
        let archived = (1..self.sessions.len()).filter(|at| self.sessions[*at].has_own());
        let tried = iter::once(0).chain(archived);
        let tried = tried.filter(|at| self.sessions[*at].suite() == suite);
        let tried = tried.take(trial_limit(received.inner.n));
        let mut error = OpenError::Forged;
        for at in tried.collect::<Vec<_>>() {
            match self.open_in(at, received) {
                Err(OpenError::Forged) => {}
                Err(other) => error = other,
                opened => return opened,
            }
        }
        Err(error)
    }

    /// Opens a message in session `at`. This session then becomes the active session, unless its
    /// suite is worse than that of the active session. While two people change to a better suite,
    /// late messages still arrive in the old suite, and each of these messages would otherwise
    /// switch back.
    fn open_in(&mut self, at: usize, received: &Received<'_>) -> Result<Opened, OpenError> {
        let mut changes = Changes::new();
        let body =
            self.sessions[at].open(received.inner, received.outer, received.now, &mut changes)?;
        let session = *self.sessions[at].id();
        let active = &self.sessions[0];
        let better = active.last_opened().is_some() && active.suite() > self.sessions[at].suite();
        if at > 0 && !better {
            let opened = self.sessions.remove(at);
            self.sessions.insert(0, opened);
            self.record_session(1, &mut changes);
        }
        self.record_session(if better { at } else { 0 }, &mut changes);
        Ok(Opened { body, session, first: false, exporter: None, changes })
    }

    /// Begins a session with a first message. Only after the inner message was opened, the one-time
    /// key is wiped, the base key is remembered, the old session is archived and the new session is
    /// added.
    fn accept_first(
        &mut self,
        first: &FirstMessageHeader,
        received: &Received<'_>,
        identity: &IdentityKeyPair,
        prekeys: &mut Prekeys,
    ) -> Result<Opened, OpenError> {
        if !prekeys.offers_suite(first.suite) {
            return Err(OpenError::SuiteUnsupported(first.suite));
        }
        let now = received.now;
        let offered = prekeys.responder_keys(first, now)?;
        let (mut session, exporter): (Session<B>, Exporter) = of_suite!(first.suite, S => {
            let (ratchet, exporter) = x3dh::accept_session::<S, B>(first, identity, &offered)?;
            (ratchet.into(), exporter)
        }, else return Err(OpenError::SuiteUnsupported(first.suite)));
        let mut changes = Changes::new();
        let body = session.open(received.inner, received.outer, now, &mut changes)?;

        prekeys.consume_prekey(first, now, &mut changes);
        session.set_created(now);
        let id = *session.id();
        self.activate_session(session, &mut changes);
        Ok(Opened { body, session: id, first: true, exporter: Some(exporter), changes })
    }
}

/// Returns the number of sessions in which a message of index `n` is tried as a new ratchet key.
/// One DH is cheap; the `n` chain steps are not. A forged message can cost 25,000 steps in all. An
/// authentic message has a small index at the start of a turn, and is therefore tried in every
/// session.
fn trial_limit(n: u32) -> usize {
    (TRY_STEPS_MAX / n.max(1)).max(1) as usize
}
