//! After the handshake: records and the end of a link go through, under the rule of records.

use super::session::{Session, Stage};
use super::{CloseReason, Guard, GuardConnection, GuardSide, Output, StrictPolicy};
use crate::rule::FrameRuleError;
use crate::wire::{CLOSE, RECORD, VERSION};

/// Returns true if a frame is a record of an allowed length, or the end of a link.
pub(super) fn is_record(frame: &[u8], lengths: &[u16]) -> bool {
    match frame {
        [VERSION, RECORD, high, low, body @ ..] => {
            let len = u16::from_be_bytes([*high, *low]);
            // Few lengths, because each choice of one is a channel of the audit.
            usize::from(len) == body.len() && lengths.contains(&len)
        }
        [VERSION, CLOSE] => true,
        _ => false,
    }
}

impl Session {
    /// The handshake is over. Nothing secret is left; if no answer is owed, the driver copies records.
    pub(super) fn begin_forwarding(&mut self, guard: &mut Guard, conn: GuardConnection) {
        self.stage = Stage::Forward;
        // The control keys end with the handshake, so a link needs little memory (GUARD-36).
        self.talk = None;
        guard.sessions.clear_deadline(conn);
        // While an answer is owed, the guard has to see the first record itself (GUARD-35).
        if !self.owed.answer {
            guard.out.push_back(Output::Pump(conn));
        }
    }

    /// A record on its way to a side. The first one that comes in answers the last MAC that went out.
    pub(super) fn pass_record(
        &mut self,
        guard: &mut Guard,
        conn: GuardConnection,
        to: GuardSide,
        frame: &[u8],
    ) -> Result<(), CloseReason> {
        if !is_record(frame, guard.settings.record_lengths) {
            if guard.settings.policy == StrictPolicy::Report {
                return self.pass_uncovered(guard, conn, to, frame);
            }
            return Err(CloseReason::Frame(FrameRuleError::Form));
        }
        guard.out.push_back(Output::Send(conn, to, frame.to_vec()));
        // The first RECORD that comes in is the accepting answer for t3 and tag_R (GUARD-35).
        if to == GuardSide::Inside && self.owed.answer && frame.get(1) == Some(&RECORD) {
            self.owed.answer = false;
            guard.out.push_back(Output::Pump(conn));
        }
        Ok(())
    }
}
