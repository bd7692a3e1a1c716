//! A device that is locked: its rounds go on by the same line (MIX-78).

use mezza_mixnet::client::{LiveLine, SendTime};

use super::*;

/// The rows that a device left on its disk.
type Rows = BTreeMap<u64, Vec<u8>>;

impl Desk {
    fn take_line(&mut self) -> LiveLine {
        let fresh = Client::new(setup(self.config.hash(), self.floor), self.now);
        std::mem::replace(&mut self.client, fresh).into_live_line(self.now)
    }

    /// Locks the device; what its disk has stays as it is.
    fn lock(&mut self) -> Rows {
        let line = self.take_line();
        self.client = Client::idle(line, portable(), self.now, &mut self.rng);
        std::mem::take(&mut self.rows)
    }

    /// Unlocks the device. Returns true if it goes on by the line.
    fn unlock(&mut self, rows: Rows) -> bool {
        let line = self.take_line();
        self.rows = rows;
        let stored = self.rows.iter().map(|(seq, row)| (*seq, row.as_slice()));
        let setup = setup(self.config.hash(), self.floor);
        let client = Client::restore(setup, stored, self.now, &mut self.rng);
        self.client = client.expect("what a client wrote");
        let attached = self.client.attach_line(line, self.now, &mut self.rng);
        self.drain();
        attached
    }

    /// The frames of rounds with their times: true is a SUBMIT.
    fn times(&self) -> Vec<(RoundId, bool, SendTime)> {
        let frames = self.frames().into_iter().filter_map(|scheduled| match &scheduled.frame {
            Frame::Round(id, body) => {
                Some((*id, matches!(body, FrameBody::Submit(_)), scheduled.when))
            }
            _ => None,
        });
        frames.collect()
    }

    fn dials_or_ends(&self) -> bool {
        self.news.iter().any(|news| matches!(news, Output::Dial { .. } | Output::Close))
    }
}

#[test]
fn mix_78_a_lock_moves_no_frame_of_a_round() {
    let run = |locks: bool| {
        let mut desk = Desk::joined(config(3), NoiseFloor::None);
        desk.until(OPEN.plus_ms(4_000));
        for service in [Service::Conversation, Service::Call] {
            desk.announce(RoundId { service, round: 101 }, |_| {});
        }
        let rows = locks.then(|| desk.lock());
        desk.until(OPEN.plus_ms(5_500));
        if let Some(rows) = rows {
            assert!(desk.unlock(rows));
        }
        desk.until(OPEN.plus_ms(9_000));
        assert!(!desk.dials_or_ends());
        let mut times = desk.times();
        times.sort_by_key(|(id, submits, _)| (*id, *submits));
        times
    };
    let times = run(false);
    assert_eq!(times.len(), 3, "two SUBMIT, one GET");
    assert_eq!(run(true), times);
}

#[test]
fn mix_78_the_unlocked_device_goes_on_by_the_same_line() {
    let mut desk = Desk::joined(config(3), NoiseFloor::None);
    (101..104).for_each(|round| desk.talk(round, 200));
    let used = desk.client.ledger().expect("a config is known").used_rounds(Service::Conversation);
    let rows = desk.lock();
    desk.news.clear();
    (104..107).for_each(|round| desk.talk(round, 200));
    let submits = desk.times().into_iter().filter(|(_, submits, _)| *submits);
    assert_eq!(submits.count(), 3, "a locked device takes part");
    assert!(!desk.dials_or_ends() && desk.client.stream_marks().next().is_none());
    desk.news.clear();
    assert!(desk.unlock(rows));
    let joined = |news: &Output| matches!(news, Output::Joined);
    assert_eq!(desk.news.iter().filter(|news| joined(news)).count(), 1);
    assert_eq!(desk.client.last_sealed(Service::Conversation), Some(106));
    assert!(desk.client.is_returning());
    // A round of the time in which it was locked is not sealed again.
    desk.announce(RoundId { service: Service::Conversation, round: 106 }, |_| {});
    let old = |news: &Output| matches!(news, Output::Unfit(_, SettingsError::Old));
    assert!(desk.news.iter().any(old));
    desk.talk(107, 200);
    assert!(!desk.dials_or_ends());
    let ledger = desk.client.ledger().expect("a config is known");
    assert_eq!(ledger.used_rounds(Service::Conversation), used, "idle rounds cost nothing");
}

#[test]
fn mix_78_a_locked_device_dials_again_when_its_line_is_lost() {
    let mut desk = Desk::joined(config(3), NoiseFloor::None);
    let rows = desk.lock();
    desk.input(Input::Down).expect("it was up");
    desk.connect(true);
    desk.welcome(desk.config.hash());
    desk.talk(105, 200);
    assert!(desk.unlock(rows));
    desk.talk(106, 200);
    assert!(!desk.dials_or_ends());
}

#[test]
fn mix_78_the_line_of_another_network_is_not_gone_on_with() {
    let mut desk = Desk::joined(config(3), NoiseFloor::None);
    let mut elsewhere = Desk::joined(config(2), NoiseFloor::None);
    let line = elsewhere.take_line();
    assert!(!desk.client.attach_line(line, desk.now, &mut desk.rng));
    desk.talk(105, 200);
}
