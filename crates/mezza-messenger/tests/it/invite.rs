//! First contact by an invitation over the mixnet (messenger 4.4).

use mezza_core::suite::SuiteId;
use mezza_messenger::CarrierId;
use mezza_messenger::evidence::NoteState;
use mezza_messenger::view::{ContactState, NoteView};
use mezza_messenger::{Command, ContactId, MixnetInput, RecordKind};
use mezza_sim::for_each_seed;

use crate::model::Ask;
use crate::town::{Doom, ROUND_MS, Town, cells};

mod inviter;
mod strangers;

const ANN: usize = 0;
const BEN: usize = 1;
/// The first suite of a present card.
const BETTER: SuiteId = SuiteId(0x0102);

impl Town {
    fn guest(&self, who: usize) -> Option<ContactId> {
        self.members[who].device.inviters().first().map(|guest| guest.id)
    }

    fn asks(&self, who: usize) -> Option<ContactId> {
        let contacts = self.members[who].device.contacts();
        contacts.iter().find(|view| view.standing == ContactState::Request).map(|view| view.id)
    }

    fn standing(&self, who: usize, contact: ContactId) -> ContactState {
        self.members[who].device.contact(contact).expect("there").standing
    }

    fn suite(&self, who: usize, contact: ContactId) -> Option<SuiteId> {
        self.members[who].device.session(contact).map(|summary| summary.suite)
    }

    /// Rounds pass until something is there.
    fn until<T>(&mut self, what: &str, mut there: impl FnMut(&mut Self) -> Option<T>) -> T {
        for _ in 0..120 {
            if let Some(found) = there(self) {
                return found;
            }
            self.pass(ROUND_MS);
        }
        let say = |who: usize| {
            let device = &self.members[who].device;
            let notes = device.outbox(self.now());
            let notes: Vec<_> = notes.into_iter().map(|note| (note.state, note.carrier)).collect();
            let views = device.contacts().into_iter();
            let views = views.map(|view| (view.standing, view.trouble)).collect::<Vec<_>>();
            format!("{notes:?} {views:?} {} {:?}", device.inviters().len(), device.reject_counts())
        };
        panic!("{what} does not come: {} / {}", say(ANN), say(BEN));
    }
}

/// The notes of the story: who writes, under which number, what.
const NOTES: [(usize, u8, &str); 3] =
    [(ANN, 1, "guess who"), (BEN, 2, "now I know"), (ANN, 3, "and in the better suite")];

/// Lets both people go on as people do, whatever state their devices are in.
fn go_on(town: &mut Town, ben: ContactId) {
    let say = |town: &mut Town, note: usize, contact| {
        let (who, client, text) = NOTES[note];
        let send = Command::Send { contact, client: [client; 16], text: text.into(), life: None };
        town.command(who, send).expect("a note is accepted, and once only");
    };
    say(town, 0, ben);
    if let Some(guest) = town.guest(BEN) {
        town.command(BEN, MixnetInput::AskWho(guest)).expect("whoever invites is seen");
    }
    if let Some(ann) = town.asks(BEN) {
        town.command(BEN, Command::Accept { contact: ann }).expect("a request is accepted");
    }
    let ann = *town.card(ANN).ik().as_bytes();
    if let Some(ann) = town.members[BEN].device.contact_by_ik(&ann) {
        say(town, 1, ann);
    }
    if town.texts(ANN, ben).iter().any(|text| text == NOTES[1].2) {
        say(town, 2, ben);
    }
}

/// Returns true if both know that everything arrived, in the better suite, and meet under a fresh root.
fn is_over(town: &Town) -> bool {
    let other = |who: usize| town.members[who].device.contacts().first().map(|view| view.id);
    [ANN, BEN].into_iter().all(|who| {
        let Some(contact) = other(who) else { return false };
        let thread = town.thread(who, contact);
        let delivered =
            thread.iter().all(|note| note.incoming || note.state == NoteState::Delivered);
        let fresh = town.members[who].lines.last().is_some_and(|line| *line > 0);
        thread.len() == NOTES.len()
            && delivered
            && fresh
            && town.suite(who, contact) == Some(BETTER)
    })
}

/// The whole story; somebody may die in it.
fn story(doom: Option<(usize, Doom)>) -> (Town, ContactId, [usize; 2]) {
    let mut town = Town::new(&["ann", "ben"]);
    let from = [ANN, BEN].map(|who| town.members[who].batches.len());
    if let Some((who, Doom(batch, late))) = doom {
        town.members[who].doom = Some(Doom(batch + from[who] as u32, late));
    }
    let ben = town.add(ANN, BEN, cells(1));
    for _ in 0..500 {
        go_on(&mut town, ben);
        if is_over(&town) {
            return (town, ben, from);
        }
        town.pass(ROUND_MS);
    }
    panic!("the story does not end: {doom:?} {:?}", town.texts(ANN, ben));
}

/// Everything arrived once, and nothing is left of how they met.
fn ended_well(town: &Town, ben: ContactId) {
    let ann = town.members[BEN].device.contacts()[0].id;
    assert_eq!(town.texts(ANN, ben), ["> guess who", "now I know", "> and in the better suite"]);
    assert_eq!(town.texts(BEN, ann), ["guess who", "> now I know", "and in the better suite"]);
    for (who, contact) in [(ANN, ben), (BEN, ann)] {
        assert_eq!(town.standing(who, contact), ContactState::Open);
        // The bundles that they told each other since begin with 01 01.
        let gone = |((kind, _), row): &(&(RecordKind, Vec<u8>), &Vec<u8>)| match kind {
            RecordKind::Bundle => !row.starts_with(&[1, 1]),
            kind => matches!(kind, RecordKind::Inviter | RecordKind::Parcel),
        };
        let left = town.members[who].disk.iter().find(gone);
        assert_eq!(left, None, "what an invitation needed is not needed any more");
    }
}

#[test]
fn a_stranger_is_met_in_cells_alone() {
    let (mut town, ben, _) = story(None);
    town.pass(6 * ROUND_MS);
    ended_well(&town, ben);
    let is_cells = |note: &NoteView| note.carrier == Some(CarrierId::MIXNET);
    for (who, asked) in town.members.iter().map(|member| &member.asked).enumerate() {
        assert!(asked.iter().all(|ask| !matches!(ask, Ask::Put(..))), "nothing in a mailbox");
        let fetches = asked.iter().filter(|ask| matches!(ask, Ask::Get(..))).count();
        assert_eq!(fetches, usize::from(who == ANN), "the inviter's one bundle");
        let contact = town.members[who].device.contacts()[0].id;
        assert!(town.thread(who, contact).iter().all(is_cells));
    }
}

#[test]
fn msg_15_slow_a_crash_behind_any_batch_of_a_first_contact_loses_and_doubles_nothing() {
    let (town, _, from) = story(None);
    let batches = [ANN, BEN].into_iter().flat_map(|who| {
        let own = (1..).zip(&town.members[who].batches[from[who]..]);
        // Behind rows of the mixnet's client alone its own tests die often enough.
        own.filter(|(batch, more)| **more || batch % 8 == 0).map(move |(batch, _)| (who, batch))
    });
    let dooms = batches.flat_map(|(who, n)| [false, true].map(|late| (who, Doom(n, late))));
    let dooms: Vec<(usize, Doom)> = dooms.collect();
    // As many seeds as there are dooms try each of them; fewer are spread over the story.
    for_each_seed(16, |seed| {
        let doom = dooms[seed as usize * 37 % dooms.len()];
        let (mut town, ben, _) = story(Some(doom));
        assert!(town.members[doom.0].doom.is_none(), "nobody died");
        town.pass(2 * ROUND_MS);
        ended_well(&town, ben);
    });
}
