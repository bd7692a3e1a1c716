//! The whole state of a peer, for tests.

use mezza_core::{Snapshot, Writer};

use super::Peer;
use crate::suite::LinkSuite;

impl<S: LinkSuite> Snapshot for Peer<S> {
    fn snapshot_into(&self, w: &mut Writer) {
        let Self { settings, store_key, record, seq, flushes, flush_out, current, pending, .. } =
            self;
        let Self {
            ephemeral,
            stage,
            reserved,
            owed,
            session_id,
            begun,
            backoff_ms,
            unanswered,
            ..
        } = self;
        let Self {
            nudged,
            nudged_from,
            nudging,
            nudges,
            confirming,
            answered,
            sessions,
            recognition,
            budget,
            ..
        } = self;
        let Self { used, wall_ms, timers, outputs, .. } = self;
        let parts: [&dyn ErasedSnapshot; 28] = [
            settings,
            store_key,
            record,
            seq,
            flushes,
            flush_out,
            current,
            pending,
            ephemeral,
            stage,
            reserved,
            owed,
            session_id,
            begun,
            backoff_ms,
            unanswered,
            nudged,
            nudged_from,
            nudging,
            nudges,
            confirming,
            answered,
            sessions,
            recognition,
            budget,
            used,
            wall_ms,
            &outputs.len(),
        ];
        for part in parts {
            part.write_erased(w);
        }
        timers.next_deadline().snapshot_into(w);
    }
}

/// Lets one list hold parts of different types.
trait ErasedSnapshot {
    fn write_erased(&self, w: &mut Writer);
}

impl<T: Snapshot> ErasedSnapshot for T {
    fn write_erased(&self, w: &mut Writer) {
        self.snapshot_into(w);
    }
}
