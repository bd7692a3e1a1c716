//! The line to the entry server: a task of its own sends each frame at its time, even while the
//! node stores something (MIX-74).
//!
//! ```text
//! node --- push ---> Line --- send, at the time of each frame ---> connection
//!                      ^
//!                      +--- on_read: RETURN starts the time of the GET
//! ```

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mezza_core::Time;
use mezza_host::connection::link::{self, FrameSender};
use mezza_mixnet::client::{FrameSchedule, ScheduledFrame, SendTime};
use mezza_mixnet::wire::Frame;
use tokio::sync::Notify;
use tokio::time::sleep;

/// The waiting frames of one connection. Its clock counts from the connection's start and is never
/// set.
pub(super) struct Line {
    began: Instant,
    state: Mutex<LineState>,
    changed: Notify,
}

#[derive(Default)]
struct LineState {
    schedule: FrameSchedule,
    closed: bool,
}

/// The next event of a line once its due frames are sent.
enum Next {
    /// The next frame is due after this time.
    Pause(Duration),
    /// No frame is due: wait for a change of the schedule.
    Change,
    /// The line or its connection ends.
    End,
}

impl Line {
    pub(super) fn new() -> Self {
        let state = Mutex::default();
        Self { began: Instant::now(), state, changed: Notify::new() }
    }

    /// Queues a frame of the node. `now` is the present time on the clock of the frame.
    pub(super) fn push_frame(&self, scheduled: ScheduledFrame, now: Time) {
        let own = self.now();
        let when = match scheduled.when {
            SendTime::At(at) => SendTime::At(own.plus_ms(at.since_ms(now))),
            after @ SendTime::AfterReturn(_) => after,
        };
        self.lock_state().schedule.push_frame(ScheduledFrame { when, ..scheduled }, own);
        self.changed.notify_one();
    }

    /// Notes that a frame was read from the connection.
    pub(super) fn on_read(&self, frame: &Frame) {
        self.lock_state().schedule.on_read(frame, self.now());
        self.changed.notify_one();
    }

    /// Ends the line once the due frames are sent.
    pub(super) fn close(&self) {
        self.lock_state().closed = true;
        self.changed.notify_one();
    }

    /// Sends frames until the line is closed or the connection ends. A full `outbox` means that the
    /// server does not read; the line ends then.
    pub(super) async fn send_frames(&self, outbox: FrameSender) {
        loop {
            let changed = self.changed.notified();
            match self.send_due(&outbox) {
                Next::Pause(pause) => tokio::select! { () = changed => {} () = sleep(pause) => {} },
                Next::Change => changed.await,
                Next::End => return,
            }
        }
    }

    /// Sends the due frames. Returns the next event.
    fn send_due(&self, outbox: &FrameSender) -> Next {
        let mut state = self.lock_state();
        let now = self.now();
        while let Some(frame) = state.schedule.pop_due(now) {
            let sent =
                link::make_parcel(frame).is_some_and(|parcel| outbox.try_send(parcel).is_ok());
            if !sent {
                // The server does not read, or the connection is closed.
                return Next::End;
            }
        }
        if state.closed {
            return Next::End;
        }
        match state.schedule.deadline() {
            Some(due) => Next::Pause(Duration::from_millis(due.since_ms(now))),
            None => Next::Change,
        }
    }

    fn now(&self) -> Time {
        Time::from_ms(self.began.elapsed().as_millis() as u64)
    }

    fn lock_state(&self) -> MutexGuard<'_, LineState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use mezza_mixnet::wire::FrameBody;
    use mezza_mixnet::{RoundId, Service};
    use tokio::sync::mpsc;
    use tokio::time::timeout;

    const CALL: RoundId = RoundId { service: Service::Call, round: 7 };
    const LONG: Duration = Duration::from_secs(60);

    fn scheduled(when: SendTime, body: FrameBody) -> ScheduledFrame {
        ScheduledFrame { when, frame: Frame::Round(CALL, body) }
    }

    #[tokio::test]
    async fn mix_74_the_line_sends_by_its_own_timer() {
        let (line, (outbox, mut parcels)) = (Arc::new(Line::new()), mpsc::channel(8));
        let sender = Arc::clone(&line);
        let task = tokio::spawn(async move { sender.send_frames(outbox).await });
        let now = Time::from_ms(5_000_000);
        line.push_frame(scheduled(SendTime::AfterReturn(30), FrameBody::Fetch { bucket: 1 }), now);
        let submit = || FrameBody::Submit(vec![1; 40]);
        line.push_frame(scheduled(SendTime::At(now), submit()), now);
        line.push_frame(scheduled(SendTime::At(now.plus_ms(40)), submit()), now);
        // The node does nothing more: the SUBMIT received next is not the late one.
        assert!(timeout(LONG, parcels.recv()).await.unwrap().is_some());
        assert!(line.now() >= Time::from_ms(40) && parcels.try_recv().is_err());
        let read_at = line.now();
        line.on_read(&Frame::Round(CALL, FrameBody::Return { users: 1, replies: Vec::new() }));
        assert!(timeout(LONG, parcels.recv()).await.unwrap().is_some());
        assert!(line.now() >= read_at.plus_ms(30));
        line.close();
        timeout(LONG, task).await.unwrap().unwrap();
        assert!(parcels.recv().await.is_none(), "it hung up");
    }
}
