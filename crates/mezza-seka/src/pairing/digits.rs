//! Pairing with six digits: S1, S2, S3, and two users who compare.

use alloc::vec::Vec;

use mezza_core::{CryptoRng, EphemeralKey, Machine, Time};
use subtle::ConstantTimeEq;

use super::{Pairing, PairingFailure, PairingOutput, PairingTimer, Step};
use crate::error::LinkError;
use crate::keys::{CanonicalPoint, LinkId, LinkState};
use crate::peer::PeerInput;
use crate::record::PeerAddress;
use crate::sas::{SasDigits, compute_commitment};
use crate::suite::LinkSuite;
use crate::wire::{HandshakeFrame, S1, S2, S3};

impl<S: LinkSuite> Pairing<S> {
    pub(super) fn build_s1(&self, m1: &CanonicalPoint) -> Vec<u8> {
        let mut frame = S1 {
            suite: S::NUMBER,
            index: 0,
            from: self.settings.own,
            to: self.settings.peer,
            session_id: self.session_id,
            commitment: [0; 32],
        };
        frame.commitment = compute_commitment(&frame.encode(), m1, &self.coins);
        frame.encode()
    }

    pub(super) fn heard_s1(
        &mut self,
        frame: &[u8],
        sender: LinkId,
        from: PeerAddress,
    ) -> Result<(), LinkError> {
        // Decoding first drops a malformed frame before it can count as a second device (SEKA-1).
        S1::decode(S::NUMBER, frame)?;
        self.heard_ask(frame, sender, from);
        Ok(())
    }

    pub(super) fn answer_s1(
        &mut self,
        frame: &[u8],
        ephemeral: EphemeralKey,
        rng: &mut dyn CryptoRng,
    ) {
        let Ok(s1) = S1::decode(S::NUMBER, frame) else { return };
        // The address was recorded with S1. Without an address there is no destination.
        let Some((_, to)) = self.peer else { return };
        // The coins are drawn after the commitment arrived, so the initiator cannot choose its key
        // by them (PKC 2006).
        rng.fill_bytes(&mut self.coins);
        self.session_id = s1.session_id;
        let answer = S2 {
            suite: S::NUMBER,
            index: 0,
            from: self.settings.own,
            to: s1.from,
            session_id: s1.session_id,
            m2: CanonicalPoint::from_own_key(ephemeral.public_key()),
            coins: self.coins,
        };
        self.second = answer.encode();
        self.step = Step::Answering(ephemeral);
        let frame = self.second.clone();
        self.outputs.push_back(PairingOutput::Send { to: Some(to), frame });
    }

    pub(super) fn heard_s2(
        &mut self,
        frame: &[u8],
        sender: LinkId,
        from: PeerAddress,
        now: Time,
    ) -> Result<(), LinkError> {
        let s2 = S2::decode(S::NUMBER, frame)?;
        // A response to another request is dropped without ending the window.
        if s2.session_id != self.session_id {
            return Err(LinkError::Refused);
        }
        let Some(ephemeral) = self.heard_answer(frame, sender, from) else { return Ok(()) };
        let m1 = CanonicalPoint::from_own_key(ephemeral.public_key());
        let s3 = self.build_s3(&m1, sender);
        // A zero secret has ended the window already (SEKA-4).
        if let Some(state) = self.first_state(ephemeral, &m1, &s2.m2) {
            self.asks.clone_from(&s3);
            self.show_digits(&s3, state);
            self.send_ask(now);
        }
        Ok(())
    }

    fn build_s3(&self, m1: &CanonicalPoint, responder: LinkId) -> Vec<u8> {
        let frame = S3 {
            suite: S::NUMBER,
            index: 0,
            from: self.settings.own,
            to: responder,
            session_id: self.session_id,
            m1: *m1,
            coins: self.coins,
        };
        frame.encode()
    }

    /// Handles the opening: it must match the commitment and the session id, or the window ends
    /// (SEKA-35).
    pub(super) fn heard_s3(
        &mut self,
        frame: &[u8],
        sender: LinkId,
        from: PeerAddress,
    ) -> Result<(), LinkError> {
        let s3 = S3::decode(S::NUMBER, frame)?;
        // S3 is accepted only from the device that sent S1, and only after our S2.
        if !matches!(self.step, Step::Answering(_)) || self.peer.map(|(id, _)| id) != Some(sender) {
            return Err(LinkError::Refused);
        }
        let s1 = S1::decode(S::NUMBER, &self.first)?;
        // Constant time, although the commitment is public: all tags and commitments are compared
        // alike (SEKA-5).
        let opens: bool =
            compute_commitment(&self.first, &s3.m1, &s3.coins).ct_eq(&s1.commitment).into();
        let names_it =
            s3.session_id == self.session_id && S::is_session_id(&s3.session_id, &sender, &s3.m1);
        // One chance for each press of the button: a wrong opening ends the window (SEKA-34,
        // SEKA-35).
        if !opens || !names_it {
            self.fail_with(PairingFailure::Commitment);
            return Ok(());
        }
        let Step::Answering(ephemeral) = core::mem::replace(&mut self.step, Step::Listening) else {
            return Ok(());
        };
        self.peer = Some((sender, from));
        let m2 = CanonicalPoint::from_own_key(ephemeral.public_key());
        if let Some(state) = self.first_state(ephemeral, &s3.m1, &m2) {
            self.show_digits(frame, state);
        }
        Ok(())
    }

    /// Shows the digits to the user.
    fn show_digits(&mut self, s3: &[u8], state: LinkState) {
        // The digits cover all three frames, so a change to any of them shows with chance 1 -
        // 10^-6.
        let digits = SasDigits::from_frames(&self.first, &self.second, s3);
        self.step = Step::Comparing { state, early: None };
        self.outputs.push_back(PairingOutput::Digits(digits));
    }

    /// Handles the user's decision: yes begins the first exchange.
    pub(super) fn confirm_digits(
        &mut self,
        equal: bool,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), LinkError> {
        // A decision without shown digits must not confirm anything (SEKA-88).
        if !matches!(self.step, Step::Comparing { .. }) {
            return Err(LinkError::Unknown);
        }
        // Different digits indicate an attacker in the path. Nothing of this run is stored.
        if !equal {
            self.fail_with(PairingFailure::Digits);
            return Ok(());
        }
        let Step::Comparing { state, early } = core::mem::replace(&mut self.step, Step::Over(None))
        else {
            return Ok(());
        };
        self.timers.set_deadline(PairingTimer::Ask, None);
        // The state is used only from here on, after our user has confirmed it (SEKA-34).
        self.begin_exchange(state, now, rng);
        // Without an ephemeral key the peer is still busy; the initiator repeats KE1.
        if let (Some((frame, from)), Step::Exchanging(peer)) = (early, &mut self.step) {
            let _ = peer.handle(PeerInput::Datagram { frame, from }, now, rng);
            self.drain_peer();
        }
        Ok(())
    }
}
