//! Replies of a round: reading them, and the effects of missed rounds.

use alloc::vec::Vec;

use mezza_core::{Backend, Time};

use super::rounds::{RoundState, Slot, SlotContents};
use super::{Client, ClientError, Output, PendingWrite};
use crate::client::DropResult;
use crate::contact::Intent;
use crate::onion::open_reply;
use crate::service::reply_bytes;
use crate::stream::{CellOutcome, ReceivedMessage};
use crate::wire::Cell;
use crate::{RoundId, Service};

impl<B: Backend> Client<B> {
    /// Handles RETURN: reads the replies, or requests the bucket.
    pub(super) fn on_return(
        &mut self,
        id: RoundId,
        users: u32,
        replies: &[u8],
        now: Time,
    ) -> Result<(), ClientError> {
        let round = self.rounds.get(&id).ok_or(ClientError::UnknownRound)?;
        let RoundState::Sent { back, .. } = &round.stage else {
            // A RETURN of a round that was not submitted would settle pieces that no cell carried.
            return Err(ClientError::Unexpected);
        };
        let size = reply_bytes(round.mixes.len());
        let due = if id.service.has_replies() { back.len() * size } else { 0 };
        // Slots and mixes fix the size. With another size replies cannot be assigned to slots.
        if replies.len() != due {
            return Err(ClientError::Malformed);
        }
        if !id.service.has_replies() {
            self.await_bucket(id, now);
            return Ok(());
        }
        let interval_ms = round.policy.interval_ms;
        let hash = round.checked.settings().config;
        // Protection is counted before the replies are read, because a garbled reply does not undo
        // the return.
        self.on_round_returned(users, interval_ms, hash, now);
        let stage = self.rounds.remove(&id).map(|round| round.stage);
        let Some(RoundState::Sent { back, content: SlotContents::Drops(slots) }) = stage else {
            return Ok(());
        };
        for ((slot, keys), reply) in slots.into_iter().zip(&back).zip(replies.chunks_exact(size)) {
            let cell = open_reply(self.setup.kernel, keys, reply.to_vec());
            let Slot { access, served } = slot;
            // A layer that does not open counts as garbage: a mix changed the reply.
            let answer = cell.map_or(DropResult::Garbage, |cell| access.read_reply::<B>(&cell));
            if let Some((line, seq)) = served {
                self.on_reply(line, seq, answer, now);
            }
        }
        Ok(())
    }

    /// Handles a round that is over for us: it was missed, or nothing more arrives.
    pub(super) fn miss_round(&mut self, id: RoundId) {
        let stage = self.rounds.remove(&id).map(|round| round.stage);
        let Some(RoundState::Sealed { content, .. } | RoundState::Sent { content, .. }) = stage
        else {
            return;
        };
        match content {
            SlotContents::Drops(slots) => {
                for (line, seq) in slots.into_iter().filter_map(|slot| slot.served) {
                    if let Some(line) = self.contacts.find_line(line) {
                        // Whether the cell reached the partner is unknown, so its piece is the
                        // first to be sent again.
                        line.sender.settle_piece(seq, CellOutcome::Missed);
                    }
                }
            }
            SlotContents::Invite(Some(waiting)) => self.invites.put_off(*waiting, id.round),
            // The call is repeated later, whether it was in the round or not (MIX-42).
            SlotContents::Call(..) | SlotContents::Invite(None) => {}
        }
    }

    /// Handles the reply to one slot.
    pub(super) fn on_reply(&mut self, line: u32, seq: Option<u32>, answer: DropResult, now: Time) {
        let Some((id, contact)) = self.contacts.by_line(line) else { return };
        let outcome = match &answer {
            DropResult::Absent => CellOutcome::Absent,
            DropResult::Garbage => CellOutcome::Garbage,
            DropResult::Met(_) => CellOutcome::Met,
        };
        if let Some(own) = contact.line_mut(line) {
            // Cells without data also count: later meetings decide when a sent piece seems lost.
            own.sender.settle_piece(seq, outcome);
        }
        let DropResult::Met(cell) = answer else {
            // Garbage proves nothing about the partner, so only our own returning cell counts as
            // absence.
            if outcome == CellOutcome::Absent {
                contact.absent = contact.absent.saturating_add(1);
                let leaves = contact.has_left();
                self.outputs.push_back(Output::Absent(id, contact.absent));
                // The partner may rest by its own count of 600 s, and only a call brings it back
                // (MIX-82).
                if leaves && self.may_repeat(Service::Call, now) {
                    self.queue_call(id, Intent::Talk);
                }
            }
            return;
        };
        let changed = contact.on_meeting(line);
        contact.record_meeting(now);
        self.outputs.push_back(Output::Met(id));
        // A muted partner must not keep itself served by sending data.
        let theirs = !contact.muted && cell.as_ref().is_ok_and(|cell| cell.piece.is_some());
        let data = seq.is_some() || theirs;
        if data && contact.is_active() {
            contact.renew_activity(now);
        }
        if changed {
            // Pieces sealed under the old root must not be cut again after a restart.
            self.take_snapshot(now);
        }
        if let Ok(cell) = cell {
            self.on_cell(line, &cell, now);
        }
        if let Some(own) = self.contacts.find_line(line) {
            let handed = own.sender.take_handed();
            let acked = own.sender.take_acked();
            self.outputs.extend(handed.into_iter().map(Output::Handed));
            self.outputs.extend(acked.into_iter().map(Output::Acked));
        }
    }

    /// Handles the partner's cell. A cell that acknowledges pieces that were never sent is not
    /// read, because its numbers are from another copy of this client.
    fn on_cell(&mut self, line: u32, cell: &Cell, now: Time) {
        let Some((id, contact)) = self.contacts.by_line(line) else { return };
        let Some(own) = contact.line_mut(line) else { return };
        // The numbers belong to another state. Reading on would mix two streams.
        if !own.sender.apply_ack(cell.ack, cell.sack) {
            self.outputs.push_back(Output::Torn(id));
            return;
        }
        if own.is_behind(cell.ack) {
            self.outputs.push_back(Output::Torn(id));
        }
        let mut messages = Vec::new();
        if let Some(piece) = cell.piece.as_ref().filter(|_| own.receiver.wants_piece(cell.seq)) {
            match own.receiver.receive_piece(cell.seq, piece) {
                Ok(whole) => {
                    // The piece waits for the next record. It is acknowledged once that record is
                    // durable (MIX-33).
                    self.unrecorded.push_back((line, cell.seq));
                    messages = whole;
                }
                // The stream stays broken until the pair has a new root, because its positions no
                // longer agree.
                Err(_) => self.outputs.push_back(Output::Broken(id)),
            }
        }
        if cell.leaving {
            contact.deactivate(now);
        }
        self.hand_out(id, line, messages);
    }

    /// Passes complete messages to the messenger. They are acknowledged once they are durable
    /// there.
    pub(super) fn hand_out(&mut self, contact: u32, line: u32, messages: Vec<ReceivedMessage>) {
        for ReceivedMessage { last, bytes } in messages {
            let seq = self.await_write(PendingWrite::Message(line, last));
            // Root and last piece identify the message, so a repeated delivery has the same number.
            let number = (u64::from(line) << 32) + u64::from(last);
            self.outputs.push_back(Output::Received { seq, contact, number, bytes });
        }
    }
}
