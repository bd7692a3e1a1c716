//! The times that a client draws for its frames (MIX-74).

use mezza_mixnet::client::SendTime;
use mezza_mixnet::wire::MissedReason;

use super::*;

const TALK: RoundId = RoundId { service: Service::Conversation, round: 100 };

impl Desk {
    /// Hears settings that wait for `age_ms` already, and returns the time of the SUBMIT.
    fn submit_time(&mut self, id: RoundId, age_ms: u64) -> Time {
        let settings = self.settings(id);
        let signatures = (50..53).map(|n| settings.sign(&signer(n))).collect();
        let closes_in_ms = settings.collect_ms + 1_000;
        let announced = SignedSettings { signatures, settings, closes_in_ms };
        let frame = Frame::Round(id, FrameBody::Settings(announced));
        self.news.clear();
        self.input(Input::Frame { frame, age_ms }).expect("good settings");
        self.until(self.now.plus_ms(5_000));
        let is_submit = |scheduled: &&ScheduledFrame| {
            matches!(scheduled.frame, Frame::Round(_, FrameBody::Submit(_)))
        };
        let when = self.frames().into_iter().find(is_submit).map(|scheduled| scheduled.when);
        self.round(id, FrameBody::Missed(MissedReason::Aborted)).expect("it submitted");
        match when {
            Some(SendTime::At(at)) => at,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn mix_74_a_submit_leaves_at_its_time_in_the_window() {
    let mut desk = Desk::joined(config(3), NoiseFloor::None);
    let mut after = [100, 101, 102, 103, 104, 105, 106, 107, 108, 109].map(|round| {
        let open = OPEN.plus_ms(5_000 * (round - 100));
        desk.until(open.minus_ms(1_000));
        let at = desk.submit_time(RoundId { round, ..TALK }, 0);
        at.as_ms().checked_sub(open.as_ms()).expect("not before the round opens")
    });
    assert!(after.iter().all(|ms| (250..=3_750).contains(ms)), "{after:?}");
    after.sort_unstable();
    assert!(after[9] - after[0] > 1_000, "drawn: {after:?}");
}

/// A client that was busy when settings came draws the same times as one that was not.
#[test]
fn mix_74_times_count_from_when_a_frame_was_read() {
    let time = |age_ms| {
        let mut desk = Desk::joined(config(3), NoiseFloor::None);
        desk.until(OPEN.minus_ms(1_000 - age_ms));
        desk.submit_time(TALK, age_ms)
    };
    assert_eq!(time(0), time(900));
}

#[test]
fn mix_74_get_config_leaves_one_to_three_seconds_after_it_was_missed() {
    let mut desk = Desk::joined(config(3), NoiseFloor::None);
    let mut delays = [(); 60].map(|()| {
        desk.until(desk.now.plus_ms(61_000));
        desk.news.clear();
        if desk.input(Input::Down).is_ok() {
            desk.connect(true);
        }
        let welcome = Frame::Welcome { head: [9; 32], now: desk.now };
        desk.input(Input::Frame { frame: welcome, age_ms: 400 }).expect("it said hello");
        let read = desk.now.minus_ms(400);
        let ask = desk.frames().into_iter().find_map(|scheduled| match scheduled {
            ScheduledFrame { when: SendTime::At(at), frame: Frame::FetchConfig { .. } } => {
                Some(*at)
            }
            _ => None,
        });
        ask.expect("a config is missing").since_ms(read)
    });
    assert!(delays.iter().all(|ms| (1_000..=3_000).contains(ms)), "{delays:?}");
    delays.sort_unstable();
    assert!(delays[5] < 1_600 && delays[54] > 2_400, "uniform: {delays:?}");
}

/// A dial is handed over two seconds ahead, so that nothing that is stored meanwhile moves it.
#[test]
fn mix_74_a_dial_leaves_at_the_time_that_was_drawn() {
    let mut desk = Desk::joined(config(3), NoiseFloor::None);
    let mut waits = [(); 100].map(|()| {
        desk.news.clear();
        let lost = desk.now;
        desk.input(Input::Down).expect("it was up");
        while desk.news.is_empty() {
            let next = desk.client.deadline().expect("it tries again");
            desk.until(next);
        }
        let Some(Output::Dial { at, .. }) = desk.news.pop() else { panic!("a dial comes first") };
        let handed = desk.now;
        assert!(at.since_ms(handed) <= 2_000 && at >= handed);
        desk.until(at);
        desk.input(Input::Up { trusted: true }).expect("it dialled");
        desk.welcome(desk.config.hash());
        at.since_ms(lost)
    });
    waits.sort_unstable();
    assert!(waits[10] < 1_500 && waits[89] > 3_500 && waits[99] <= 5_000, "{waits:?}");
}
