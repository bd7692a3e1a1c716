//! The frames that wait at the line to the entry server until their time.
//!
//! The time of a frame reveals nothing about its sender only if no action of the sender can move
//! it. The client therefore draws the times of all frames when a round is armed, and hands the
//! frames over ahead of their time. The task of the line sends them, whatever else the program does
//! (MIX-74).
//!
//! ```text
//! client -- ScheduledFrame --> FrameSchedule -- its time has come --> entry
//!                                    ^
//!                 RETURN was read ---+--- MISSED was read
//!                 (the GET waits)         (frames of the round go)
//! ```

use alloc::collections::VecDeque;

use mezza_core::{Time, snapshot};

use crate::RoundId;
use crate::wire::{Frame, FrameBody};

/// Most GETs that wait for a RETURN: those of four rounds of two services in progress, and as many
/// of rounds that were missed without a report.
const GETS_MAX: usize = 16;

/// The time at which a frame is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendTime {
    /// At this time. A SUBMIT whose time has passed is dropped, any other frame is sent at once.
    At(Time),
    /// This number of milliseconds after RETURN of the same round was read from the line.
    AfterReturn(u64),
}

snapshot!(enum SendTime [At(a), AfterReturn(a)]);

/// A frame for the entry server with its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduledFrame {
    /// The time of sending.
    pub when: SendTime,
    /// The frame to send.
    pub frame: Frame,
}

snapshot!(struct ScheduledFrame { when, frame });

impl ScheduledFrame {
    /// Returns the round of the frame, or `None`.
    const fn round_id(&self) -> Option<RoundId> {
        match &self.frame {
            Frame::Round(id, _) => Some(*id),
            _ => None,
        }
    }

    const fn is_submit(&self) -> bool {
        matches!(&self.frame, Frame::Round(_, FrameBody::Submit(_)))
    }
}

/// The waiting frames of one connection. The task of the line owns them and drops them with the
/// connection.
#[derive(Debug, Default)]
pub struct FrameSchedule {
    waiting: VecDeque<ScheduledFrame>,
}

impl FrameSchedule {
    /// Adds a frame.
    pub fn push_frame(&mut self, scheduled: ScheduledFrame, now: Time) {
        let late = matches!(scheduled.when, SendTime::At(at) if at <= now);
        // A SUBMIT that is sent late would show that its sender was busy.
        if late && scheduled.is_submit() {
            return;
        }
        let waits = |other: &ScheduledFrame| matches!(other.when, SendTime::AfterReturn(_));
        // Rounds that were missed without a report have no RETURN, so their GETs are dropped,
        // oldest first.
        if self.waiting.iter().filter(|other| waits(other)).count() >= GETS_MAX
            && let Some(oldest) = self.waiting.iter().position(waits)
        {
            self.waiting.remove(oldest);
        }
        // Any other late frame is sent at once: a late request for configs does not indicate a
        // note.
        self.waiting.push_back(scheduled);
    }

    /// Records that a frame of the entry server was read.
    pub fn on_read(&mut self, frame: &Frame, now: Time) {
        let Frame::Round(id, body) = frame else { return };
        match body {
            FrameBody::Return { .. } => {
                let get = self.waiting.iter_mut().filter(|waits| waits.round_id() == Some(*id));
                for waits in get {
                    if let SendTime::AfterReturn(delay_ms) = waits.when {
                        waits.when = SendTime::At(now.plus_ms(delay_ms));
                    }
                }
            }
            // The round is over for us. Its frames are dropped even if the client has not handled
            // MISSED yet.
            FrameBody::Missed(_) => self.waiting.retain(|waits| waits.round_id() != Some(*id)),
            _ => {}
        }
    }

    /// Removes and returns the next frame whose time has come.
    pub fn pop_due(&mut self, now: Time) -> Option<Frame> {
        let due = self.waiting.iter().enumerate().filter_map(|(place, waits)| match waits.when {
            SendTime::At(at) if at <= now => Some((at, place)),
            _ => None,
        });
        // Frames are sent in the order of their times, and for equal times in the order of their
        // arrival.
        let (_, place) = due.min()?;
        self.waiting.remove(place).map(|scheduled| scheduled.frame)
    }

    /// Returns the time of the next frame, or `None`.
    pub fn deadline(&self) -> Option<Time> {
        let times = self.waiting.iter().filter_map(|waits| match waits.when {
            SendTime::At(at) => Some(at),
            // Only a RETURN gives this frame its time, so it must not wake the task.
            SendTime::AfterReturn(_) => None,
        });
        times.min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Service;
    use crate::wire::MissedReason;
    use alloc::vec::Vec;

    const CALL: RoundId = RoundId { service: Service::Call, round: 7 };

    const fn ms(ms: u64) -> Time {
        Time::from_ms(ms)
    }

    fn get(round: u64) -> ScheduledFrame {
        let id = RoundId { round, ..CALL };
        let frame = Frame::Round(id, FrameBody::Fetch { bucket: 1 });
        ScheduledFrame { when: SendTime::AfterReturn(250), frame }
    }

    fn submit(at: u64) -> ScheduledFrame {
        let frame = Frame::Round(CALL, FrameBody::Submit(Vec::new()));
        ScheduledFrame { when: SendTime::At(ms(at)), frame }
    }

    fn returned(id: RoundId) -> Frame {
        Frame::Round(id, FrameBody::Return { users: 1, replies: Vec::new() })
    }

    #[test]
    fn mix_74_a_frame_leaves_at_its_time_and_a_submit_not_after_it() {
        let mut line = FrameSchedule::default();
        line.push_frame(submit(500), ms(100));
        line.push_frame(submit(300), ms(100));
        assert_eq!((line.deadline(), line.pop_due(ms(299))), (Some(ms(300)), None));
        assert!(line.pop_due(ms(500)).is_some() && line.pop_due(ms(500)).is_some());
        line.push_frame(submit(500), ms(500));
        assert_eq!(line.pop_due(ms(900)), None, "its time had passed");
        let ask = Frame::FetchConfig { from: [0; 32] };
        let when = SendTime::At(ms(400));
        line.push_frame(ScheduledFrame { when, frame: ask.clone() }, ms(900));
        assert_eq!(line.pop_due(ms(900)), Some(ask), "a late question is no sign of a note");
    }

    #[test]
    fn mix_74_a_get_waits_for_its_return_and_goes_with_its_round() {
        let mut line = FrameSchedule::default();
        line.push_frame(get(7), ms(0));
        line.push_frame(get(8), ms(0));
        assert_eq!((line.deadline(), line.pop_due(ms(9_000))), (None, None));
        line.on_read(&returned(CALL), ms(9_000));
        line.on_read(&returned(CALL), ms(9_100));
        assert_eq!(line.deadline(), Some(ms(9_250)), "a RETURN that is repeated moves nothing");
        assert_eq!(line.pop_due(ms(9_250)), Some(get(7).frame));
        let missed =
            Frame::Round(RoundId { round: 8, ..CALL }, FrameBody::Missed(MissedReason::Late));
        line.on_read(&missed, ms(9_300));
        line.on_read(&returned(RoundId { round: 8, ..CALL }), ms(9_400));
        assert_eq!(line.pop_due(ms(99_000)), None);
    }

    #[test]
    fn mix_74_gets_without_a_return_are_bounded() {
        let mut line = FrameSchedule::default();
        (0..1_000).for_each(|round| line.push_frame(get(round), ms(0)));
        assert_eq!(line.waiting.len(), GETS_MAX);
        line.on_read(&returned(RoundId { round: 999, ..CALL }), ms(1));
        assert_eq!(line.deadline(), Some(ms(251)), "the newest stay");
    }
}
