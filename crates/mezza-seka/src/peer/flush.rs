//! Results of writes, and the second slot, which gets a copy of the first (SEKA-23, SEKA-24).

use alloc::boxed::Box;

use mezza_core::{CryptoRng, Time};

use super::staged::Stage;
use super::{Peer, PeerEvent, PeerOutput, PeerTimer};
use crate::error::LinkError;
use crate::keys::LinkRole;
use crate::limits::{FLUSH_MS, FLUSH_RETRY_MS};
use crate::suite::LinkSuite;

impl<S: LinkSuite> Peer<S> {
    /// Schedules `copies` writes, so that both slots hold the record.
    pub(super) fn flush_soon(&mut self, copies: u8, now: Time) {
        // A write in progress contains the older record and does not count.
        self.flushes = copies + u8::from(self.flush_out.is_some());
        self.timers.set_deadline(PeerTimer::Flush, Some(now.plus_ms(FLUSH_MS)));
    }

    /// Writes the record into the older slot, unless a newer record is being written there.
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
            // A second flush may still be due: an older state must leave the disk within a second
            // (SEKA-23).
            self.flush_record(rng);
            return Ok(());
        }
        // A result for an unknown write would commit state that is not durable.
        if self.stage.pending_write() != Some(seq) {
            return Err(LinkError::Unknown);
        }
        self.commit_write(now);
        // One slot has the record; the other still holds the older one.
        self.flush_soon(1, now);
        Ok(())
    }

    pub(super) fn store_failed(&mut self, seq: u64, now: Time) -> Result<(), LinkError> {
        if self.flush_out == Some(seq) {
            self.flush_out = None;
        } else if self.stage.pending_write() == Some(seq) {
            // The bytes may be on the disk, so the slot is written again with the valid record.
            // Dropping the stage leaves memory unchanged. The sequence number stays used up
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
