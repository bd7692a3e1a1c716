//! Opening: which session a message belongs to, and what a first message begins.

use alloc::vec::Vec;
use core::iter;

use mezza_core::{Backend, Suite, SuiteId, Time};

use super::{Conversation, Opened, TRY_NEW_MAX};
use crate::suite::B2c20;
use crate::wire::{self, First, Inner, container};
use crate::x3dh::{self, Candidate};
use crate::{Changes, Identity, OpenError, Prekeys, Session};

impl<B: Backend> Conversation<B> {
    /// Opens a message of this contact, whichever session it belongs to; a first message begins a
    /// session with the prekeys of this device. An error changes nothing, here or in `prekeys`.
    pub fn open(
        &mut self,
        message: &[u8],
        outer: &[u8],
        identity: &Identity,
        prekeys: &mut Prekeys,
        now: Time,
    ) -> Result<Opened, OpenError> {
        let (suite, is_first) = wire::claim(message)?;
        if suite != B2c20::ID {
            return Err(self.wrong_suite(suite, is_first));
        }
        let envelope = container::decode(message)?;
        let Some(first) = &envelope.first else {
            return self.open_any(&envelope.inner, outer, now);
        };
        if first.identity != *self.remote.as_bytes() || identity.public() != self.local {
            return Err(OpenError::Forged);
        }
        let began = |s: &Session<B>| s.accepted_prefix().is_some_and(|p| same_base(p, first));
        match self.sessions.iter().position(began) {
            Some(at) if self.sessions[at].accepted_prefix() == Some(first.prefix) => {
                self.open_in(at, &envelope.inner, outer, now)
            }
            Some(_) => Err(OpenError::Forged),
            None => self.accept(first, &envelope.inner, outer, identity, (prekeys, now)),
        }
    }

    fn wrong_suite(&self, message: SuiteId, is_first: bool) -> OpenError {
        match self.active() {
            Some(active) if !is_first => {
                OpenError::SuiteMismatch { session: active.suite(), message }
            }
            _ => OpenError::SuiteUnsupported(message),
        }
    }

    /// Opens a message that names no session: by look-up where its key is known, else as a new
    /// ratchet key in the active session and the newest archived ones that can be answered.
    fn open_any(
        &mut self,
        inner: &Inner<'_>,
        outer: &[u8],
        now: Time,
    ) -> Result<Opened, OpenError> {
        if self.sessions.is_empty() {
            return Err(OpenError::NoSession);
        }
        if let Some(at) = self.sessions.iter().position(|session| session.knows(inner, now)) {
            return self.open_in(at, inner, outer, now);
        }
        let archived = (1..self.sessions.len()).filter(|at| self.sessions[*at].has_own());
        let tried: Vec<usize> = iter::once(0).chain(archived.take(TRY_NEW_MAX - 1)).collect();
        let mut error = OpenError::Forged;
        for at in tried {
            match self.open_in(at, inner, outer, now) {
                Err(OpenError::Forged) => {}
                Err(other) => error = other,
                opened => return opened,
            }
        }
        Err(error)
    }

    /// Opens a message in one session, which becomes the active one.
    fn open_in(
        &mut self,
        at: usize,
        inner: &Inner<'_>,
        outer: &[u8],
        now: Time,
    ) -> Result<Opened, OpenError> {
        let mut changes = Changes::new();
        let body = self.sessions[at].open(inner, outer, now, &mut changes)?;
        let session = *self.sessions[at].id();
        if at > 0 {
            let opened = self.sessions.remove(at);
            self.sessions.insert(0, opened);
            self.put(1, &mut changes);
        }
        self.put(0, &mut changes);
        Ok(Opened { body, session, first: false, exporter: None, changes })
    }

    /// Begins a session with a first message. The one-time key, the memory of the base key, the
    /// archiving and the new session change together, after the inner message opened.
    fn accept(
        &mut self,
        first: &First<'_>,
        inner: &Inner<'_>,
        outer: &[u8],
        identity: &Identity,
        (prekeys, now): (&mut Prekeys, Time),
    ) -> Result<Opened, OpenError> {
        let mut candidate: Candidate<B> = x3dh::accept(first, identity, prekeys, now)?;
        let mut changes = Changes::new();
        let body = candidate.session.open(inner, outer, now, &mut changes)?;

        prekeys.consume(first, now, &mut changes);
        candidate.session.set_created(now);
        let session = *candidate.session.id();
        self.insert(candidate.session, &mut changes);
        Ok(Opened { body, session, first: true, exporter: Some(candidate.exporter), changes })
    }
}

/// Whether a stored prefix and a first message have the same initiator and base key.
fn same_base(prefix: &[u8], first: &First<'_>) -> bool {
    container::decode_prefix(prefix)
        .is_ok_and(|(_, began)| began.identity == first.identity && began.base == first.base)
}
