//! The invited side: incoming messages, and the state that stays of them.

use mezza_core::{EphemeralKey, PortableBackend, Time};
use mezza_messenger::card::{Card, CardDraft};
use mezza_messenger::note::{Era, Item, MixnetStart, Note};
use mezza_messenger::view::ContactState;
use mezza_messenger::{
    CallerError, Command, ContactId, DeviceError, Input, MixnetInput, PersonError, RecordKind,
    RequestId,
};
use mezza_mixnet::Service;
use mezza_mixnet::config::NetworkId;
use mezza_ratchet::{Bundle, Conversation, IdentityKeyPair, OneTimePrekey, Padding, SuiteList};

use super::{ANN, BEN};
use crate::keyed_peer::{identity, seal, wrap};
use crate::model::Ask;
use crate::stage::{Disk, START};
use crate::town::{ROUND_MS, Town, cells, config};

/// Somebody without a device, who can write what no device writes.
struct Stranger {
    identity: IdentityKeyPair,
    talk: Conversation<PortableBackend>,
}

impl Stranger {
    fn new(scalar: u8) -> Self {
        Self::of(identity(scalar))
    }

    fn of(identity: IdentityKeyPair) -> Self {
        let talk = Conversation::new(identity.public_key(), identity.public_key());
        Self { identity, talk }
    }

    /// An invitation like that of a device.
    fn plain(&mut self, town: &mut Town) -> [u8; 208] {
        let items = ours(town);
        self.invitation(town, BEN, items)
    }

    /// A first message of 208 bytes to `whom`, from the bundle that its relay gives.
    fn invitation(&mut self, town: &mut Town, whom: usize, items: Vec<Item>) -> [u8; 208] {
        let card = town.card(whom);
        let shelf = town.relay.store.bundles.get_mut(&card.relays()[0].address).expect("there");
        let bundle = shelf.0.clone();
        let one_time = shelf.1.pop();
        self.begin(town, &card, &bundle, one_time);
        self.seal(town, items, Padding::To(208)).try_into().expect("208 bytes")
    }

    fn begin(
        &mut self,
        town: &mut Town,
        card: &Card,
        bundle: &[u8],
        one_time: Option<OneTimePrekey>,
    ) {
        let bundle = Bundle::decode(bundle).expect("a bundle");
        let bundle =
            bundle.check_with(&SuiteList::without_kem(), card.ik(), card.suites(), town.now());
        let fresh = EphemeralKey::random::<PortableBackend>(&mut town.rng);
        let begun =
            bundle.expect("sound").initiate_session(&self.identity, fresh, one_time, &mut town.rng);
        self.talk = Conversation::new(self.identity.public_key(), *card.ik());
        let _ = self.talk.add_session(begun.expect("a session").0, town.now());
    }

    fn seal(&mut self, town: &mut Town, items: Vec<Item>, padding: Padding) -> Vec<u8> {
        let note = Note { era: Era([9; 4]), seq: 0, sent: town.now(), timer_s: 0, items };
        let now = town.now();
        seal(&mut self.talk, &note.encode(), padding, now, &mut town.rng).expect("it fits")
    }

    /// Into the intro mailbox of `whom`.
    fn post(&mut self, town: &mut Town, whom: usize, items: Vec<Item>) {
        let message = self.seal(town, items, Padding::Blocks);
        Self::mail(town, whom, &message);
    }

    fn mail(town: &mut Town, whom: usize, message: &[u8]) {
        let entry = town.card(whom).relays()[0].clone();
        let (bundle, _) = town.relay.store.bundles[&entry.address].clone();
        let bundle = Bundle::decode(&bundle).expect("a bundle");
        let checked = bundle.check(town.card(whom).ik(), town.card(whom).suites(), town.now());
        let to = (entry.address, *checked.expect("sound").spk());
        let bytes = wrap(to.0, to.1, message, &mut town.rng).expect("fits");
        town.hears(99, Ask::Put(RequestId(1), entry.address, bytes));
    }

    fn card(&self, town: &mut Town) -> Vec<u8> {
        let serial = 70_000;
        let issued_days = START.as_days();
        let draft = CardDraft {
            serial,
            issued_days,
            suites: SuiteList::our_suites(),
            name: "",
            relays: Vec::new(),
        };
        Card::issue(&self.identity, draft, &mut town.rng).expect("a sound card").encode()
    }
}

/// Rounds of now, in this network or another one.
fn meet(town: &Town, network: NetworkId) -> MixnetStart {
    let config = config();
    let round = |service| config.find_policy(service).and_then(|(_, p)| p.round_at(town.now()));
    let conversation = round(Service::Conversation);
    let call = round(Service::Call);
    let conversation = conversation.expect("begun");
    let call = call.expect("begun");
    MixnetStart { network, conversation, call, root: None }
}

fn ours(town: &Town) -> Vec<Item> {
    vec![Item::Meet(meet(town, config().network))]
}

/// Ann's device carries what somebody else wrote into Ben's bucket.
fn carried(town: &mut Town, body: [u8; 208]) {
    let to = town.card(BEN).mixnet().expect("in the network").dialling;
    town.members[ANN].post = Some((to, body));
    town.pass(4 * ROUND_MS);
    assert!(town.members[ANN].post.is_none(), "it was in a round");
}

/// Returns the disk without the only trace of a refused unknown sender: used prekeys.
fn kept(town: &Town, who: usize) -> Disk {
    let passes = [RecordKind::Prekey, RecordKind::NetworkRow, RecordKind::Profile];
    let mut disk = town.members[who].disk.clone();
    disk.retain(|(kind, _), _| !passes.contains(kind));
    disk
}

fn invited(town: &mut Town, stranger: &mut Stranger) -> ContactId {
    let body = stranger.plain(town);
    carried(town, body);
    town.guest(BEN).expect("a guest")
}

#[test]
fn msg_26_a_guest_gets_nothing_before_the_person_asks() {
    let quiet = |is_invited: bool| {
        let mut town = Town::new(&["ann", "ben"]);
        let mut stranger = Stranger::new(11);
        if is_invited {
            let guest = invited(&mut town, &mut stranger);
            assert_eq!(
                town.command(BEN, Command::Accept { contact: guest }),
                Err(DeviceError::Person(PersonError::NoCard))
            );
        } else {
            town.pass(4 * ROUND_MS);
        }
        town.pass(20 * ROUND_MS);
        let ben = &town.members[BEN];
        assert!(ben.calls.len() > 20 && ben.calls.iter().all(|bucket| *bucket == 0));
        // Chance alone tells in which order the services of one round come.
        let mut frames = ben.frames.clone();
        frames.sort_unstable();
        (frames, ben.asked.len(), ben.device.inviters().len())
    };
    let with = quiet(true);
    let without = quiet(false);
    assert!(with.0 == without.0 && with.1 == without.1, "an invitation changes what leaves");
    assert_eq!((with.2, without.2), (1, 0));
}

#[test]
fn msg_26_whoever_is_turned_away_leaves_nothing() {
    let mut town = Town::new(&["ann", "ben"]);
    let before = kept(&town, BEN);
    for (scalar, seen) in [(11, false), (12, true)] {
        let guest = invited(&mut town, &mut Stranger::new(scalar));
        if seen {
            town.command(BEN, MixnetInput::AskWho(guest)).expect("seen");
            assert!(town.is_known(BEN, guest));
        }
        town.command(BEN, Command::Refuse { contact: guest }).expect("refused");
        assert!(kept(&town, BEN) == before && !town.is_known(BEN, guest));
        for command in
            [Input::from(MixnetInput::AskWho(guest)), Command::Refuse { contact: guest }.into()]
        {
            assert_eq!(
                town.command(BEN, command),
                Err(DeviceError::Caller(CallerError::NoSuchContact))
            );
        }
    }
    // With card and note, too: a request is more than a guest.
    let ben = town.add(ANN, BEN, cells(1));
    town.say(ANN, ben, "guess who");
    let guest = town.until("the invitation", |town| town.guest(BEN));
    town.command(BEN, MixnetInput::AskWho(guest)).expect("seen");
    let ann = town.until("the request", |town| town.asks(BEN));
    assert_eq!(
        town.command(BEN, MixnetInput::AskWho(ann)),
        Err(DeviceError::Person(PersonError::NotNow))
    );
    town.command(BEN, Command::Refuse { contact: ann }).expect("refused");
    assert!(kept(&town, BEN) == before, "rows of a request stay");
    assert!(!town.is_known(BEN, ann), "the client goes on with the chains of a request");
}

#[test]
fn msg_30_an_invitation_that_is_none_leaves_nothing() {
    let mut town = Town::new(&["ann", "ben"]);
    let before = kept(&town, BEN);
    let elsewhere = vec![Item::Meet(meet(&town, NetworkId([0xbb; 16])))];
    let items = [elsewhere, vec![], vec![Item::Text("hello".into())]];
    for (scalar, items) in (21..).zip(items) {
        let body = Stranger::new(scalar).invitation(&mut town, BEN, items);
        carried(&mut town, body);
    }
    carried(&mut town, [0xf1; 208]);
    let mut cut = Stranger::new(30).plain(&mut town);
    cut[200] ^= 1;
    carried(&mut town, cut);
    assert!(town.members[BEN].device.inviters().is_empty());
    assert!(kept(&town, BEN) == before, "something of it stays");
    let refusals = town.members[BEN].device.reject_counts();
    assert_eq!((refusals.notes, refusals.messages), (3, 2));
}

#[test]
fn msg_17_an_invitation_that_comes_again_is_the_same() {
    for with_one_time in [true, false] {
        let mut town = Town::new(&["ann", "ben"]);
        let address = town.card(BEN).relays()[0].address;
        if !with_one_time {
            town.relay.store.bundles.get_mut(&address).expect("there").1.clear();
        }
        let mut stranger = Stranger::new(11);
        let body = stranger.plain(&mut town);
        carried(&mut town, body);
        let guest = town.guest(BEN).expect("a guest");
        let before = kept(&town, BEN);
        carried(&mut town, body);
        assert!(kept(&town, BEN) == before, "the first one has used its keys");
        // A new one from the same key takes the place of the first.
        town.command(BEN, MixnetInput::AskWho(guest)).expect("seen");
        let newer = invited(&mut town, &mut stranger);
        assert!(newer != guest && town.members[BEN].device.inviters().len() == 1);
        assert!(!town.is_known(BEN, guest));
        // Nothing of the first one is left for the next start to wonder at.
        let number = guest.0.to_be_bytes();
        let of_guest =
            |kind: &RecordKind| matches!(kind, RecordKind::Session | RecordKind::Inviter);
        let rows = town.members[BEN].disk.keys();
        assert_eq!(
            rows.filter(|(kind, key)| of_guest(kind) && key.starts_with(&number)).count(),
            0
        );
        town.crash(BEN);
    }
}

#[test]
fn msg_35_slow_no_more_strangers_than_64() {
    let mut town = Town::new(&["ann", "ben"]);
    for n in 0..65 {
        let body = Stranger::new(100 + n).plain(&mut town);
        carried(&mut town, body);
    }
    assert_eq!(town.members[BEN].device.inviters().len(), 64);
    town.crash(BEN);
    town.pass(3 * ROUND_MS);
    assert_eq!(town.members[BEN].device.inviters().len(), 64);
    // A stranger's mail stays at the relay; once somebody is turned away there is room again.
    let guest = town.guest(BEN).expect("many");
    town.command(BEN, Command::Refuse { contact: guest }).expect("refused");
    invited(&mut town, &mut Stranger::new(200));
    assert_eq!(town.members[BEN].device.inviters().len(), 64);
    // Nobody stays longer than 30 days.
    town.sleep(31 * Time::DAY_MS);
    assert!(town.members[BEN].device.inviters().is_empty());
}

#[test]
fn msg_7_a_guest_with_the_card_of_somebody_else_is_no_request() {
    let mut town = Town::new(&["ann", "ben"]);
    let mut stranger = Stranger::new(11);
    let guest = invited(&mut town, &mut stranger);
    let own = stranger.card(&mut town);
    let other = Stranger::new(12).card(&mut town);
    let hello = |card: &[u8]| Item::Hello { slot: None, tag: Some([0; 8]), card: card.to_vec() };
    stranger.post(&mut town, BEN, vec![hello(&other), Item::Text("I am twelve".into())]);
    assert_eq!((town.guest(BEN), town.asks(BEN)), (Some(guest), None));
    assert_eq!(town.members[BEN].device.reject_counts().notes, 1);
    stranger.post(&mut town, BEN, vec![hello(&own)]);
    assert_eq!((town.guest(BEN), town.asks(BEN)), (None, Some(guest)));
}

#[test]
fn msg_26_what_is_written_in_the_name_of_a_contact_starts_nothing() {
    let mut town = Town::new(&["ann", "ben", "cleo"]);
    let cleo = town.add(BEN, 2, mezza_messenger::policy::Policy::default());
    // Anybody can put a key that is public in front of a message.
    let mut body = Stranger::new(11).plain(&mut town);
    let stranger = *Stranger::new(11).identity.public_key().as_bytes();
    let at = body.windows(32).position(|bytes| *bytes == stranger).expect("in the clear");
    let key = *town.card(2).ik().as_bytes();
    body[at..at + 32].copy_from_slice(&key);
    let before = kept(&town, BEN);
    let asked = town.members[BEN].asked.len();
    carried(&mut town, body);
    Stranger::mail(&mut town, BEN, &body);
    town.pass(10 * ROUND_MS);
    assert_eq!(town.standing(BEN, cleo), ContactState::Held);
    assert!(kept(&town, BEN) == before, "a forged invitation changes something");
    let fetches = town.members[BEN].asked[asked..].iter().any(|ask| matches!(ask, Ask::Get(..)));
    assert!(!fetches, "and tells the relay whom Ben knows");
    // And our own key invites nobody.
    let own = *town.card(BEN).ik().as_bytes();
    body[at..at + 32].copy_from_slice(&own);
    carried(&mut town, body);
    assert!(kept(&town, BEN) == before);
    assert_eq!(town.members[BEN].device.reject_counts().messages, 3);
}
