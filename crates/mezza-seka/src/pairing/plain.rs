//! Pairing without digits: B1, B2, a second of silence.

use alloc::vec::Vec;

use mezza_core::{CryptoRng, EphemeralKey, Time};

use super::{Pairing, PairingFailure, PairingOutput, PairingTimer, Step};
use crate::error::LinkError;
use crate::keys::{CanonicalPoint, LinkId};
use crate::record::PeerAddress;
use crate::suite::LinkSuite;
use crate::wire::{B1, B2, HandshakeFrame};

impl<S: LinkSuite> Pairing<S> {
    pub(super) fn b1(&self, m1: &CanonicalPoint) -> Vec<u8> {
        let frame = B1 {
            suite: S::NUMBER,
            index: 0,
            from: self.settings.own,
            to: self.settings.peer,
            session_id: self.session_id,
            m1: *m1,
        };
        frame.encode()
    }

    /// A device asks: we answer it, or it yields to us, or there are two of them.
    pub(super) fn heard_b1(
        &mut self,
        frame: &[u8],
        (sender, from): (LinkId, PeerAddress),
    ) -> Result<(), LinkError> {
        let b1 = B1::decode(S::NUMBER, frame)?;
        if !S::is_session_id(&b1.session_id, &sender, &b1.m1) {
            return Err(LinkError::Refused);
        }
        if !self.meet(sender, from) {
            return Ok(());
        }
        if self.yields_to(sender) {
            self.become_responder(frame);
            return Ok(());
        }
        match &self.step {
            // The same B1 once more gets the same B2.
            Step::Exchanging(_) if self.first == frame => {
                let frame = self.second.clone();
                self.outputs.push_back(PairingOutput::Send { to: Some(from), frame });
            }
            Step::Choosing(first) if first == frame => {}
            // It spoke before it heard us, and will answer.
            Step::Listening | Step::Asking(_) | Step::Settling { .. } => {}
            Step::Over(_) => return Err(LinkError::Refused),
            _ => self.fail(PairingFailure::Conflict),
        }
        Ok(())
    }

    pub(super) fn answer_b1(
        &mut self,
        frame: &[u8],
        ephemeral: EphemeralKey,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) {
        let Ok(b1) = B1::decode(S::NUMBER, frame) else { return };
        let Some((_, to)) = self.peer else { return };
        let m2 = CanonicalPoint::own(ephemeral.public());
        self.session_id = b1.session_id;
        let answer = B2 {
            suite: S::NUMBER,
            index: 0,
            from: self.settings.own,
            to: b1.from,
            session_id: b1.session_id,
            m2,
        };
        self.second = answer.encode();
        let Some(state) = self.first_state(ephemeral, (&b1.m1, &m2)) else { return };
        let frame = self.second.clone();
        self.outputs.push_back(PairingOutput::Send { to: Some(to), frame });
        self.exchange(state, now, rng);
    }

    /// An answer: the first one, the same once more, or a conflict.
    pub(super) fn heard_b2(
        &mut self,
        frame: &[u8],
        (sender, from): (LinkId, PeerAddress),
        now: Time,
    ) -> Result<(), LinkError> {
        let b2 = B2::decode(S::NUMBER, frame)?;
        if b2.session_id != self.session_id {
            return Err(LinkError::Refused);
        }
        match &self.step {
            Step::Asking(_) => {}
            Step::Settling { m2, .. } if *m2 == b2.m2 && self.peer == Some((sender, from)) => {
                return Ok(());
            }
            Step::Exchanging(_) if self.second == frame => return Ok(()),
            Step::Settling { .. } | Step::Exchanging(_) => {
                self.fail(PairingFailure::Conflict);
                return Ok(());
            }
            _ => return Err(LinkError::Refused),
        }
        if !self.meet(sender, from) {
            return Ok(());
        }
        if let Step::Asking(ephemeral) = core::mem::replace(&mut self.step, Step::Listening) {
            self.peer = Some((sender, from));
            self.second = frame.to_vec();
            self.settle(ephemeral, b2.m2, now);
        }
        Ok(())
    }

    /// Nobody else has answered within a second.
    pub(super) fn settled(&mut self, now: Time, rng: &mut dyn CryptoRng) {
        self.timers.set(PairingTimer::Ask, None);
        if let Step::Settling { ephemeral, m2 } =
            core::mem::replace(&mut self.step, Step::Over(None))
        {
            let m1 = CanonicalPoint::own(ephemeral.public());
            self.step = Step::Listening;
            if let Some(state) = self.first_state(ephemeral, (&m1, &m2)) {
                self.exchange(state, now, rng);
            }
        }
    }
}
