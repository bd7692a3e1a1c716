//! Pairing with the device of a contact: six digits, the first exchange, the proof of both identity
//! keys.
//!
//! ```text
//! this side dials   Pair -> Dial -> Opened -> S1, S2, S3 -> Digits -> Confirm -> KE1, KE2, KE3 -> proof
//! this side waits   Pair -> S1 on an accepted connection -> ..
//! ```
//!
//! The digits prove that no third device is in the middle. They do not name a person: the proof
//! binds both ends to the identity keys of the two cards.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use mezza_core::{Machine, PortableBackend, Secret, Time, Wiping, snapshot};
use mezza_seka::wire::S1;
use mezza_seka::{
    LinkId, LinkRole, Pairing, PairingInput, PairingOutput, PairingSettings, PeerInput, PeerOutput,
    StoreKey,
};

use super::frames::kind_of;
use super::peer::PairedKeys;
use super::{
    EXCHANGE_MS, Link, LinkConnection, LinkOutput, LinkPeer, PairRequest, PairingStep,
    PairingTrouble, Suite, address_of, connection_of,
};
use crate::io::{ContactId, Ctx, News, RecordKind, key32};

/// Time for both users to begin the pairing and to compare the digits, in milliseconds.
const WINDOW_MS: u64 = 3 * Time::MINUTE_MS;
/// The name in the records of all pairings; the contact's number is the key of the row.
const NAME: &str = "contact";

/// The pairing in progress.
pub(super) struct ContactPairing {
    contact: ContactId,
    keys: PairedKeys,
    /// The address that this side dials; empty if it waits for the other side.
    address: String,
    store_key: Secret<32>,
    /// The last record of the new pairing, sealed.
    sealed: Option<Wiping<Vec<u8>>>,
    /// The machine; `None` until the connection is open, and after the first exchange.
    machine: Option<Box<Pairing<Suite>>>,
    /// The connection that was dialled, or on which the first exchange was accepted.
    line: Option<LinkConnection>,
    /// True while the user compares digits.
    has_digits: bool,
    /// True if the first exchange was accepted, and the proof is awaited.
    is_exchanged: bool,
    /// The end of the pairing.
    ends: Time,
}

snapshot!(struct ContactPairing {
    contact, keys, address, store_key, sealed,
    machine => machine.as_ref().map(|machine| machine.snapshot()),
    line, has_digits, is_exchanged, ends,
});

impl ContactPairing {
    /// Returns true if the pairing is with this contact.
    pub fn is_with(&self, contact: ContactId) -> bool {
        self.contact == contact
    }

    /// Returns true if a dial to this contact belongs to the pairing.
    pub fn dials(&self, contact: ContactId) -> bool {
        self.contact == contact && !self.address.is_empty() && self.line.is_none()
    }

    /// Returns the connection of the first exchange, once it is known.
    pub fn line(&self) -> Option<LinkConnection> {
        self.line
    }

    /// Returns true if the other device is on this connection.
    fn uses(&self, connection: LinkConnection) -> bool {
        let machine = self.machine.as_ref().and_then(|machine| machine.peer_address());
        self.line == Some(connection)
            || machine.is_some_and(|from| connection_of(&from) == connection)
    }

    /// Returns the time of the next work.
    pub fn deadline(&self) -> Option<Time> {
        let machine = self.machine.as_ref().and_then(|machine| machine.deadline());
        machine.into_iter().chain([self.ends]).min()
    }
}

impl Link {
    /// Returns true if the user is asked to compare digits.
    pub(super) fn has_digits(&self) -> bool {
        self.pairing.as_ref().is_some_and(|pairing| pairing.has_digits)
    }

    pub(super) fn begin_pairing(&mut self, request: PairRequest, ctx: &mut Ctx<'_>) {
        let PairRequest { contact, own_ik, ik, address } = request;
        if self.own.id.is_none() {
            self.own.id = Some(LinkId::random(ctx.rng));
            self.store_own(ctx);
        }
        if self.own.bundle.is_empty() {
            // The bundle was published before this device had links.
            self.news.push_back(News::Unpublished);
        }
        let dial = address.clone();
        self.pairing = Some(ContactPairing {
            contact,
            keys: PairedKeys { own: *own_ik.as_bytes(), peer: *ik.as_bytes() },
            address: address.unwrap_or_default(),
            store_key: Secret::random(ctx.rng),
            sealed: None,
            machine: None,
            line: None,
            has_digits: false,
            is_exchanged: false,
            ends: self.clock.plus_ms(WINDOW_MS),
        });
        match dial {
            Some(address) => self.outputs.push_back(LinkOutput::Dial { contact, address }),
            None => self.begin_run(None, ctx),
        }
    }

    /// Begins the run of digits: on the connection that was dialled, or on the first that carries a
    /// request.
    pub(super) fn begin_run(&mut self, line: Option<LinkConnection>, ctx: &mut Ctx<'_>) {
        let (Some(own), Some(pairing)) = (self.own.id, &mut self.pairing) else { return };
        // A device that is paired with another contact cannot stand for this one, too (SEKA-31).
        let others = self.peers.iter().filter(|(contact, _)| **contact != pairing.contact);
        let role = if line.is_some() { LinkRole::Initiator } else { LinkRole::Responder };
        let settings = PairingSettings {
            role: Some(role),
            sas: true,
            window_ms: WINDOW_MS,
            known: others.map(|(_, peer)| peer.id).collect(),
            ..PairingSettings::new(own, NAME, 0)
        };
        let key = StoreKey::new(pairing.store_key.duplicate());
        let wall_ms = ctx.now.as_ms();
        let machine = Pairing::open_window(settings, key, self.clock, wall_ms, ctx.rng);
        pairing.machine = Some(Box::new(machine));
        pairing.line = line;
        let ends = pairing.ends;
        if let Some(line) = line.and_then(|line| self.lines.get_mut(&line)) {
            (line.is_pairing, line.ends) = (true, ends);
        }
    }

    /// Handles a frame of a pairing or of its first exchange.
    pub(super) fn on_pairing_frame(
        &mut self,
        connection: LinkConnection,
        bytes: &[u8],
        ctx: &mut Ctx<'_>,
    ) {
        let Some(line) = self.lines.get_mut(&connection) else { return };
        let pairing = self.pairing.as_ref().filter(|pairing| pairing.machine.is_some());
        let is_request = kind_of(bytes) == Some(S1::KIND);
        // Outside of a pairing its frames are never answered (SEKA-30).
        let Some(ends) = pairing.map(|pairing| pairing.ends).filter(|_| line.session.is_none())
        else {
            return self.on_late_pairing_frame(connection, ctx);
        };
        if !line.is_pairing {
            // A connection of a known contact carries no pairing, and an unknown one begins with S1.
            if line.contact.is_some() || !is_request {
                return self.reject_line(connection, ctx);
            }
            (line.is_pairing, line.ends) = (true, ends);
        }
        let from = address_of(connection);
        let input = PairingInput::Datagram { frame: bytes.to_vec(), from, on_link: false };
        self.drive_pairing(Some(input), ctx);
    }

    /// Handles a frame of a pairing that is over. A repetition may still be on its way just after
    /// the exchange.
    fn on_late_pairing_frame(&mut self, connection: LinkConnection, ctx: &mut Ctx<'_>) {
        let session = self.lines.get(&connection).and_then(|line| line.session.as_ref());
        if session.is_none_or(|session| session.is_fresh) {
            self.reject_line(connection, ctx);
        }
    }

    pub(super) fn confirm_digits(&mut self, equal: bool, ctx: &mut Ctx<'_>) {
        if let Some(pairing) = &mut self.pairing {
            pairing.has_digits = false;
        }
        self.drive_pairing(Some(PairingInput::Confirm(equal)), ctx);
    }

    pub(super) fn cancel_pairing(&mut self, ctx: &mut Ctx<'_>) {
        if self.pairing.is_some() {
            self.fail_pairing(mezza_seka::PairingFailure::Cancelled.into(), ctx);
        }
    }

    pub(super) fn wake_pairing(&mut self, ctx: &mut Ctx<'_>) {
        let Some(pairing) = &self.pairing else { return };
        if pairing.ends <= self.clock {
            return self.fail_pairing(mezza_seka::PairingFailure::Timeout.into(), ctx);
        }
        if pairing.deadline().is_some_and(|at| at <= self.clock) {
            self.drive_pairing(None, ctx);
        }
    }

    /// Passes an input to the machine of the pairing, or wakes it, and carries out its requests.
    fn drive_pairing(&mut self, input: Option<PairingInput>, ctx: &mut Ctx<'_>) {
        let machine = self.pairing.as_mut().and_then(|pairing| pairing.machine.take());
        let Some(mut machine) = machine else { return };
        let now = self.clock;
        match input {
            // A refused frame changes nothing. Its connection ends with the pairing.
            Some(input) => {
                let _ = machine.handle(input, now, ctx.rng);
            }
            None => machine.wake(now, ctx.rng),
        }
        while let Some(output) = machine.poll() {
            match output {
                PairingOutput::Done => return self.complete_pairing(*machine, ctx),
                PairingOutput::Failed(failure) => return self.fail_pairing(failure.into(), ctx),
                other => self.carry_out_pairing(&mut machine, other, ctx),
            }
        }
        if let Some(pairing) = &mut self.pairing {
            pairing.machine = Some(machine);
        }
    }

    fn carry_out_pairing(
        &mut self,
        machine: &mut Pairing<Suite>,
        output: PairingOutput,
        ctx: &mut Ctx<'_>,
    ) {
        let Some(pairing) = &mut self.pairing else { return };
        match output {
            PairingOutput::Want | PairingOutput::Peer(PeerOutput::Want) => {
                let ephemeral = ctx.draw_ephemeral::<PortableBackend>();
                let _ = machine.handle(PairingInput::Give(ephemeral), self.clock, ctx.rng);
            }
            PairingOutput::Send { to, frame } => {
                // A request to all devices goes to the one that was dialled.
                let to = to.map(|to| connection_of(&to)).or(pairing.line);
                let Some(connection) = to else { return };
                match kind_of(&frame) {
                    Some(kind) if kind < mezza_seka::wire::Ke1::KIND => {
                        self.outputs.push_back(LinkOutput::Send { connection, bytes: frame });
                    }
                    _ => self.send_exchange_frame(connection, frame),
                }
            }
            PairingOutput::Digits(digits) => {
                pairing.has_digits = true;
                let step = PairingStep::Digits(digits.to_string());
                self.outputs.push_back(LinkOutput::Pairing { contact: pairing.contact, step });
            }
            PairingOutput::Peer(PeerOutput::Store { seq, sealed }) => {
                // The row is written once the exchange is accepted: until then an earlier pairing
                // with the contact stays (SEKA-31).
                pairing.sealed = Some(Wiping::new(sealed.to_vec()));
                let stored = PairingInput::Peer(PeerInput::Stored(seq));
                let _ = machine.handle(stored, self.clock, ctx.rng);
            }
            PairingOutput::Peer(PeerOutput::Install(session)) => {
                if let Some(connection) = machine.peer_address().map(|at| connection_of(&at)) {
                    pairing.line = Some(connection);
                    self.install_session(connection, *session);
                }
            }
            PairingOutput::Peer(PeerOutput::KeepAlive { .. }) => {
                if let Some(connection) = pairing.line {
                    self.send_keep_alive(connection);
                }
            }
            _ => {}
        }
    }

    /// Stores the new pairing: its first exchange was accepted. An earlier pairing with the contact
    /// ends.
    fn complete_pairing(&mut self, machine: Pairing<Suite>, ctx: &mut Ctx<'_>) {
        let parts = machine.into_peer();
        let Some(pairing) = &mut self.pairing else { return };
        let contact = pairing.contact;
        let line = pairing.line;
        let address = pairing.address.clone();
        let peer = pairing.sealed.as_ref().and_then(|sealed| {
            LinkPeer::new(pairing.store_key.duplicate(), sealed, pairing.keys, address).ok()
        });
        let (Some((machine, _)), Some(mut peer), Some(connection)) = (parts, peer, line) else {
            return self.fail_pairing(mezza_seka::PairingFailure::Store.into(), ctx);
        };
        pairing.is_exchanged = true;
        pairing.ends = self.clock.plus_ms(EXCHANGE_MS);
        self.close_lines_of(contact, Some(connection), ctx);
        peer.machine = Some(Box::new(machine));
        peer.exchanging = Some(connection);
        self.peers.insert(contact, peer);
        self.store_peer(contact, ctx);
        if let Some(line) = self.lines.get_mut(&connection) {
            (line.contact, line.is_pairing) = (Some(contact), false);
        }
        self.send_opening(connection);
    }

    /// Reports a complete pairing, if the proof belongs to it.
    pub(super) fn on_pairing_proven(
        &mut self,
        connection: LinkConnection,
        contact: ContactId,
        ctx: &mut Ctx<'_>,
    ) {
        let is_own = |pairing: &mut ContactPairing| {
            pairing.is_exchanged && pairing.contact == contact && pairing.line == Some(connection)
        };
        if self.pairing.take_if(is_own).is_some() {
            self.close_pairing_lines(ctx);
            let step = PairingStep::Paired;
            self.outputs.push_back(LinkOutput::Pairing { contact, step });
        }
    }

    /// Handles a proof of other identity keys: the user compared digits with a device that belongs
    /// to somebody else. A pairing that was never proven is deleted.
    pub(super) fn on_wrong_identity(
        &mut self,
        connection: LinkConnection,
        contact: ContactId,
        ctx: &mut Ctx<'_>,
    ) {
        self.rejected += 1;
        if self.peers.get(&contact).is_some_and(|peer| !peer.is_proven) {
            self.peers.remove(&contact);
            ctx.effects.drop_row(RecordKind::LinkPeer, key32(contact.0));
        }
        if self.pairing.as_ref().is_some_and(|pairing| pairing.line == Some(connection)) {
            self.fail_pairing(PairingTrouble::WrongIdentity, ctx);
        }
        self.close_line(connection, ctx);
    }

    /// Ends the pairing if its connection has closed.
    pub(super) fn on_pairing_line_closed(&mut self, connection: LinkConnection, ctx: &mut Ctx<'_>) {
        if self.pairing.as_ref().is_some_and(|pairing| pairing.uses(connection)) {
            self.fail_pairing(PairingTrouble::Closed, ctx);
        }
    }

    /// Ends the pairing with the contact, because the contact is gone or not served any more.
    pub(super) fn end_pairing_with(&mut self, contact: ContactId, ctx: &mut Ctx<'_>) {
        if self.pairing.as_ref().is_some_and(|pairing| pairing.contact == contact) {
            self.fail_pairing(PairingTrouble::ContactGone, ctx);
        }
    }

    /// Ends the pairing and reports the reason.
    pub(super) fn fail_pairing(&mut self, trouble: PairingTrouble, ctx: &mut Ctx<'_>) {
        let Some(pairing) = self.pairing.take() else { return };
        self.close_pairing_lines(ctx);
        let step = PairingStep::Failed(trouble);
        self.outputs.push_back(LinkOutput::Pairing { contact: pairing.contact, step });
    }

    fn close_pairing_lines(&mut self, ctx: &mut Ctx<'_>) {
        let lines = self.lines.iter().filter(|(_, line)| line.is_pairing);
        for connection in lines.map(|(connection, _)| *connection).collect::<Vec<_>>() {
            self.close_line(connection, ctx);
        }
    }
}
