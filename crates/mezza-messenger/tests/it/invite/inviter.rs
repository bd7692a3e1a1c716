//! The inviter's side: pins, other carriers, changes of mind, ends.

use mezza_core::{Machine as _, Time};
use mezza_messenger::CarrierId;
use mezza_messenger::evidence::{NoteState, WaitReason};
use mezza_messenger::policy::Policy;
use mezza_messenger::view::ContactState;
use mezza_messenger::{Command, ContactId, MixnetInput, RecordKind};

use super::{ANN, BEN, go_on, is_over};
use crate::model::Ask;
use crate::town::{ROUND_MS, Town, cells};

impl Town {
    /// Returns the number of envelopes to the relay for other members.
    fn puts(&self, who: usize) -> usize {
        let for_others = |ask: &&Ask| matches!(ask, Ask::Put(..) | Ask::Get(..));
        self.members[who].asked.iter().filter(for_others).count()
    }

    fn policy(&mut self, who: usize, contact: ContactId, policy: Policy) {
        self.command(who, Command::Policy { contact, policy }).expect("sound");
    }

    /// Ben asks who it is and lets them in.
    fn welcomed(&mut self) -> ContactId {
        let guest = self.until("an invitation", |town| town.guest(BEN));
        self.command(BEN, MixnetInput::AskWho(guest)).expect("seen");
        let ann = self.until("a request", |town| town.asks(BEN));
        self.command(BEN, Command::Accept { contact: ann }).expect("accepted");
        ann
    }

    fn delivered(&mut self, who: usize, note: mezza_messenger::NoteId) {
        self.until("the receipt", |town| {
            (town.state(who, note) == NoteState::Delivered).then_some(())
        });
    }
}

/// Those that are for somebody.
fn real(buckets: &[u32]) -> usize {
    buckets.iter().filter(|bucket| **bucket > 0).count()
}

#[test]
fn msg_20_above_the_relay_no_bundle_is_fetched_and_a_held_one_serves() {
    let mut town = Town::new(&["ann", "ben"]);
    let ben = town.add(ANN, BEN, Policy::default());
    town.policy(ANN, ben, cells(4));
    let note = town.say(ANN, ben, "not before it is safe");
    town.pass(10 * ROUND_MS);
    assert_eq!(town.state(ANN, note), NoteState::Queued(WaitReason::BelowPin));
    assert_eq!((town.puts(ANN), town.guest(BEN)), (0, None));
    // The bundle comes while the relay may know; then the relay is not needed any more.
    town.command(ANN, Command::Cancel { note }).expect("cancelled");
    town.policy(ANN, ben, cells(1));
    town.settle();
    assert_eq!(town.puts(ANN), 1);
    for who in [ANN, BEN] {
        town.members[who].relay = false;
        town.crash(who);
    }
    let note = town.say(ANN, ben, "guess who");
    town.welcomed();
    town.delivered(ANN, note);
    assert_eq!(town.puts(ANN), 1);
}

#[test]
fn msg_21_an_invitation_gives_way_to_the_relay() {
    for seen in [false, true] {
        let mut town = Town::new(&["ann", "ben"]);
        let ben = town.add(ANN, BEN, cells(1));
        let note = town.say(ANN, ben, "guess who");
        let guest = town.until("the invitation", |town| town.guest(BEN));
        if seen {
            town.command(BEN, MixnetInput::AskWho(guest)).expect("seen");
        }
        town.policy(ANN, ben, Policy::default());
        let ann = town.until("the request", |town| town.asks(BEN));
        assert_eq!(town.texts(BEN, ann), ["guess who"]);
        assert_eq!(town.guest(BEN), None);
        town.command(BEN, Command::Accept { contact: ann }).expect("accepted");
        town.delivered(ANN, note);
        let answer = town.say(BEN, ann, "by the way that it came");
        town.delivered(BEN, answer);
        assert_eq!(town.texts(ANN, ben), ["> guess who", "by the way that it came"]);
        // And back: both have chains, or get them.
        town.policy(ANN, ben, cells(1));
        town.policy(BEN, ann, cells(1));
        let again = town.say(ANN, ben, "in cells");
        town.delivered(ANN, again);
        assert_eq!(town.texts(BEN, ann)[2], "in cells");
    }
}

#[test]
fn msg_21_back_and_forth_while_an_invitation_is_out() {
    let mut town = Town::new(&["ann", "ben"]);
    let ben = town.add(ANN, BEN, cells(1));
    let note = town.say(ANN, ben, "guess who");
    town.members[ANN].relay = false;
    town.crash(ANN);
    town.policy(ANN, ben, Policy::default());
    town.pass(2 * ROUND_MS);
    town.policy(ANN, ben, cells(1));
    town.welcomed();
    town.delivered(ANN, note);
}

#[test]
fn a_contact_that_is_deleted_invites_no_more_and_can_be_invited_again() {
    let mut town = Town::new(&["ann", "ben"]);
    let ben = town.add(ANN, BEN, cells(1));
    town.say(ANN, ben, "guess who");
    let guest = town.until("the invitation", |town| town.guest(BEN));
    town.command(ANN, Command::Delete { contact: ben }).expect("deleted");
    assert!(!town.is_known(ANN, ben));
    let of_ben = [
        RecordKind::Contact,
        RecordKind::Session,
        RecordKind::Bundle,
        RecordKind::Parcel,
        RecordKind::Note,
    ];
    let left = town.members[ANN].disk.keys().find(|(kind, _)| of_ben.contains(kind));
    assert_eq!(left, None);
    town.command(BEN, MixnetInput::AskWho(guest)).expect("seen");
    town.pass(20 * ROUND_MS);
    assert_eq!((town.asks(BEN), town.guest(BEN)), (None, Some(guest)), "nobody is there");
    let ben = town.add(ANN, BEN, cells(1));
    let note = town.say(ANN, ben, "once more");
    town.until("another one", |town| town.guest(BEN).filter(|id| *id != guest));
    let ann = town.welcomed();
    town.delivered(ANN, note);
    assert_eq!(town.texts(BEN, ann), ["once more"]);
}

#[test]
fn a_bundle_that_has_ended_is_fetched_anew() {
    let mut town = Town::new(&["ann", "ben"]);
    let ben = town.add(ANN, BEN, cells(1));
    assert_eq!(town.puts(ANN), 1);
    town.sleep(20 * Time::DAY_MS);
    let note = town.say(ANN, ben, "guess who");
    town.welcomed();
    town.delivered(ANN, note);
    assert_eq!(town.puts(ANN), 2);
}

#[test]
fn slow_an_invitation_that_has_ended_is_made_anew() {
    let mut town = Town::new(&["ann", "ben"]);
    let ben = town.add(ANN, BEN, cells(1));
    let note = town.say(ANN, ben, "guess who");
    let guest = town.until("the invitation", |town| town.guest(BEN));
    town.sleep(32 * Time::DAY_MS);
    assert_eq!(town.guest(BEN), None, "nobody waits for 30 days");
    let ann = town.welcomed();
    town.delivered(ANN, note);
    assert!(ann != guest && town.texts(BEN, ann) == ["guess who"]);
}

#[test]
fn an_invitation_goes_again_in_the_next_round_and_then_lets_more_and_more_pass() {
    let mut town = Town::new(&["ann", "ben"]);
    let ben = town.add(ANN, BEN, cells(1));
    let note = town.say(ANN, ben, "guess who");
    let invitations = |town: &Town| real(&town.members[ANN].invitations);
    // Rounds are sealed around the time when they open: half a round off it, each interval holds one.
    town.pass(ROUND_MS / 2);
    town.members[BEN].net = false;
    town.hang_up(BEN);
    let mut rounds = Vec::new();
    for round in 0..20 {
        let before = invitations(&town);
        town.pass(ROUND_MS);
        rounds.extend((invitations(&town) > before).then_some(round));
    }
    let first = rounds[0];
    assert_eq!(rounds, [0, 1, 3, 7, 15].map(|later| first + later));
    // After a start it goes at once.
    town.crash(ANN);
    town.pass(4 * ROUND_MS);
    assert!(invitations(&town) > rounds.len());
    town.members[BEN].net = true;
    let ann = town.welcomed();
    town.delivered(ANN, note);
    assert_eq!(town.texts(BEN, ann), ["guess who"]);
}

#[test]
fn whoever_was_asked_is_called_again_and_after_a_start_too() {
    let mut town = Town::new(&["ann", "ben"]);
    let ben = town.add(ANN, BEN, cells(1));
    let note = town.say(ANN, ben, "guess who");
    let guest = town.until("the invitation", |town| town.guest(BEN));
    town.members[ANN].net = false;
    town.hang_up(ANN);
    // Rounds are sealed around the time when they open: half a round off it, each interval holds one.
    town.pass(ROUND_MS / 2);
    town.command(BEN, MixnetInput::AskWho(guest)).expect("seen");
    let asked = town.now();
    let calls = |town: &Town| real(&town.members[BEN].calls);
    town.pass(2 * ROUND_MS);
    assert_eq!(calls(&town), 1);
    // The device wakes for it on its own, also after a start.
    for hours in [1, 4, 12, 12] {
        town.sleep(hours * Time::HOUR_MS - 10 * Time::MINUTE_MS);
        town.crash(BEN);
        town.members[ANN].net = false;
        assert!(town.members[BEN].device.deadline().is_some_and(|at| at > town.now()));
    }
    assert!(town.now() > asked.plus_ms(Time::DAY_MS));
    let before = calls(&town);
    town.pass(3 * ROUND_MS);
    assert!(calls(&town) > before, "at each connection");
    town.members[ANN].net = true;
    let ann = town.until("a request", |town| town.asks(BEN));
    town.command(BEN, Command::Accept { contact: ann }).expect("accepted");
    town.delivered(ANN, note);
}

/// Ann and Ben invited each other, and each note arrived; each as the other's contact.
fn both_invited() -> (Town, ContactId, ContactId) {
    let mut town = Town::new(&["ann", "ben"]);
    let ben = town.add(ANN, BEN, cells(1));
    let ann = town.add(BEN, ANN, cells(1));
    let hello = town.say(ANN, ben, "hello");
    let hi = town.say(BEN, ann, "hi");
    town.delivered(ANN, hello);
    town.delivered(BEN, hi);
    (town, ann, ben)
}

#[test]
fn two_who_invite_each_other_meet() {
    let (town, ann, ben) = both_invited();
    assert_eq!(town.texts(ANN, ben), ["> hello", "hi"]);
    assert_eq!(town.texts(BEN, ann), ["> hi", "hello"]);
    assert!(town.members[ANN].device.inviters().is_empty());
    assert!(town.members[BEN].device.inviters().is_empty());
}

#[test]
fn a_guest_whose_card_comes_by_hand_is_a_contact() {
    let mut town = Town::new(&["ann", "ben"]);
    let ben = town.add(ANN, BEN, cells(1));
    let note = town.say(ANN, ben, "guess who");
    let guest = town.until("the invitation", |town| town.guest(BEN));
    let card = town.card(ANN);
    let add = Command::Add { card, petname: None, in_person: true };
    town.command(BEN, add).expect("added");
    let contacts = town.members[BEN].device.contacts();
    assert_eq!(
        (contacts.len(), contacts[0].id, contacts[0].standing),
        (1, guest, ContactState::Open)
    );
    assert_eq!(
        (town.guest(BEN), &contacts[0].policy.carriers[..]),
        (None, &[CarrierId::MIXNET][..])
    );
    town.delivered(ANN, note);
    for _ in 0..60 {
        go_on(&mut town, ben);
        town.pass(ROUND_MS);
    }
    assert_eq!(town.members[BEN].device.contacts().len(), 1, "one key, one contact");
    assert!(is_over(&town) || town.texts(BEN, guest).len() == 4);
    assert_eq!(town.puts(BEN), 0);
}

#[test]
fn an_invitation_of_somebody_known_is_a_first_message() {
    for stage in [ContactState::Held, ContactState::Open, ContactState::Blocked] {
        let mut town = Town::new(&["ann", "ben"]);
        let ann = town.add(BEN, ANN, cells(1));
        let ben = town.add(ANN, BEN, cells(1));
        if stage == ContactState::Open {
            let note = town.say(BEN, ann, "first");
            town.delivered(BEN, note);
            town.command(ANN, Command::Delete { contact: ben }).expect("deleted");
        }
        if stage == ContactState::Blocked {
            let block = Command::Block { contact: ann, blocked: true };
            town.command(BEN, block).expect("blocked");
        }
        let ben = if stage == ContactState::Open { town.add(ANN, BEN, cells(1)) } else { ben };
        let note = town.say(ANN, ben, "guess who");
        if stage == ContactState::Blocked {
            let before = town.members[BEN].calls.len();
            town.pass(20 * ROUND_MS);
            assert!(town.members[BEN].calls[before..].iter().all(|bucket| *bucket == 0));
            assert_eq!(town.standing(BEN, ann), ContactState::Blocked);
            assert!(town.texts(BEN, ann).is_empty() && town.guest(BEN).is_none());
            continue;
        }
        town.delivered(ANN, note);
        assert_eq!(town.texts(BEN, ann).last().map(String::as_str), Some("guess who"));
        assert!(town.members[BEN].device.inviters().is_empty());
    }
}

#[test]
fn slow_the_chains_of_an_invitation_end_with_it() {
    let mut town = Town::new(&["ann", "ben"]);
    let ben = town.add(ANN, BEN, cells(1));
    town.say(ANN, ben, "guess who");
    town.until("the invitation", |town| town.guest(BEN));
    assert!(town.is_known(ANN, ben));
    town.sleep(32 * Time::DAY_MS);
    assert!(!town.is_known(ANN, ben), "a root that nobody will ever use");
}

#[test]
fn slow_an_inviter_whose_invitation_has_ended_leaves_nothing() {
    let mut town = Town::new(&["ann", "ben"]);
    let ben = town.add(ANN, BEN, cells(1));
    town.say(ANN, ben, "guess who");
    let guest = town.until("the invitation", |town| town.guest(BEN));
    let rows = |town: &Town| {
        let number = guest.0.to_be_bytes();
        let of_people = |kind: &RecordKind| {
            let prekeys = matches!(kind, RecordKind::Prekey | RecordKind::NetworkRow);
            !prekeys && !matches!(kind, RecordKind::Mailbox | RecordKind::Note)
        };
        let rows = town.members[BEN].disk.keys();
        rows.filter(|(kind, key)| of_people(kind) && key.starts_with(&number)).count()
    };
    assert!(rows(&town) > 1);
    town.sleep(32 * Time::DAY_MS);
    assert_eq!((town.guest(BEN), rows(&town)), (None, 0));
    // A start finds everything that is there.
    town.crash(BEN);
}

#[test]
fn two_who_invite_each_other_begin_one_better_session_at_most() {
    let (mut town, ann, ben) = both_invited();
    town.pass(60 * ROUND_MS);
    let sessions = |who: usize, of: ContactId| {
        let rows = town.members[who].disk.keys();
        let own = rows.filter(|(kind, key)| {
            *kind == RecordKind::Session && key.starts_with(&of.0.to_be_bytes())
        });
        own.count()
    };
    assert_eq!(town.suite(ANN, ben), town.suite(BEN, ann));
    assert_eq!(sessions(ANN, ben), sessions(BEN, ann));
    // That of each invitation, and one more.
    assert!(sessions(ANN, ben) <= 3, "two better ones");
}
