//! Answers of the disk, and the second slot, which gets what the first one has (SEKA-23, SEKA-24).

use alloc::boxed::Box;

use mezza_core::{CryptoRng, Time};

use super::staged::Stage;
use super::{Peer, PeerEvent, PeerOutput, PeerTimer};
use crate::error::LinkError;
use crate::keys::LinkRole;
use crate::limits::{FLUSH_MS, FLUSH_RETRY_MS};
use crate::suite::LinkSuite;

impl<S: LinkSuite> Peer<S> {
    /// Both slots shall hold the record: `copies` writes are missing.
    pub(super) fn flush_soon(&mut self, copies: u8, now: Time) {
        // A write that is out holds the record of before and counts for nothing.
        self.flushes = copies + u8::from(self.flush_out.is_some());
        self.timers.set_deadline(PeerTimer::Flush, Some(now.plus_ms(FLUSH_MS)));
    }

    /// Writes the record into the older slot once more, unless a newer one is on its way there.
    pub(super) fn flush_record(&mut self, rng: &mut dyn CryptoRng) {
        // A staged record is newer: a flush now could overwrite the slot that it is written to
        // (SEKA-24).
        if self.flushes == 0 || self.flush_out.is_some() || self.stage.is_writing() {
            return;
        }
        self.seq += 1;
        let sealed = Box::new(self.record.seal(&self.store_key, self.seq, rng));
        self.flush_out = Some(self.seq);
        self.outputs.push_back(PeerOutput::Store { seq: self.seq, sealed });
    }

    pub(super) fn on_stored(
        &mut self,
        seq: u64,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), LinkError> {
        if self.flush_out == Some(seq) {
            self.flush_out = None;
            self.flushes = self.flushes.saturating_sub(1);
            // Both slots may still be due: an older state must leave the disk within a second
            // (SEKA-23).
            self.flush_record(rng);
            return Ok(());
        }
        // An answer to a write that is not known would commit state that is not durable.
        if self.stage.pending_write() != Some(seq) {
            return Err(LinkError::Unknown);
        }
        self.commit_write(now);
        // One slot has it; the other still holds what was before.
        self.flush_soon(1, now);
        Ok(())
    }

    pub(super) fn store_failed(&mut self, seq: u64, now: Time) -> Result<(), LinkError> {
        if self.flush_out == Some(seq) {
            self.flush_out = None;
        } else if self.stage.pending_write() == Some(seq) {
            // The bytes may be on the disk: the slot is written again with what is true.
            // Dropping the stage leaves memory as it was. The sequence number stays used up
            // (SEKA-24).
            self.stage = Stage::Idle;
            self.flushes = 2;
            if self.record.role == LinkRole::Initiator {
                // Only the initiator retries by itself. A responder waits for the repeat of KE1.
                self.schedule_retry(now);
            }
        } else {
            return Err(LinkError::Unknown);
        }
        self.timers.set_deadline(PeerTimer::Flush, Some(now.plus_ms(FLUSH_RETRY_MS)));
        self.report_event(PeerEvent::StoreFailed);
        Ok(())
    }
}
