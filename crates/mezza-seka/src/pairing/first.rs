//! The first state, the first exchange under it, and the end of a pairing.

use alloc::boxed::Box;

use mezza_core::{CryptoRng, EphemeralKey, Machine, Time, Timers};

use super::{Pairing, PairingFailure, PairingOutput, Step};
use crate::keys::{CanonicalPoint, LinkId, LinkPair, LinkRole, LinkState};
use crate::peer::{FrameTarget, Peer, PeerEvent, PeerInput, PeerOutput};
use crate::record::PeerRecord;
use crate::suite::{ExchangeView, LinkSuite};

impl<S: LinkSuite> Pairing<S> {
    fn pair_with(&self, peer: LinkId) -> LinkPair {
        LinkPair::from_role(self.role, self.settings.own, peer)
    }

    /// Derives the first state; a zero secret ends the window (SEKA-4).
    pub(super) fn first_state(
        &mut self,
        ephemeral: EphemeralKey,
        m1: &CanonicalPoint,
        m2: &CanonicalPoint,
    ) -> Option<LinkState> {
        let (peer, _) = self.peer?;
        let pair = self.pair_with(peer);
        let their = if self.role == LinkRole::Initiator { m2 } else { m1 };
        // A point of low order would give a secret that third parties know (SEKA-4).
        let Ok(shared) = ephemeral.diffie_hellman::<S::Backend>(their.public()) else {
            self.fail_with(PairingFailure::LowOrder);
            return None;
        };
        let view = ExchangeView { pair: &pair, session_id: &self.session_id, m1, m2 };
        Some(S::derive_first_state(&shared, &view))
    }

    /// Begins the first exchange, under the first state.
    pub(super) fn begin_exchange(&mut self, state: LinkState, now: Time, rng: &mut dyn CryptoRng) {
        let Some((id, address)) = self.peer else { return };
        let record = PeerRecord {
            role: self.role,
            suite: S::NUMBER,
            // Until its first exchange is accepted, a start may remove the record (SEKA-87).
            accepted: false,
            compared: self.settings.sas,
            own: self.settings.own,
            peer: id,
            current: state,
            pending: None,
            current_born: -1,
            pending_born: -1,
            // -1: no attempt precedes the pairing, so the first exchange uses counter 0 in suite
            // 01.
            attempt_next: 0,
            attempt_seen: -1,
            rekeys: 0,
            created_ms: self.wall_ms,
            accepted_ms: 0,
            // The stored record includes the peer's address: behind a router it could not be found
            // again by asking.
            address,
            name: self.settings.name.clone(),
            link: self.settings.link,
        };
        let key = self.store_key.duplicate();
        let mut peer = Box::new(Peer::new(record, key, self.settings.peer_settings, now));
        // A fresh peer accepts this input in every state.
        let _ = peer.handle(PeerInput::Wall(self.wall_ms), now, rng);
        if self.role == LinkRole::Initiator {
            let _ = peer.handle(PeerInput::Rekey, now, rng);
        }
        self.step = Step::Exchanging(peer);
        self.drain_peer();
    }

    /// Forwards the outputs of the peer, and detects the end of the first exchange.
    pub(super) fn drain_peer(&mut self) {
        let (Step::Exchanging(peer) | Step::Over(Some(peer))) = &mut self.step else { return };
        let mut ended = None;
        while let Some(output) = peer.poll() {
            match output {
                PeerOutput::Send { to, frame } => {
                    let to = match to {
                        FrameTarget::Source(address) => Some(address),
                        // The window is short, so the address of the received frames is the only
                        // one.
                        FrameTarget::Known | FrameTarget::Search => {
                            self.peer.map(|(_, address)| address)
                        }
                    };
                    self.outputs.push_back(PairingOutput::Send { to, frame });
                }
                PeerOutput::Moved(moved) => {
                    if let Some((_, address)) = &mut self.peer {
                        *address = moved;
                    }
                }
                PeerOutput::Tell(PeerEvent::Accepted(_)) => ended = Some(PairingOutput::Done),
                // Without a durable record the two sides would diverge after a crash, so the
                // pairing fails.
                PeerOutput::Tell(PeerEvent::StoreFailed) => {
                    ended = Some(PairingOutput::Failed(PairingFailure::Store));
                }
                other => self.outputs.push_back(PairingOutput::Peer(other)),
            }
        }
        match ended {
            Some(PairingOutput::Failed(failure)) => self.fail_with(failure),
            Some(done) => self.complete_exchange(done),
            None => {}
        }
    }

    pub(super) fn complete_exchange(&mut self, done: PairingOutput) {
        match core::mem::replace(&mut self.step, Step::Over(None)) {
            Step::Exchanging(peer) => {
                // The window timer must not end a completed pairing.
                self.timers = Timers::default();
                self.step = Step::Over(Some(peer));
                self.outputs.push_back(done);
            }
            // A running peer may exchange keys again while we still respond.
            other => self.step = other,
        }
    }

    /// Ends the window; unsent frames are dropped.
    pub(super) fn fail_with(&mut self, failure: PairingFailure) {
        // The first failure is reported. Later ones are consequences.
        if matches!(self.step, Step::Over(_)) {
            return;
        }
        self.step = Step::Over(None);
        self.timers = Timers::default();
        // Frames of a failed run must not be sent: the peer would take them for a second attempt.
        self.outputs.clear();
        self.outputs.push_back(PairingOutput::Failed(failure));
    }
}
