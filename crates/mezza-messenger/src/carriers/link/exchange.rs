//! The exchange of keys on a connection: drives the machine of SEKA and carries out its requests.

use alloc::vec::Vec;

use mezza_core::{Machine, PortableBackend, Wiping};
use mezza_guard::wire::control::Control;
use mezza_seka::stream::{CLOSE, RECORD};
use mezza_seka::wire::{Ke1, Ke2, S1, S3, names_of};
use mezza_seka::{FrameTarget, LinkRole, LinkSession, Peer, PeerEvent, PeerInput, PeerOutput};

use super::frames::kind_of;
use super::line::LineSession;
use super::{EXCHANGE_MS, Link, LinkConnection, LinkOutput, Suite, address_of, connection_of};
use crate::io::{ContactId, Ctx};

impl Link {
    /// Begins an exchange on a connection that was dialled.
    pub(super) fn begin_exchange(
        &mut self,
        contact: ContactId,
        connection: LinkConnection,
        ctx: &mut Ctx<'_>,
    ) {
        let Some(peer) = self.peers.get_mut(&contact) else { return };
        peer.exchanging = Some(connection);
        // One machine for each exchange: the attempts of an earlier connection are over, and its
        // timers must not reserve numbers while there is no connection.
        peer.machine = peer.restore_machine(self.clock);
        let from = address_of(connection);
        let wall = PeerInput::Wall(ctx.now.as_ms());
        for input in [wall, PeerInput::Heard(from), PeerInput::Rekey] {
            self.drive_machine(contact, Some(input), ctx);
        }
    }

    /// Passes an input to the machine of a pairing, or wakes it, and carries out its requests.
    pub(super) fn drive_machine(
        &mut self,
        contact: ContactId,
        input: Option<PeerInput>,
        ctx: &mut Ctx<'_>,
    ) {
        let now = self.clock;
        let Some(peer) = self.peers.get_mut(&contact) else { return };
        let machine = peer.machine.take().or_else(|| peer.restore_machine(now));
        let Some(mut machine) = machine else { return };
        // The machine requests its first ephemeral key before the first input.
        let mut installed = self.carry_out_requests(contact, &mut machine, ctx);
        match input {
            // A refused frame leaves the machine unchanged. The connection is closed by its reader.
            Some(input) => {
                let _ = machine.handle(input, now, ctx.rng);
            }
            None => machine.wake(now, ctx.rng),
        }
        installed = self.carry_out_requests(contact, &mut machine, ctx).or(installed);
        if let Some(peer) = self.peers.get_mut(&contact) {
            peer.machine = Some(machine);
        }
        if let Some(connection) = installed {
            self.send_opening(connection);
        }
    }

    /// Carries out the requests of a machine. Returns the connection of a session that began.
    fn carry_out_requests(
        &mut self,
        contact: ContactId,
        machine: &mut Peer<Suite>,
        ctx: &mut Ctx<'_>,
    ) -> Option<LinkConnection> {
        let mut installed = None;
        while let Some(output) = machine.poll() {
            let connection = |to: FrameTarget, machine: &Peer<Suite>| match to {
                FrameTarget::Source(address) => connection_of(&address),
                // A stream has one other end, so a search has no further address.
                FrameTarget::Known | FrameTarget::Search => {
                    connection_of(&machine.record().address)
                }
            };
            match output {
                PeerOutput::Want => {
                    let ephemeral = match self.peers.get_mut(&contact) {
                        // Behind a guard the device draws no key of its own (GUARD-55). A machine
                        // without a key begins no attempt.
                        Some(peer) if peer.guard_dest.is_some() => peer.joint_key.take(),
                        _ => Some(ctx.draw_ephemeral::<PortableBackend>()),
                    };
                    if let Some(ephemeral) = ephemeral {
                        let _ = machine.handle(PeerInput::Give(ephemeral), self.clock, ctx.rng);
                    }
                }
                PeerOutput::Store { seq, sealed } => {
                    if let Some(peer) = self.peers.get_mut(&contact) {
                        peer.sealed = Wiping::new(sealed.to_vec());
                    }
                    self.store_peer(contact, ctx);
                    // The row is durable before any frame of this turn leaves (MSG-16).
                    let _ = machine.handle(PeerInput::Stored(seq), self.clock, ctx.rng);
                }
                PeerOutput::Send { to, frame } => {
                    self.send_exchange_frame(connection(to, machine), frame);
                }
                PeerOutput::KeepAlive { to, .. } => {
                    self.send_keep_alive(connection(to, machine));
                }
                PeerOutput::Install(session) => {
                    let connection = connection_of(&machine.record().address);
                    self.install_session(connection, *session);
                    installed = Some(connection);
                }
                PeerOutput::Tell(PeerEvent::NotRecognised) => self.set_alarm(contact, true),
                PeerOutput::Tell(PeerEvent::Recognised) => self.set_alarm(contact, false),
                // Sessions live and end with their connections.
                PeerOutput::Moved(_)
                | PeerOutput::Use(_)
                | PeerOutput::Retire(_)
                | PeerOutput::Tell(_) => {}
            }
        }
        installed
    }

    fn set_alarm(&mut self, contact: ContactId, has_alarm: bool) {
        if let Some(peer) = self.peers.get_mut(&contact) {
            peer.has_alarm = has_alarm;
        }
    }

    /// Begins the session of an exchange on its connection. The proof must follow soon.
    pub(super) fn install_session(&mut self, connection: LinkConnection, session: LinkSession) {
        let ends = self.clock.plus_ms(EXCHANGE_MS);
        if let Some(line) = self.lines.get_mut(&connection) {
            line.session = Some(LineSession::new(session, self.clock));
            line.ends = ends;
        }
    }

    /// Sends a frame of the exchange, unless it repeats an earlier one.
    pub(super) fn send_exchange_frame(&mut self, connection: LinkConnection, bytes: Vec<u8>) {
        let Some(line) = self.lines.get_mut(&connection) else { return };
        if kind_of(&bytes).is_some_and(|kind| line.mark_sent(kind)) {
            self.outputs.push_back(LinkOutput::Send { connection, bytes });
        }
    }

    /// Handles a frame of a connection.
    pub(super) fn on_frame(&mut self, connection: LinkConnection, bytes: &[u8], ctx: &mut Ctx<'_>) {
        let Some(line) = self.lines.get(&connection) else {
            // The connection was closed here while the frame was on its way.
            return;
        };
        let is_pairing = line.is_pairing;
        let kind = kind_of(bytes);
        if kind.is_some_and(Control::is_kind) {
            return self.on_guard_frame(connection, bytes, ctx);
        }
        // Before READY the guard sends control frames only.
        if line.guard.as_ref().is_some_and(|talk| !talk.is_over) {
            return self.reject_line(connection, ctx);
        }
        match kind {
            Some(RECORD) => self.on_record(connection, bytes, ctx),
            // The other device ends the connection.
            Some(CLOSE) => self.close_line(connection, ctx),
            Some(S1::KIND..=S3::KIND) => self.on_pairing_frame(connection, bytes, ctx),
            Some(_) if is_pairing => self.on_pairing_frame(connection, bytes, ctx),
            Some(kind) => self.on_exchange_frame(connection, kind, bytes, ctx),
            None => self.reject_line(connection, ctx),
        }
    }

    /// Handles a frame of an exchange between paired devices. A frame that leads to nothing closes
    /// the connection, whatever the cause (SEKA-5).
    fn on_exchange_frame(
        &mut self,
        connection: LinkConnection,
        kind: u8,
        bytes: &[u8],
        ctx: &mut Ctx<'_>,
    ) {
        let Some(line) = self.lines.get(&connection) else { return };
        if let Some(session) = &line.session {
            // After a pairing a repeated KE2 may still be on its way. Later there is none.
            if session.is_fresh {
                self.reject_line(connection, ctx);
            }
            return;
        }
        let bound = line.contact;
        let contact = match kind {
            // One exchange on each connection.
            Ke1::KIND if bound.is_none() => self.find_responder(bytes),
            Ke1::KIND => None,
            _ => bound,
        };
        let Some(contact) = contact.filter(|contact| self.is_served(*contact)) else {
            return self.reject_line(connection, ctx);
        };
        if let Some(line) = self.lines.get_mut(&connection) {
            line.contact = Some(contact);
        }
        let input = PeerInput::Datagram { frame: bytes.to_vec(), from: address_of(connection) };
        self.drive_machine(contact, Some(input), ctx);
        let line = self.lines.get(&connection);
        let is_answered = line.is_some_and(|line| match kind {
            Ke1::KIND => line.has_sent(Ke2::KIND),
            _ => line.session.is_some(),
        });
        if is_answered {
            self.on_key_answered(connection, ctx);
        } else {
            self.reject_line(connection, ctx);
        }
    }

    /// Returns the contact whose pairing a KE1 names. The names are readable without a key, so they
    /// only select the key with which the tag is checked.
    fn find_responder(&self, ke1: &[u8]) -> Option<ContactId> {
        let (from, to) = names_of(ke1)?;
        let is_named = |peer: &super::LinkPeer| {
            peer.role == LinkRole::Responder && peer.id == from && Some(peer.own_id) == to
        };
        self.peers.iter().find(|(_, peer)| is_named(peer)).map(|(contact, _)| *contact)
    }

    /// Counts an invalid frame and closes its connection.
    pub(super) fn reject_line(&mut self, connection: LinkConnection, ctx: &mut Ctx<'_>) {
        self.rejected += 1;
        self.close_line(connection, ctx);
    }
}
