//! Pairing without digits: exchanges B1 and B2, and completes once 1 s has passed without another
//! response.

use alloc::vec::Vec;

use mezza_core::{CryptoRng, EphemeralKey, Time};

use super::{Pairing, PairingOutput, PairingTimer, Step};
use crate::error::LinkError;
use crate::keys::{CanonicalPoint, LinkId};
use crate::limits::{SETTLE_ASKS, SETTLE_MS};
use crate::record::PeerAddress;
use crate::suite::LinkSuite;
use crate::wire::{B1, B2, HandshakeFrame};

impl<S: LinkSuite> Pairing<S> {
    pub(super) fn build_b1(&self, m1: &CanonicalPoint) -> Vec<u8> {
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

    pub(super) fn heard_b1(
        &mut self,
        frame: &[u8],
        sender: LinkId,
        from: PeerAddress,
    ) -> Result<(), LinkError> {
        let b1 = B1::decode(S::NUMBER, frame)?;
        // In suite 02 s is derived from m1, so a wrong s was made by another device (SEKA-3).
        if !S::is_session_id(&b1.session_id, &sender, &b1.m1) {
            return Err(LinkError::Refused);
        }
        self.heard_ask(frame, sender, from);
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
        let m2 = CanonicalPoint::from_own_key(ephemeral.public_key());
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
        // The state is derived before the response is sent: no B2 is sent for a point of low order
        // (SEKA-4).
        let Some(state) = self.first_state(ephemeral, &b1.m1, &m2) else { return };
        let frame = self.second.clone();
        self.outputs.push_back(PairingOutput::Send { to: Some(to), frame });
        self.begin_exchange(state, now, rng);
    }

    pub(super) fn heard_b2(
        &mut self,
        frame: &[u8],
        sender: LinkId,
        from: PeerAddress,
        now: Time,
    ) -> Result<(), LinkError> {
        let b2 = B2::decode(S::NUMBER, frame)?;
        // s is echoed. A response with another s belongs to an earlier window.
        if b2.session_id != self.session_id {
            return Err(LinkError::Refused);
        }
        if let Some(ephemeral) = self.heard_answer(frame, sender, from) {
            self.begin_settling(ephemeral, b2.m2, now);
        }
        Ok(())
    }

    /// Waits a second after the first B2.
    fn begin_settling(&mut self, ephemeral: EphemeralKey, m2: CanonicalPoint, now: Time) {
        self.step = Step::Settling { ephemeral, m2 };
        // Within this second another response can still arrive and end the window (SEKA-33).
        self.asks_left = Some(SETTLE_ASKS);
        self.timers.set_deadline(PairingTimer::Settled, Some(now.plus_ms(SETTLE_MS)));
    }

    /// Continues after a second without another response.
    pub(super) fn on_settled(&mut self, now: Time, rng: &mut dyn CryptoRng) {
        self.timers.set_deadline(PairingTimer::Ask, None);
        if let Step::Settling { ephemeral, m2 } =
            core::mem::replace(&mut self.step, Step::Over(None))
        {
            let m1 = CanonicalPoint::from_own_key(ephemeral.public_key());
            self.step = Step::Listening;
            if let Some(state) = self.first_state(ephemeral, &m1, &m2) {
                self.begin_exchange(state, now, rng);
            }
        }
    }
}
