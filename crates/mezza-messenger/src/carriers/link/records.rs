//! Records of a session: the proof of the identity keys, bundles, parcels and acknowledgements.
//!
//! ```text
//! type 0 data             ticket u64 | parcel; empty: the first record of a responder
//! type 1 end              empty
//! type 2 acknowledgement  ticket u64, sent once the parcel is stored
//! type 4 bundle           the sender's prekey bundle
//! type 5 proof            H_32("mezza/link proof", export("mezza link id"), role u8, IK_s, IK_r)
//! ```
//!
//! Nothing but the proof counts before it is verified (MSG-142).

use alloc::vec::Vec;

use mezza_core::{Reader, Wiping, Writer, labelled_hash};
use mezza_seka::limits::RETIRE_MS;
use mezza_seka::stream::{RecordType, Records};
use mezza_seka::suite::FrameKey;
use mezza_seka::{LinkRole, PeerInput};
use subtle::ConstantTimeEq;

use super::peer::{BUNDLE_BYTES_MAX, PairedKeys};
use super::{CAPS, Frames, Link, LinkConnection, LinkOutput, OUT_MAX};
use crate::io::{
    Arrival, ArrivalOrigin, CarrierId, ContactId, Ctx, Event, Handover, Leaving, News, Receiving,
};

const BUNDLE: RecordType = RecordType::Other(4);
const PROOF: RecordType = RecordType::Other(5);
/// The label of the key that a session exports for its proofs.
const EXPORT: &str = "mezza link id";
/// Bytes of a proof.
const PROOF_BYTES: usize = 32;

/// Computes the proof that `sender` belongs to the identity keys of the pairing. The exported key is
/// known to both ends of the session only, and differs in each session.
fn compute_proof<F: FrameKey>(
    records: &Records<F>,
    sender: LinkRole,
    sender_ik: &[u8; 32],
    receiver_ik: &[u8; 32],
) -> [u8; PROOF_BYTES] {
    let export = records.session().export_key(EXPORT);
    let role = match sender {
        LinkRole::Initiator => 0,
        LinkRole::Responder => 1,
    };
    labelled_hash("mezza/link proof", &[export.expose(), &[role], sender_ik, receiver_ik])
}

impl Link {
    /// Seals a record and sends it. Returns false without a session, or if the session has no
    /// packet numbers left.
    fn send_record(&mut self, connection: LinkConnection, kind: RecordType, text: &[u8]) -> bool {
        let session = self.lines.get_mut(&connection).and_then(|line| line.session.as_mut());
        let Some(Ok(bytes)) = session.map(|session| session.records.seal(kind, text)) else {
            return false;
        };
        self.outputs.push_back(LinkOutput::Send { connection, bytes });
        true
    }

    /// Sends the last record of a session and the frame after it, so that the other device can tell
    /// an end from a cut (SEKA-47).
    pub(super) fn send_end(&mut self, connection: LinkConnection) {
        if self.send_record(connection, RecordType::End, &[]) {
            let bytes = Records::<Frames>::close().to_vec();
            self.outputs.push_back(LinkOutput::Send { connection, bytes });
        }
    }

    /// Sends an empty record: the first one of a responder, which proves that it has the session.
    pub(super) fn send_keep_alive(&mut self, connection: LinkConnection) {
        self.send_record(connection, RecordType::Data, &[]);
    }

    /// Sends what begins a session on our side: the proof, then our bundle.
    pub(super) fn send_opening(&mut self, connection: LinkConnection) {
        let Some(line) = self.lines.get(&connection) else { return };
        let peer = line.contact.and_then(|contact| self.peers.get(&contact));
        let (Some(session), Some(peer)) = (&line.session, peer) else { return };
        let PairedKeys { own, peer: ik } = &peer.keys;
        let proof = compute_proof(&session.records, peer.role, own, ik);
        self.send_record(connection, PROOF, &proof);
        let bundle = self.own.bundle.clone();
        if !bundle.is_empty() {
            self.send_record(connection, BUNDLE, &bundle);
        }
    }

    /// Sends our new bundle on all connections that are up.
    pub(super) fn send_bundle(&mut self) {
        let bundle = self.own.bundle.clone();
        let up = self.peers.values().filter_map(|peer| peer.up).collect::<Vec<_>>();
        for connection in up {
            self.send_record(connection, BUNDLE, &bundle);
        }
    }

    /// Handles a record.
    pub(super) fn on_record(
        &mut self,
        connection: LinkConnection,
        bytes: &[u8],
        ctx: &mut Ctx<'_>,
    ) {
        let Some(line) = self.lines.get_mut(&connection) else { return };
        let (Some(contact), Some(session)) = (line.contact, &mut line.session) else {
            return self.reject_line(connection, ctx);
        };
        // A record that does not open ends the stream, whatever the cause.
        let Ok((kind, text)) = session.records.open(bytes) else {
            return self.reject_line(connection, ctx);
        };
        let attempt = session.records.session().attempt();
        let is_proven = session.is_proven;
        let was_fresh = core::mem::replace(&mut session.is_fresh, true);
        if !was_fresh {
            self.drive_machine(contact, Some(PeerInput::Fresh(attempt)), ctx);
        }
        match kind {
            RecordType::Data if text.is_empty() => {}
            RecordType::End => self.close_line(connection, ctx),
            PROOF => self.on_proof(connection, contact, &text, ctx),
            // A parcel from an unproven device could belong to another contact (MSG-142).
            _ if !is_proven => self.reject_line(connection, ctx),
            RecordType::Data => self.on_parcel(connection, contact, &text, ctx),
            RecordType::Acknowledgement => self.on_acknowledged(connection, &text, ctx),
            BUNDLE => self.on_bundle(contact, &text, ctx),
            // A type of a later version is skipped.
            RecordType::Other(_) => {}
        }
    }

    fn on_proof(
        &mut self,
        connection: LinkConnection,
        contact: ContactId,
        proof: &[u8],
        ctx: &mut Ctx<'_>,
    ) {
        let line = self.lines.get_mut(&connection);
        let session = line.and_then(|line| line.session.as_mut());
        let (Some(session), Some(peer)) = (session, self.peers.get(&contact)) else { return };
        let PairedKeys { own, peer: ik } = &peer.keys;
        let expected = compute_proof(&session.records, peer.role.other(), ik, own);
        if !bool::from(expected[..].ct_eq(proof)) {
            return self.on_wrong_identity(connection, contact, ctx);
        }
        if core::mem::replace(&mut session.is_proven, true) {
            return;
        }
        self.bring_up(connection, contact, ctx);
    }

    /// Uses a proven session for parcels from now on. The session before it ends.
    fn bring_up(&mut self, connection: LinkConnection, contact: ContactId, ctx: &mut Ctx<'_>) {
        if let Some(line) = self.lines.get_mut(&connection)
            && let Some(session) = &line.session
        {
            line.ends = session.end();
        }
        let Some(peer) = self.peers.get_mut(&contact) else { return };
        let before = peer.up.replace(connection);
        peer.exchanging.take_if(|line| *line == connection);
        peer.on_sign();
        if !core::mem::replace(&mut peer.is_proven, true) {
            self.store_peer(contact, ctx);
        }
        if let Some(line) = before.and_then(|before| self.lines.get_mut(&before)) {
            // Acknowledgements may still be on their way in the old session.
            line.ends = line.ends.min(self.clock.plus_ms(RETIRE_MS));
        } else {
            ctx.effects.show_early(Event::Carrier(CarrierId::LINK));
        }
        self.set_guard_trouble(contact, None, ctx);
        self.on_pairing_proven(connection, contact, ctx);
        ctx.effects.touch(contact);
    }

    fn on_parcel(
        &mut self,
        connection: LinkConnection,
        contact: ContactId,
        text: &[u8],
        ctx: &mut Ctx<'_>,
    ) {
        let Some((ticket, parcel)) = text.split_first_chunk() else {
            return self.reject_line(connection, ctx);
        };
        let number = u64::from_be_bytes(*ticket);
        let carrier = CarrierId::LINK;
        self.news.push_back(News::Arrived(Arrival {
            carrier,
            level: CAPS.level,
            from: ArrivalOrigin::Contact(contact),
            parcel: Wiping::new(parcel.to_vec()),
            outer: Vec::new(),
            ack: Some(Receiving { carrier, place: connection.0, number }),
        }));
    }

    /// Acknowledges a parcel that was handled. The device outputs its rows before this record, so
    /// the parcel is stored when the record leaves.
    pub(super) fn acknowledge(&mut self, ack: Receiving) {
        let ticket = ack.number.to_be_bytes();
        self.send_record(LinkConnection(ack.place), RecordType::Acknowledgement, &ticket);
    }

    fn on_acknowledged(&mut self, connection: LinkConnection, text: &[u8], ctx: &mut Ctx<'_>) {
        let ticket = Reader::decode_exact(text, Reader::read_u64).ok();
        let session = self.lines.get_mut(&connection).and_then(|line| line.session.as_mut());
        let (Some(ticket), Some(session)) = (ticket, session) else {
            return self.reject_line(connection, ctx);
        };
        // A ticket that was never issued on this connection confirms nothing.
        if let Some(parcel) = session.out.remove(&ticket) {
            self.news.push_back(News::Handed { parcel, again: None });
        }
    }

    fn on_bundle(&mut self, contact: ContactId, bundle: &[u8], ctx: &mut Ctx<'_>) {
        // Only its size is checked here. The device checks its signature when it is used (MSG-8).
        if bundle.len() > BUNDLE_BYTES_MAX {
            self.rejected += 1;
            return;
        }
        if let Some(peer) = self.peers.get_mut(&contact) {
            peer.bundle = Some(bundle.to_vec());
            // A note may wait for keys.
            ctx.effects.touch(contact);
        }
    }

    /// Sends a parcel on the connection that is up.
    pub(super) fn send_parcel(&mut self, parcel: &Leaving<'_>) -> Handover {
        let up = self.peers.get(&parcel.to.id).and_then(|peer| peer.up);
        let line = up.and_then(|up| self.lines.get(&up));
        let session = line.and_then(|line| line.session.as_ref());
        let (Some(connection), Some(session)) = (up, session) else { return Handover::Waits };
        // At most 8 parcels without an acknowledgement: a peer that stores nothing gets no more.
        if session.out.len() >= OUT_MAX || self.clock >= session.end() {
            return Handover::Waits;
        }
        self.last_ticket += 1;
        let ticket = self.last_ticket;
        let mut w = Writer::with_capacity(8 + parcel.bytes.len());
        w.put_u64(ticket).put_bytes(parcel.bytes);
        if !self.send_record(connection, RecordType::Data, &w.finish()) {
            return Handover::Waits;
        }
        let line = self.lines.get_mut(&connection);
        if let Some(session) = line.and_then(|line| line.session.as_mut()) {
            session.out.insert(ticket, parcel.id);
        }
        Handover::Out
    }
}
