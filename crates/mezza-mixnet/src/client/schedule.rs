//! The frames that wait at the line to the entry until their time has come.
//!
//! The time of a frame tells nothing about its sender only if nothing that the sender does can move it.
//! So the client draws the time of every frame when a round is armed, hands the frame over ahead of
//! its time, and the task of the line sends it, whatever else the program is doing (MIX-74).
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

/// GETs that may wait for a RETURN: four rounds of two services under way, and as many that were missed
/// without a word.
const GETS_MAX: usize = 16;

/// When a frame leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendTime {
    /// At this time. A SUBMIT whose time has passed is dropped, any other frame leaves at once.
    At(Time),
    /// A delay in milliseconds after RETURN of the same round was read from the line.
    AfterReturn(u64),
}

snapshot!(enum SendTime [At(a), AfterReturn(a)]);

/// A frame for the entry with its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduledFrame {
    /// When it leaves.
    pub when: SendTime,
    /// The frame.
    pub frame: Frame,
}

snapshot!(struct ScheduledFrame { when, frame });

impl ScheduledFrame {
    /// The round that the frame belongs to.
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

/// The frames of one connection that wait. It belongs to the task of the line, and goes with it.
#[derive(Debug, Default)]
pub struct FrameSchedule {
    waiting: VecDeque<ScheduledFrame>,
}

impl FrameSchedule {
    /// Takes a frame.
    pub fn push_frame(&mut self, scheduled: ScheduledFrame, now: Time) {
        let late = matches!(scheduled.when, SendTime::At(at) if at <= now);
        // A SUBMIT that leaves late would show that its sender was busy.
        if late && scheduled.is_submit() {
            return;
        }
        let waits = |other: &ScheduledFrame| matches!(other.when, SendTime::AfterReturn(_));
        // Rounds that were missed without a word have no RETURN: the oldest go.
        if self.waiting.iter().filter(|other| waits(other)).count() >= GETS_MAX
            && let Some(oldest) = self.waiting.iter().position(waits)
        {
            self.waiting.remove(oldest);
        }
        // Any other late frame leaves at once: a late request for configs is no sign of a note.
        self.waiting.push_back(scheduled);
    }

    /// Notes that a frame of the entry was read.
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
            // The round is over for us: whether the client knows that already must not show.
            FrameBody::Missed(_) => self.waiting.retain(|waits| waits.round_id() != Some(*id)),
            _ => {}
        }
    }

    /// Returns the next frame whose time has come.
    pub fn pop_due(&mut self, now: Time) -> Option<Frame> {
        let due = self.waiting.iter().enumerate().filter_map(|(place, waits)| match waits.when {
            SendTime::At(at) if at <= now => Some((at, place)),
            _ => None,
        });
        // Frames leave in the order of their times, and of their arrival where times are equal.
        let (_, place) = due.min()?;
        self.waiting.remove(place).map(|scheduled| scheduled.frame)
    }

    /// Returns the time of the next frame.
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
