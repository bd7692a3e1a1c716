//! Where every schedule begins: a pairing whose first exchange was answered and never confirmed, both
//! machines restarted.

use mezza_core::{Machine, Secret, Time};
use mezza_seka::suite::LinkSuite;
use mezza_seka::wire::{B1, B2, Ke1, Ke2, kind_of};
use mezza_seka::{LinkRole, Peer, PeerRecord, PeerSettings};

use crate::stage::{Device, across, run_pairing, store_key};

/// The state of both sides at the start, made once for many schedules.
pub struct Start {
    /// A sealed record of each side.
    pub sealed: [Vec<u8>; 2],
    /// The private keys that each side drew: for Bootstrap, then for the exchange.
    pub scalars: [[[u8; 32]; 2]; 2],
    /// B1 and B2.
    pub bootstrap: [Vec<u8>; 2],
    /// KE1 and KE2.
    pub exchange: [Vec<u8>; 2],
    /// The state of Bootstrap, and the pending one of the responder.
    pub states: [[u8; 32]; 2],
}

impl Start {
    /// Pairs two devices up to there.
    pub fn of<S: LinkSuite>() -> Self {
        let device = |own: u8, role| Device::<S>::new(own, |settings| settings.role = Some(role));
        let mut devices = [device(1, LinkRole::Initiator), device(2, LinkRole::Responder)];
        let mut frames = Vec::new();
        run_pairing(
            &mut devices,
            4_000,
            |from, frame| {
                frames.push(frame.clone());
                across(from, frame)
            },
            |_, _| {},
        );
        let of = |kind| frames.iter().find(|frame| kind_of(frame) == Some(kind)).expect("sent");
        let sealed = devices.each_ref().map(|device| device.writes[0].1.clone());
        let scalars = devices.each_ref().map(|device| [device.tapes[0], device.tapes[1]]);
        let responder = restore::<S>(&sealed[1], Time::from_ms(0));
        let (current, pending) = responder.stolen_states();
        Self {
            scalars,
            bootstrap: [of(B1::KIND).clone(), of(B2::KIND).clone()],
            exchange: [of(Ke1::KIND).clone(), of(Ke2::KIND).clone()],
            states: [*current, *pending.expect("the exchange was answered")],
            sealed,
        }
    }
}

/// A machine from its record.
pub fn restore<S: LinkSuite>(sealed: &[u8], now: Time) -> Peer<S> {
    let stored = PeerRecord::open(&store_key(), sealed).expect("opens");
    let settings = PeerSettings { exchange_ms: 0, ..PeerSettings::default() };
    let mut peer = Peer::restore(stored.0, stored.1, store_key(), settings, now).expect("restored");
    // It wants a key; the model gives one when a session begins.
    while peer.poll().is_some() {}
    peer
}

/// The secret of 32 bytes.
pub fn secret(bytes: &[u8; 32]) -> Secret<32> {
    Secret::copy_from(bytes)
}
