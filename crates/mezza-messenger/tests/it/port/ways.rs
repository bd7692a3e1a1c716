//! Which of several ways is taken, seen with a carrier that says what the test wants.

use mezza_messenger::evidence::NoteState;
use mezza_messenger::policy::Fallback;
use mezza_messenger::{PersonError, RecordKind};

use super::*;

/// The toy, and the relay where it does not go.
fn toy_first() -> Policy {
    let fallback = Fallback::Listed;
    Policy { carriers: vec![TOY, CarrierId::RELAY], fallback, ..Policy::default() }
}

impl Pair {
    fn state(&self, who: usize, client: u8) -> NoteState {
        let note = self.devices[who].find_sent(&[client; 16]).expect("accepted");
        self.devices[who].note(note, START).expect("there").state
    }

    pub fn rows(&self, who: usize, kind: RecordKind) -> usize {
        let rows = self.devices[who].records();
        rows.iter()
            .filter(|row| matches!(row, RecordChange::Put { kind: k, .. } if *k == kind))
            .count()
    }

    /// A parcel that seems to come from the other one, by the toy.
    fn brings(&mut self, who: usize, parcel: &[u8]) {
        self.toys.push_back((who, parcel.to_vec()));
        self.settle();
    }
}

#[test]
fn msg_21_what_has_used_up_its_budget_does_not_go_by_the_next_carrier() {
    let mut pair = Pair::friends();
    pair.goes_by(0, toy_first());
    let before = pair.puts.len();
    pair.knobs[0].waits.set(Some(WaitReason::Budget));
    pair.say(0, 3, "when there is a round for it");
    assert_eq!(
        (pair.state(0, 3), pair.puts.len()),
        (NoteState::Queued(WaitReason::Budget), before)
    );
    // What is down for any other reason is gone around.
    pair.knobs[0].waits.set(Some(WaitReason::NoCarrier));
    pair.say(0, 4, "by the relay");
    assert_eq!(pair.state(0, 4), NoteState::Delivered);
    assert!(pair.puts.len() > before);
}

#[test]
fn msg_20_a_receipt_is_bound_to_no_carrier_below_the_level_of_its_cause() {
    let mut pair = Pair::friends();
    pair.goes_by(0, toy_first());
    pair.goes_by(1, toy_first());
    pair.knobs[1].waits.set(Some(WaitReason::NoCarrier));
    let before = pair.puts.len();
    pair.say(0, 3, "by the toy");
    assert_eq!(pair.state(0, 3), NoteState::Handed(TOY));
    assert_eq!((pair.puts.len(), pair.rows(1, RecordKind::Parcel)), (before, 0));
    // The toy is back: the receipt goes by it.
    pair.knobs[1].waits.set(None);
    let contact = pair.contact(1);
    let name = "alice".into();
    pair.command(1, Command::Rename { contact, name });
    assert_eq!((pair.state(0, 3), pair.puts.len()), (NoteState::Delivered, before));
}

#[test]
fn msg_25_the_roomiest_carrier_of_the_list_says_what_is_too_big() {
    let mut pair = Pair::asked();
    let long = |n| {
        let text = "x".repeat(8_192);
        let contact = ContactId(1);
        Input::Command(Command::Send { contact, client: [n; 16], text, life: None })
    };
    pair.goes_by(0, Policy { carriers: vec![TOY], ..Policy::default() });
    let refused = pair.devices[0].handle(long(3), START, &mut pair.rng);
    assert!(
        matches!(refused, Err(DeviceError::Person(PersonError::TooBig { max: 9_000, .. }))),
        "{refused:?}"
    );
    pair.goes_by(0, toy_first());
    pair.devices[0].handle(long(4), START, &mut pair.rng).expect("the relay takes it");
}

#[test]
fn msg_30_what_a_request_sends_and_does_not_open_is_not_kept() {
    let mut pair = Pair::asked();
    // Of a session that is not there.
    let foreign = [&[0x01, 0xf1, 0x01, 0x01, 0x02][..], &[0x42; 230]].concat();
    pair.brings(1, &foreign);
    assert_eq!(pair.rows(1, RecordKind::Held), 0);
    let contact = pair.contact(1);
    pair.command(1, Command::Accept { contact });
    pair.say(1, 2, "come in");
    let anew = |(who, event): &&(usize, Event)| *who == 0 && matches!(event, Event::Anew(..));
    assert_eq!(pair.shown.iter().find(anew), None, "no session begins anew for it");
    // Of whoever was let in it may be a session in trouble.
    pair.brings(1, &foreign);
    assert_eq!(pair.rows(1, RecordKind::Held), 1);
}
