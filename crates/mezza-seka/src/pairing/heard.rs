//! Received frames of a pairing: their rate limit, their sender, and the meaning of a request or
//! response with and without digits.

use mezza_core::{CryptoRng, EphemeralKey, Machine, Time};

use super::{Pairing, PairingFailure, PairingOutput, PairingTimer, Step};
use crate::error::LinkError;
use crate::keys::{LinkId, LinkRole};
use crate::limits::PAIRING_FRAMES_PER_SECOND;
use crate::peer::PeerInput;
use crate::record::PeerAddress;
use crate::suite::LinkSuite;
use crate::wire::{B1, B2, Ke1, S1, S2, S3, is_pairing, kind_of, names_of};

impl<S: LinkSuite> Pairing<S> {
    /// Handles frames of pairing and of the first exchange; checks rate, sender and kind in this
    /// order.
    pub(super) fn on_frame(
        &mut self,
        frame: &[u8],
        from: PeerAddress,
        on_link: bool,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), LinkError> {
        let kind = kind_of(frame).ok_or(LinkError::Refused)?;
        // Frames of the exchange are not limited here: the peer machine has its own budget
        // (SEKA-72).
        if !is_pairing(kind) {
            return self.heard_exchange(kind, frame, from, now, rng);
        }
        // At most 10 pairing frames a second are processed (SEKA-37).
        if !self.may_look(now) {
            return Err(LinkError::Busy);
        }
        let of_sas = (S1::KIND..=S3::KIND).contains(&kind);
        // A pairing takes either B frames or S frames (SEKA-34). One without digits accepts only a
        // peer on the link (SEKA-36).
        if of_sas != self.settings.sas || (!of_sas && !on_link) || (of_sas && !S::COMPLETE) {
            return Err(LinkError::Refused);
        }
        // The names are readable without a key, so these checks only filter and prove nothing.
        let (sender, meant) = names_of(frame).ok_or(LinkError::Refused)?;
        // A frame for another device must not end our window.
        if meant.is_some_and(|meant| meant != self.settings.own) {
            return Err(LinkError::Refused);
        }
        // With `--peer` only one device counts. Frames of others are dropped and cause no conflict.
        if self.settings.peer.is_some_and(|peer| peer != sender) {
            return Err(LinkError::Refused);
        }
        // From here on the frame counts, even if it is refused.
        self.count_frame(now);
        // An attacker that reflects our frames, or a clone of this installation, ends the window
        // (SEKA-33).
        if sender == self.settings.own {
            self.fail_with(PairingFailure::OwnName);
            return Ok(());
        }
        let _ = match kind {
            B1::KIND => self.heard_b1(frame, sender, from),
            B2::KIND => self.heard_b2(frame, sender, from, now),
            S1::KIND => self.heard_s1(frame, sender, from),
            S2::KIND => self.heard_s2(frame, sender, from, now),
            _ => self.heard_s3(frame, sender, from),
        };
        Ok(())
    }

    /// Passes frames of the first exchange to the peer, with their source.
    fn heard_exchange(
        &mut self,
        kind: u8,
        frame: &[u8],
        from: PeerAddress,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), LinkError> {
        let sender = names_of(frame).map(|(sender, _)| sender);
        // Before the pairing has a peer, exchange frames belong to other machines on this network.
        if self.peer.map(|(peer, _)| peer) != sender {
            return Err(LinkError::Refused);
        }
        match &mut self.step {
            // KE1 may overtake the user's decision. It is stored and not used until the digits are
            // confirmed.
            Step::Comparing { early, .. } if kind == Ke1::KIND && frame.len() == Ke1::BYTES => {
                *early = Some((frame.to_vec(), from));
                Ok(())
            }
            Step::Exchanging(peer) | Step::Over(Some(peer)) => {
                peer.handle(PeerInput::Datagram { frame: frame.to_vec(), from }, now, rng)?;
                self.drain_peer();
                Ok(())
            }
            _ => Err(LinkError::Refused),
        }
    }

    /// Returns true if one more frame may be processed in this second (SEKA-37).
    fn may_look(&self, now: Time) -> bool {
        let (since, count) = self.looked;
        now.since_ms(since) >= Time::SECOND_MS || count < PAIRING_FRAMES_PER_SECOND
    }

    fn count_frame(&mut self, now: Time) {
        if now.since_ms(self.looked.0) >= Time::SECOND_MS {
            self.looked = (now, 0);
        }
        self.looked.1 += 1;
    }

    /// Records the sender of a frame: the first device, or a conflict (SEKA-33).
    fn admit_sender(&mut self, sender: LinkId, from: PeerAddress) -> bool {
        // A known name is never replaced silently: this could be a new device under an old name
        // (SEKA-31).
        if self.settings.known.contains(&sender) {
            self.fail_with(PairingFailure::Known(sender));
            return false;
        }
        match self.peer {
            None => {
                self.peer = Some((sender, from));
                self.outputs.push_back(PairingOutput::Found(sender));
                true
            }
            Some((peer, _)) if peer == sender => true,
            // Two devices in one window cannot be told apart by the user, so neither is paired
            // (SEKA-33).
            Some(_) => {
                self.fail_with(PairingFailure::Conflict);
                false
            }
        }
    }

    /// Returns true if a B1 or S1 of `sender` makes us the responder: while we listen, or if both
    /// have sent and our name is the greater one.
    fn yields_to(&self, sender: LinkId) -> bool {
        if self.settings.role == Some(LinkRole::Initiator) {
            return false;
        }
        // The lower name stays initiator, so that exactly one of two simultaneous requests
        // survives.
        match self.step {
            Step::Listening => true,
            Step::Asking(_) => {
                self.settings.role == Some(LinkRole::Responder) || self.settings.own > sender
            }
            _ => false,
        }
    }

    /// Handles B1 or S1, the request of a device: we respond, or the device will yield to us, or
    /// there is a conflict.
    pub(super) fn heard_ask(&mut self, frame: &[u8], sender: LinkId, from: PeerAddress) {
        if !self.admit_sender(sender, from) {
            return;
        }
        if self.yields_to(sender) {
            return self.become_responder(frame);
        }
        match &self.step {
            // A repeated request gets the same response.
            Step::Exchanging(_) | Step::Answering(_) | Step::Comparing { .. }
                if self.first == frame =>
            {
                let frame = self.second.clone();
                self.outputs.push_back(PairingOutput::Send { to: Some(from), frame });
            }
            Step::Choosing(first) if first == frame => {}
            // The device sent before it received our frame, and will respond.
            Step::Listening | Step::Asking(_) | Step::Settling { .. } | Step::Over(_) => {}
            // A different request of the same device contains a second m1, which may be an
            // attacker's (SEKA-33).
            _ => self.fail_with(PairingFailure::Conflict),
        }
    }

    /// Handles a response, B2 or S2. The first one returns the key of our request; a repetition is
    /// ignored, and a different one is a conflict.
    pub(super) fn heard_answer(
        &mut self,
        frame: &[u8],
        sender: LinkId,
        from: PeerAddress,
    ) -> Option<EphemeralKey> {
        if !matches!(self.step, Step::Asking(_)) {
            // Another response is a conflict only after a first one. Before, the frame is
            // unexpected.
            let answered = matches!(
                self.step,
                Step::Settling { .. } | Step::Comparing { .. } | Step::Exchanging(_)
            );
            if answered && self.second != frame {
                self.fail_with(PairingFailure::Conflict);
            }
            return None;
        }
        if !self.admit_sender(sender, from) {
            return None;
        }
        let Step::Asking(ephemeral) = core::mem::replace(&mut self.step, Step::Listening) else {
            return None;
        };
        self.peer = Some((sender, from));
        self.second = frame.to_vec();
        Some(ephemeral)
    }

    fn become_responder(&mut self, frame: &[u8]) {
        self.role = LinkRole::Responder;
        // A responder sends nothing unasked, so that only one side drives the run.
        for timer in [PairingTimer::Speak, PairingTimer::Ask] {
            self.timers.set_deadline(timer, None);
        }
        self.first = frame.to_vec();
        self.step = Step::Choosing(frame.to_vec());
        self.outputs.push_back(PairingOutput::Want);
    }
}
