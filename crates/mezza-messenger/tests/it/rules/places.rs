//! Mailboxes that one carrier announces and another one uses (MSG-31, MSG-154).

use mezza_core::Time;
use mezza_messenger::evidence::NoteState;
use mezza_messenger::policy::{Fallback, Policy};
use mezza_messenger::{CarrierId, ContactId, NoteId};

use crate::model::Ask;
use crate::town::Town;

const PREFERS_RELAY: [CarrierId; 2] = [CarrierId::RELAY, CarrierId::MESH];
const PREFERS_MESH: [CarrierId; 2] = [CarrierId::MESH, CarrierId::RELAY];

/// Ann and Ben with a relay and a mesh; each goes by carriers of its own.
fn friends(of_ann: &[CarrierId], of_ben: &[CarrierId]) -> (Town, [ContactId; 2]) {
    let mut town = Town::new(&["ann", "ben"]);
    (0..2).for_each(|who| town.give_tree(who));
    let policy = |carriers: &[CarrierId]| Policy {
        carriers: carriers.to_vec(),
        fallback: Fallback::Listed,
        ..Policy::default()
    };
    let contacts = [town.add(0, 1, policy(of_ann)), town.add(1, 0, policy(of_ben))];
    (town, contacts)
}

/// Bundles that a member has fetched: it began as many sessions over the relay at most.
fn count_fetches(town: &Town, who: usize) -> usize {
    town.members[who].asked.iter().filter(|ask| matches!(ask, Ask::Get(..))).count()
}

fn deliver(town: &mut Town, who: usize, note: NoteId) {
    town.pass_ticks(Time::MINUTE_MS);
    assert_eq!(town.state(who, note), NoteState::Delivered);
}

#[test]
fn msg_154_a_hello_over_the_mesh_names_the_mailbox_at_the_relay() {
    let (mut town, [to_ben, to_ann]) = friends(&PREFERS_RELAY, &PREFERS_MESH);
    for round in 0..3 {
        let note = town.say(0, to_ben, &format!("over the relay, {round}"));
        deliver(&mut town, 0, note);
        let note = town.say(1, to_ann, &format!("over the mesh, {round}"));
        deliver(&mut town, 1, note);
    }
    let fetches = [0, 1].map(|who| count_fetches(&town, who));
    assert!(fetches.iter().all(|fetches| *fetches <= 1), "{fetches:?}");
}

#[test]
fn msg_31_slow_a_contact_that_names_no_mailbox_causes_no_session_for_each_note() {
    // Ben writes over the mesh alone, so he has no mailbox for Ann.
    let (mut town, [to_ben, to_ann]) = friends(&[CarrierId::RELAY], &[CarrierId::MESH]);
    for round in 0..10 {
        town.say(0, to_ben, &format!("over the relay, {round}"));
        town.say(1, to_ann, &format!("over the mesh, {round}"));
        town.pass_ticks(Time::MINUTE_MS);
    }
    let fetches = count_fetches(&town, 0);
    assert!(fetches <= 2, "{fetches} in 10 minutes");
    // What waited for a session has arrived after it.
    town.pass_ticks(25 * Time::MINUTE_MS);
    let own = town.thread(0, to_ben).into_iter().filter(|note| !note.incoming);
    let open: Vec<_> = own.filter(|note| note.state != NoteState::Delivered).collect();
    assert!(open.is_empty(), "{open:?}");
    // Receipts for notes over the mesh, of level 2, do not leave over a relay of level 1 (MSG-20).
    let texts = town.texts(0, to_ben);
    let shown = |round| texts.contains(&format!("over the mesh, {round}"));
    assert!((0..10).all(shown), "{texts:?}");
}
